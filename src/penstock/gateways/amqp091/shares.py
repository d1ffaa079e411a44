"""What is whose among messages of several channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.confirms import Mark
from penstock.gateways.amqp091.connection import Connection


@dataclass(slots=True)
class Share:
    """Messages that follow each other: `places` of what a channel published together."""

    connection: Connection
    channel: Channel
    mark: Mark | None
    """if the channel is told what becomes of them"""
    places: Sequence[int]


def split(shares: Sequence[Share], marks: bytearray, wanted: int) -> list[Share]:
    """Of each the messages with this mark; there is one for every message."""
    found = []
    for share, stop in zip(shares, accumulate([len(share.places) for share in shares]), strict=True):
        mine = marks[stop - len(share.places) : stop]
        places = [place for place, mark in zip(share.places, mine, strict=True) if mark == wanted]
        if places:
            found.append(Share(share.connection, share.channel, share.mark, places))
    return found
