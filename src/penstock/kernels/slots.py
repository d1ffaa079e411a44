"""A table of numbers by their hashes, open addressing: each number names a record whose first word is its hash.

Tables have a power of two of slots, 0 is an empty one, and at least one is. Hashes are 0 to 2**31 - 1."""

from __future__ import annotations

from array import array
from typing import Literal


def place(slots: array[int], number: int, hash: int) -> int:
    mask = len(slots) - 1
    slot = hash & mask
    while slots[slot]:
        slot = (slot + 1) & mask
    slots[slot] = number
    return 0


def vacate(slots: array[int], number: int, records: array[int], words: int) -> int:
    """Take a number out; those behind it that were put off by it move up, so that no search ends too early."""
    mask = len(slots) - 1
    hole = records[words * number] & mask
    while slots[hole] != number:
        hole = (hole + 1) & mask
    slot = (hole + 1) & mask
    while slots[slot]:
        home = records[words * slots[slot]] & mask
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            slots[hole] = slots[slot]
            hole = slot
        slot = (slot + 1) & mask
    slots[hole] = 0
    return 0


def spread(slots: array[int], records: array[int], words: int) -> array[int]:
    """The same numbers in a table twice as large."""
    larger = array("i", [0]) * (2 * len(slots))
    target = larger
    for i in range(len(slots)):
        if slots[i]:
            place(target, slots[i], records[words * slots[i]])
    return larger


def grown(values: array[int], typecode: Literal["i", "q"], entries: int) -> array[int]:
    """The same words, with room for more."""
    larger = array(typecode, [0]) * entries
    memoryview(larger)[: len(values)] = memoryview(values)
    return larger
