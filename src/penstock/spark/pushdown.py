"""Filters that need no rows to be looked at: queue, partition, offset and timestamp are known before reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from penstock.spark.places import RowBounds

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def pushed(filters: Iterable[Filter]) -> tuple[RowBounds, list[Filter]]:
    """The bounds that the filters set, and those filters that are left to Spark. Rows within the bounds are exactly the
    rows that the other filters let through: timestamps never decrease within a partition."""
    bounds, left = RowBounds(), list[Filter]()
    for each in filters:
        narrowed = _narrowed(bounds, each)
        if narrowed is None:
            left.append(each)
        else:
            bounds = narrowed
    return bounds, left


class _Interval(NamedTuple):
    """Of whole numbers; `until` is not in it."""

    start: int | None = None
    until: int | None = None


def _narrowed(bounds: RowBounds, each: Filter) -> RowBounds | None:
    """None for a filter that says nothing about a range."""
    column = _column(each)
    if column in _NARROWING and isinstance(each, IsNotNull):
        return bounds
    return None if column not in _NARROWING else _NARROWING[column](bounds, each)


def _column(each: Filter) -> str:
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    return attribute[0] if len(attribute) == 1 else ""


def _by_queue(bounds: RowBounds, each: Filter) -> RowBounds | None:
    names = _values(each, str)
    return None if names is None else replace(bounds, queues=_both(bounds.queues, frozenset(names)))


def _by_partition(bounds: RowBounds, each: Filter) -> RowBounds | None:
    numbers = _values(each, int)
    return None if numbers is None else replace(bounds, partitions=_both(bounds.partitions, frozenset(numbers)))


def _by_offset(bounds: RowBounds, each: Filter) -> RowBounds | None:
    value = getattr(each, "value", None)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    found = _interval(each, value, value)
    if found is None:
        return None
    start = max(bounds.offset_from, found.start or 0)
    return replace(bounds, offset_from=start, offset_until=_least(bounds.offset_until, found.until))


def _by_timestamp(bounds: RowBounds, each: Filter) -> RowBounds | None:
    value = getattr(each, "value", None)
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    found = _interval(each, (value - _EPOCH) // _MILLISECOND, -((_EPOCH - value) // _MILLISECOND))
    if found is None:
        return None
    start = found.start if bounds.time_from_ms is None else max(bounds.time_from_ms, found.start or 0)
    return replace(bounds, time_from_ms=start, time_until_ms=_least(bounds.time_until_ms, found.until))


def _interval(each: Filter, floor: int, ceiling: int) -> _Interval | None:
    """The whole numbers for which the comparison holds with a value between `floor` and `ceiling`, which are one where
    the value is whole."""
    match each:
        case EqualTo() | EqualNullSafe():
            return _Interval(ceiling, floor + 1)
        case GreaterThan():
            return _Interval(floor + 1)
        case GreaterThanOrEqual():
            return _Interval(ceiling)
        case LessThan():
            return _Interval(None, ceiling)
        case LessThanOrEqual():
            return _Interval(None, floor + 1)
    return None


def _values(each: Filter, kind: type[T]) -> tuple[T, ...] | None:
    """Those that a column must have one of."""
    match each:
        case EqualTo(value=value) | EqualNullSafe(value=value):
            found: tuple[object, ...] = (value,)
        case In(value=values):
            found = tuple(values)
        case _:
            return None
    typed = tuple(value for value in found if isinstance(value, kind) and not isinstance(value, bool))
    return typed if len(typed) == len(found) else None


def _both(one: frozenset[T] | None, other: frozenset[T]) -> frozenset[T]:
    return other if one is None else one & other


def _least(one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return min(known, default=None)


_NARROWING: dict[str, Callable[[RowBounds, Filter], RowBounds | None]] = {
    "queue": _by_queue,
    "partition": _by_partition,
    "offset": _by_offset,
    "timestamp": _by_timestamp,
}
