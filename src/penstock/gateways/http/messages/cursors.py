"""Where a reader of a queue stands: the next offset of each partition."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.broker.queues.queue import Queue
from penstock.core.errors import InvalidArgument
from penstock.core.types import MAX_PARTITIONS

_PAIR = re.compile("(0|[1-9][0-9]{0,4}):(0|[1-9][0-9]{0,17})")
_BEGINNING = "0:0"


class Vector:
    """Never changed. A partition that is not named is at 0, so that one which comes later is read from its beginning;
    one at 0 is not named, so that equal places have equal texts."""

    __slots__ = ("_offsets", "_text")

    def __init__(self, offsets: Mapping[int, int]) -> None:
        self._offsets = {partition: offsets[partition] for partition in sorted(offsets) if offsets[partition]}
        self._text: str | None = None

    @classmethod
    def parse(cls, text: str) -> Vector:
        """`0:17,1:5`; the empty text is the beginning of everything. InvalidArgument for anything else."""
        offsets: dict[int, int] = {}
        for pair in text.split(",") if text else ():
            match = _PAIR.fullmatch(pair)
            if match is None or int(match[1]) >= MAX_PARTITIONS or int(match[1]) in offsets:
                raise InvalidArgument(
                    f"{text[:100]!r} is not a place in a queue: give it back as it came, like 0:17,1:5"
                )
            offsets[int(match[1])] = int(match[2])
        return cls(offsets)

    @classmethod
    def end_of(cls, queue: Queue) -> Vector:
        """Behind everything that may be read now."""
        return cls({partition: unit.end for partition, unit in queue.units.items()})

    def __getitem__(self, partition: int) -> int:
        return self._offsets.get(partition, 0)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Vector) and self._offsets == other._offsets)

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """Never empty: browsers do not send an empty id back."""
        if self._text is None:
            pairs = [f"{partition}:{offset}" for partition, offset in self._offsets.items()]
            self._text = ",".join(pairs) or _BEGINNING
        return self._text

    @property
    def offsets(self) -> dict[int, int]:
        """A copy."""
        return dict(self._offsets)

    def moved(self, partition: int, offset: int) -> Vector:
        return Vector({**self._offsets, partition: offset})

    def around(self, partition: int) -> tuple[str, str]:
        """What stands before and behind the offset of one partition in the text, whatever that offset is but 0."""
        before = [f"{number}:{offset}," for number, offset in self._offsets.items() if number < partition]
        behind = [f",{number}:{offset}" for number, offset in self._offsets.items() if number > partition]
        return f"{''.join(before)}{partition}:", "".join(behind)
