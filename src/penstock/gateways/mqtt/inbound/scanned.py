"""Rows that a scan found: those of one connection, or those that were picked out of all."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

from penstock.kernels.mqtt_scan import Scanner

# Packets of a turn; the smallest take 4 bytes. What does not fit is looked at in the next one.
TURN_ROWS = 32_768


class Scanned(Protocol):
    def pick(self, numbers: Sequence[int]) -> list[array[int]]:
        """Columns of the rows, by the numbers of mqtt_columns."""


class RunOfRows:
    """Rows first to stop - 1."""

    __slots__ = ("_first", "_scanner", "_stop")

    def __init__(self, scanner: Scanner, first: int, stop: int) -> None:
        self._scanner, self._first, self._stop = scanner, first, stop

    def pick(self, numbers: Sequence[int]) -> list[array[int]]:
        return self._scanner.pick_part(numbers, self._first, self._stop)


class PickedRows:
    """Any rows, in order."""

    __slots__ = ("_rows", "_scanner")

    def __init__(self, scanner: Scanner, rows: array[int]) -> None:
        self._scanner, self._rows = scanner, rows

    def pick(self, numbers: Sequence[int]) -> list[array[int]]:
        return self._scanner.pick_rows(numbers, self._rows)


def rows_of(scanner: Scanner, rows: array[int]) -> Scanned:
    """These, which rise."""
    first, stop = rows[0], rows[-1] + 1
    return RunOfRows(scanner, first, stop) if stop - first == len(rows) else PickedRows(scanner, rows)
