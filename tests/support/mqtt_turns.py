"""What a gateway takes in one turn, and together."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tests.support.mqtt_gateway import RunningGateway

from penstock.gateways.mqtt.inbound.arrival import Arrived

Ints: TypeAlias = "array[int]"
PATIENCE_S = 30.0


def watched(mqtt: RunningGateway) -> list[bool]:
    """Of each turn with publishes from now on: whether all of them were taken together."""
    publishes, found = mqtt.gateway.turns.publishes, list[bool]()
    apart = publishes._apart

    def watch(*arguments: object, **named: object) -> Ints:
        marks = apart(*arguments, **named)  # type: ignore[arg-type]  # passed on as they are
        found.append(not any(marks))
        return marks

    mqtt.call(lambda: setattr(publishes, "_apart", watch))
    return found


def barred(mqtt: RunningGateway) -> None:
    """From now on every connection is taken on its own."""
    publishes = mqtt.gateway.turns.publishes

    def all_of_them(arrived: Arrived, *_: object, **__: object) -> Ints:
        return array("i", [1]) * (max(arrived.regions) + 1)

    mqtt.call(lambda: setattr(publishes, "_apart", all_of_them))


@contextmanager
def one_turn(mqtt: RunningGateway) -> Iterator[None]:
    """All that is sent inside is received in one turn of the loop."""
    begun, over = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        over.wait(PATIENCE_S)

    mqtt._loop.call_soon_threadsafe(hold)
    begun.wait(PATIENCE_S)
    yield
    over.set()
