"""Parts of a frame that are decided in the turn in which it is staged: settlements, cursors, what a producer sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.log.columns import Columns
from penstock.log.partition import Log

Part = tuple[Log, Columns]

# At most, of a part: its place in the frame, the header of its batch, and padding.
_PART_BYTES = 128
# The end of a record in its column.
_RECORD_BYTES = 4


class Late(NamedTuple):
    """`parts` were worked out and nothing has changed. `apply` makes it so: it is called when the frame can no longer
    be refused, in the same turn, and must not fail."""

    parts: Sequence[Part]
    apply: Callable[[], None]


LateParts = Callable[[int], Late]
"""Asked when everything else of the frame is there, with the bytes that are left in it: who has more to say than that
says some of it now, or is refused. What it sees as the end of a log is where the records will be."""


def values_bytes(values: Sequence[bytes]) -> int:
    """What a part of these values takes in a frame, at most."""
    return _PART_BYTES + sum([len(value) + _RECORD_BYTES for value in values])


def nothing() -> None:
    """An `apply` where nothing follows."""
