"""Topic aliases to a client: short numbers for the topics it was sent first."""

from __future__ import annotations

from array import array
from collections.abc import Sequence


class TopicAliases:
    """Of one connection, as many as its client takes. What is told in a packet that is not sent is not told."""

    __slots__ = ("_maximum", "_numbers")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._numbers: dict[bytes, int] = {}

    def of(self, topics: Sequence[bytes]) -> array[int]:
        """As mqtt_encode.mark_aliases wants them: 0 for none, below 0 where it has to be told first."""
        found, free = array("i"), len(self._numbers)
        for topic in topics:
            number = self._numbers.get(topic, 0)
            if not number and free < self._maximum:
                free += 1
                number = -free
            found.append(number)
        return found

    def told(self, topics: Sequence[bytes], aliases: array[int]) -> None:
        """Packets with these went out; `aliases` are as mark_aliases left them."""
        for topic, alias in zip(topics, aliases, strict=True):
            if alias > 0:
                self._numbers[topic] = alias
