"""What `.option(...)` may say, checked whole before anything is read."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeVar

from penstock.core.errors import InvalidArgument
from penstock.core.units import parse_size
from penstock.queues.names import DEFAULT_NAMESPACE, check_group_name, check_namespace
from penstock.spark.offsets import AtTime, Bound, Edge, parse_bound
from penstock.spark.planning import USUAL_SPLIT, Split
from penstock.spark.schema import check_columns

T = TypeVar("T")

NAMES: Final = (
    "path",
    "url",
    "token",
    "namespace",
    "queue",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minPartitions",
    "packRows",
    "splitRows",
    "failOnDataLoss",
    "columns",
    "includeHeaders",
    "includeDeadLetters",
    "groupId",
)
_BY_LOWER = {name.lower(): name for name in NAMES}
_OF_BATCHES = ("endingOffsets", "endingTimestamp")
_OF_STREAMS = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "groupId")
# What Kafka's connector calls something that has another name here.
_OTHER_NAMES = {
    "subscribe": "queue",
    "subscribepattern": "queue",
    "topic": "queue",
    "groupidprefix": "groupId",
    "kafka.group.id": "groupId",
    "kafka.bootstrap.servers": "path",
}
_YES_OR_NO = {"true": True, "false": False}
_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Picklable: it travels to the executors."""

    path: str
    queues: tuple[str, ...]
    namespace: str = DEFAULT_NAMESPACE
    start: Bound = Edge.EARLIEST
    stop: Bound = Edge.LATEST
    start_option: str | None = None
    """how the start was said, None where it was not"""
    max_rows: int | None = None
    max_bytes: int | None = None
    split: Split = USUAL_SPLIT
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] | None = None
    include_headers: bool = False
    include_dead_letters: bool = False
    group: str | None = None
    url: str | None = None
    token: str | None = field(default=None, repr=False)


def check_names(options: Mapping[str, str]) -> dict[str, str]:
    """The options by the names they have here. InvalidArgument for one that is none, with the nearest."""
    return {_known(written): text for written, text in options.items()}


def _known(written: str) -> str:
    if (name := _BY_LOWER.get(written.lower())) is not None:
        return name
    near = _OTHER_NAMES.get(written.lower()) or _nearest(written)
    advice = f"did you mean {near}?" if near else f"the known ones are {', '.join(NAMES)}"
    raise InvalidArgument(f"no option {written!r} of format penstock: {advice}")


def _nearest(written: str) -> str | None:
    near = difflib.get_close_matches(written.lower(), _BY_LOWER, n=1)
    return _BY_LOWER[near[0]] if near else None


def column_options(options: Mapping[str, str]) -> tuple[tuple[str, ...] | None, bool]:
    """`columns` and `includeHeaders`, which are asked for before it is known what is read."""
    given = check_names(options)
    return _columns(given), _yes(given, "includeHeaders", False)


def parse_options(options: Mapping[str, str], is_stream: bool) -> SourceOptions:
    """InvalidArgument names the option, what is wrong with it and what may be written."""
    given = check_names(options)
    _refuse_other_kind(given, is_stream)
    start, stop = _bound(given, "starting", Edge.EARLIEST), _bound(given, "ending", Edge.LATEST)
    return SourceOptions(
        path=_required(given, "path", "the data directory, where driver and executors see it"),
        queues=_queues(_required(given, "queue", "a queue, several joined by commas, or a filter like shop/#")),
        namespace=_checked(given, "namespace", check_namespace) or DEFAULT_NAMESPACE,
        start=start,
        stop=stop,
        start_option=next((name for name in ("startingOffsets", "startingTimestamp") if name in given), None),
        max_rows=_count(given, "maxOffsetsPerTrigger"),
        max_bytes=_size(given, "maxBytesPerTrigger"),
        split=_split(given),
        fail_on_data_loss=_yes(given, "failOnDataLoss", True),
        columns=_columns(given),
        include_headers=_yes(given, "includeHeaders", False),
        include_dead_letters=_yes(given, "includeDeadLetters", False),
        **_group(given),
    )


