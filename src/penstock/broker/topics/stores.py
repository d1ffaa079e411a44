"""Which messages of a publish are stored for sessions that outlive their connection."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.broker.sessions.targets import RETAIN, Targets
from penstock.broker.topics.publication import QOS
from penstock.broker.topics.router import Receiver
from penstock.broker.topics.subscriptions import Subscriber


def _flag_table(qos: int, keeps_retain: bool) -> bytes:
    """What becomes of a message's flags where it is stored."""
    return bytes([min(flag & QOS, qos) | (flag & RETAIN if keeps_retain else 0) for flag in range(256)])


_FLAGS = {(qos, keeps): _flag_table(qos, keeps) for qos in range(3) for keeps in (False, True)}

Stored: TypeAlias = "dict[Subscriber, tuple[array[int], bytes]]"
"""rows, rising, and the flags of each"""


def store(flags: bytes, receiver: Receiver, rows: array[int], layers: list[Stored]) -> None:
    """Rows with QoS, if that matters to the receiver. One that gets a row once more, as a member of a shared
    subscription beside a plain one, gets it in another layer."""
    if not receiver.qos:
        return
    mine = array("i", [row for row in rows if flags[row] & QOS])
    if not mine:
        return
    kept = bytes([flags[row] for row in mine]).translate(_FLAGS[receiver.qos, receiver.retain_as_published])
    _put(receiver.subscriber, mine, kept, layers)


def store_unassured(
    flags: bytes, subscriber: Subscriber, keeps_retain: bool, rows: array[int], layers: list[Stored]
) -> None:
    """Rows that go out with QoS 0."""
    kept = bytes([flags[row] for row in rows]).translate(_FLAGS[0, keeps_retain])
    _put(subscriber, rows, kept, layers)


def _put(subscriber: Subscriber, rows: array[int], flags: bytes, layers: list[Stored]) -> None:
    for layer in layers:
        before = layer.get(subscriber)
        if before is None or set(before[0]).isdisjoint(rows):
            layer[subscriber] = (rows, flags) if before is None else _merged(*before, rows, flags)
            return
    layers.append({subscriber: (rows, flags)})


def _merged(rows: array[int], flags: bytes, more_rows: array[int], more_flags: bytes) -> tuple[array[int], bytes]:
    pairs = sorted(zip([*rows, *more_rows], flags + more_flags, strict=True))
    return array("i", [row for row, _ in pairs]), bytes([flag for _, flag in pairs])


def targets_of(layer: Stored) -> Targets:
    targets = Targets()
    for subscriber, (rows, flags) in layer.items():
        assert subscriber.stored is not None
        targets.add(subscriber.stored, rows, flags)
    return targets