def _refuse_other_kind(given: Mapping[str, str], is_stream: bool) -> None:
    refused, kind, other = (
        (_OF_BATCHES, "a stream", "spark.read") if is_stream else (_OF_STREAMS, "a batch", "spark.readStream")
    )
    if found := [name for name in refused if name in given]:
        raise InvalidArgument(f"option {found[0]} has no meaning in {kind}: leave it out, or use {other}")


def _required(given: Mapping[str, str], name: str, meaning: str) -> str:
    if not given.get(name, "").strip():
        raise InvalidArgument(f"option {name} is missing: give {meaning}")
    return given[name].strip()


def _queues(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(names):
        raise InvalidArgument(f"option queue: {text!r} has an empty name in it: write it like orders,returns")
    return names


def _bound(given: Mapping[str, str], side: str, otherwise: Bound) -> Bound:
    offsets, timestamp = f"{side}Offsets", f"{side}Timestamp"
    if offsets in given and timestamp in given:
        raise InvalidArgument(f"options {offsets} and {timestamp} both say the same thing: leave one out")
    if timestamp in given:
        return AtTime(_timestamp_ms(timestamp, given[timestamp].strip()))
    return parse_bound(offsets, given[offsets]) if offsets in given else otherwise


def _timestamp_ms(option: str, text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 18:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"option {option}: {text!r} is no time: write milliseconds since 1970, or 2026-11-15T18:00:00Z"
        ) from None
    # A time without a zone would mean another moment on each machine.
    if moment.tzinfo is None:
        raise InvalidArgument(f"option {option}: {text!r} has no time zone: append Z, or an offset like +01:00")
    return max(-int((datetime(1970, 1, 1, tzinfo=UTC) - moment).total_seconds() * 1000), 0)


def _count(given: Mapping[str, str], name: str) -> int | None:
    if (text := given.get(name)) is None:
        return None
    plain = text.strip()
    if not (plain.isascii() and plain.isdigit() and 0 < int(plain[:20]) < _MOST):
        raise InvalidArgument(f"option {name}: {text!r} is not a whole number above 0")
    return int(plain)


def _size(given: Mapping[str, str], name: str) -> int | None:
    if (text := given.get(name)) is None:
        return None
    size = _said(name, lambda: parse_size(text))
    if size < 1:
        raise InvalidArgument(f"option {name}: {text!r} is nothing: write a size above 0, like 64MiB")
    return size


def _split(given: Mapping[str, str]) -> Split:
    return Split(
        _count(given, "minPartitions") or USUAL_SPLIT.min_tasks,
        _count(given, "packRows") or USUAL_SPLIT.pack_rows,
        _count(given, "splitRows") or USUAL_SPLIT.split_rows,
    )


def _yes(given: Mapping[str, str], name: str, otherwise: bool) -> bool:
    text = given.get(name, str(otherwise)).strip().lower()
    if text not in _YES_OR_NO:
        raise InvalidArgument(f"option {name}: {given[name]!r} is neither true nor false")
    return _YES_OR_NO[text]


def _columns(given: Mapping[str, str]) -> tuple[str, ...] | None:
    if (text := given.get("columns")) is None:
        return None
    return _said("columns", lambda: check_columns(name.strip() for name in text.split(",")))


def _group(given: Mapping[str, str]) -> dict[str, str | None]:
    group, url, token = _checked(given, "groupId", check_group_name), given.get("url"), given.get("token")
    if group is not None and url is None:
        raise InvalidArgument(
            "option groupId needs url (and token): a group's progress is kept by the broker, which a directory "
            "alone does not reach; give the address of its HTTP listener, or leave groupId out"
        )
    if token is not None and url is None:
        raise InvalidArgument("option token has no meaning without url: give the address that it is for")
    return {"group": group, "url": url, "token": token}


def _checked(given: Mapping[str, str], name: str, check: Callable[[str], None]) -> str | None:
    if (text := given.get(name)) is not None:
        _said(name, lambda: check(text))
    return text


def _said(name: str, read: Callable[[], T]) -> T:
    """What it returns; its error, with the option's name."""
    try:
        return read()
    except InvalidArgument as error:
        raise InvalidArgument(f"option {name}: {error}") from error
