"""What `.option(...)` may say, checked whole before anything is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from penstock.core.errors import InvalidArgument
from penstock.queues.names import DEFAULT_NAMESPACE, check_group_name, check_namespace
from penstock.spark import address, option_values
from penstock.spark.address import ServerAddress, is_flight, parse_address
from penstock.spark.offsets import AtTime, Bound, Edge, PartitionId, parse_assigned, parse_bound, parse_times
from penstock.spark.option_values import checked, count, duration, required, said, size, yes
from penstock.spark.planning import USUAL_SPLIT, Split
from penstock.spark.schema import check_columns

NAMES: Final = (
    "path",
    *address.NAMES,
    "namespace",
    "queue",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "packRows",
    "splitRows",
    "failOnDataLoss",
    "columns",
    "includeHeaders",
    "includeDeadLetters",
    "groupId",
    "groupUrl",
)
_OF_BATCHES = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_OF_STREAMS = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "groupId",
    "groupUrl",
)
_CHOICES = ("queue", "subscribePattern", "assign")
# As in Kafka's connector.
_USUAL_TRIGGER_DELAY_S = 15 * 60.0
# What Kafka's connector calls something that has another name here.
_OTHER_NAMES = {
    "subscribe": "queue",
    "topic": "queue",
    "groupidprefix": "groupId",
    "kafka.group.id": "groupId",
    "kafka.bootstrap.servers": "url",
}
_HTTP = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Picklable: it travels to the executors."""

    queues: tuple[str, ...] = ()
    """names and patterns"""
    queue_regex: str | None = None
    """instead of them: of whole names"""
    assigned: tuple[PartitionId, ...] | None = None
    """the only partitions that are read, of the queues that are named"""
    path: str | None = None
    """the data directory, or None where a server is asked"""
    server: ServerAddress | None = None
    namespace: str = DEFAULT_NAMESPACE
    start: Bound = Edge.EARLIEST
    stop: Bound = Edge.LATEST
    start_option: str | None = None
    """how the start was said, None where it was not"""
    max_rows: int | None = None
    max_bytes: int | None = None
    min_rows: int | None = None
    """a micro-batch waits for so many, but no longer than `max_delay_s`"""
    max_delay_s: float = _USUAL_TRIGGER_DELAY_S
    split: Split = USUAL_SPLIT
    fail_on_data_loss: bool = True
    columns: tuple[str, ...] | None = None
    include_headers: bool = False
    include_dead_letters: bool = False
    group: str | None = None
    group_url: str | None = None
    token: str | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """For messages: where the rows come from."""
        return self.path or (self.server.url if self.server else "")


def check_names(options: Mapping[str, str]) -> dict[str, str]:
    """The options by the names they have here. InvalidArgument for one that is none, with the nearest."""
    return option_values.check_names(options, NAMES, _OTHER_NAMES, "format penstock")


def column_options(options: Mapping[str, str]) -> tuple[tuple[str, ...] | None, bool, bool]:
    """`columns`, `includeHeaders` and `includeDeadLetters`, which are asked for before it is known what is read."""
    given = check_names(options)
    return _columns(given), yes(given, "includeHeaders", False), yes(given, "includeDeadLetters", False)


def parse_options(options: Mapping[str, str], is_stream: bool) -> SourceOptions:
    """InvalidArgument names the option, what is wrong with it and what may be written."""
    given = check_names(options)
    _refuse_other_kind(given, is_stream)
    start, stop = _bound(given, "starting", Edge.EARLIEST), _bound(given, "ending", Edge.LATEST)
    path, server = _place(given)
    group = checked(given, "groupId", check_group_name)
    queues, regex, assigned = _chosen(given)
    return SourceOptions(
        queues=queues,
        queue_regex=regex,
        assigned=assigned,
        path=path,
        server=server,
        namespace=checked(given, "namespace", check_namespace) or DEFAULT_NAMESPACE,
        start=start,
        stop=stop,
        start_option=next((name for name in _ways("starting") if name in given), None),
        max_rows=count(given, "maxOffsetsPerTrigger"),
        max_bytes=size(given, "maxBytesPerTrigger"),
        min_rows=_min_rows(given),
        max_delay_s=duration(given, "maxTriggerDelay", _USUAL_TRIGGER_DELAY_S),
        split=_split(given),
        fail_on_data_loss=yes(given, "failOnDataLoss", True),
        columns=_columns(given),
        include_headers=yes(given, "includeHeaders", False),
        include_dead_letters=yes(given, "includeDeadLetters", False),
        group=group,
        group_url=_group_url(given, group),
        token=given.get("token"),
    )


def _refuse_other_kind(given: Mapping[str, str], is_stream: bool) -> None:
    refused, kind, other = (
        (_OF_BATCHES, "a stream", "spark.read") if is_stream else (_OF_STREAMS, "a batch", "spark.readStream")
    )
    if found := [name for name in refused if name in given]:
        raise InvalidArgument(f"option {found[0]} has no meaning in {kind}: leave it out, or use {other}")


def _chosen(given: Mapping[str, str]) -> tuple[tuple[str, ...], str | None, tuple[PartitionId, ...] | None]:
    """Queues, a regular expression for them, or the partitions that are read."""
    said = [name for name in _CHOICES if given.get(name, "").strip()]
    if len(said) > 1:
        raise InvalidArgument(f"options {said[0]} and {said[1]} both say what is read: leave one out")
    if "subscribePattern" in said:
        return (), checked(given, "subscribePattern", check_regex), None
    if "assign" in said:
        assigned = parse_assigned("assign", given["assign"])
        return tuple(dict.fromkeys(source.queue for source in assigned)), None, assigned
    meaning = "a queue, several joined by commas, or a pattern like shop/*; or subscribePattern, or assign"
    return _queues(required(given, "queue", meaning)), None, None


def check_regex(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidArgument(f"{text!r} is not a regular expression: {error}") from None


def _min_rows(given: Mapping[str, str]) -> int | None:
    rows, most = count(given, "minOffsetsPerTrigger"), count(given, "maxOffsetsPerTrigger")
    if rows is None and "maxTriggerDelay" in given:
        raise InvalidArgument("option maxTriggerDelay has no meaning without minOffsetsPerTrigger: give that too")
    if rows is not None and most is not None and rows > most:
        raise InvalidArgument(f"option minOffsetsPerTrigger: {rows} is more than maxOffsetsPerTrigger, {most}")
    return rows


def _ways(side: str) -> tuple[str, str, str]:
    """To say where reading starts or ends."""
    return f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp"


def _queues(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(names):
        raise InvalidArgument(f"option queue: {text!r} has an empty name in it: write it like orders,returns")
    return names


def _bound(given: Mapping[str, str], side: str, otherwise: Bound) -> Bound:
    offsets, timestamp, times = _ways(side)
    if len(said := [name for name in _ways(side) if name in given]) > 1:
        raise InvalidArgument(f"options {said[0]} and {said[1]} both say the same thing: leave one out")
    if times in given:
        return parse_times(times, given[times])
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
            f"option {option}: {text!r} is not a time: write milliseconds since 1970, or 2026-11-15T18:00:00Z"
        ) from None
    # A time without a zone would mean another moment on each machine.
    if moment.tzinfo is None:
        raise InvalidArgument(f"option {option}: {text!r} has no time zone: append Z, or an offset like +01:00")
    return max(-int((datetime(1970, 1, 1, tzinfo=UTC) - moment).total_seconds() * 1000), 0)


def _split(given: Mapping[str, str]) -> Split:
    return Split(
        count(given, "minPartitions") or USUAL_SPLIT.min_tasks,
        count(given, "packRows") or USUAL_SPLIT.pack_rows,
        count(given, "splitRows") or USUAL_SPLIT.split_rows,
    )


def _columns(given: Mapping[str, str]) -> tuple[str, ...] | None:
    if (text := given.get("columns")) is None:
        return None
    return said("columns", lambda: check_columns(name.strip() for name in text.split(",")))


def _place(given: Mapping[str, str]) -> tuple[str | None, ServerAddress | None]:
    """Where rows come from: a directory, or a server."""
    path, url = given.get("path", "").strip(), given.get("url", "").strip()
    if path and is_flight(url):
        raise InvalidArgument("options path and url both say where to read: leave one out")
    if url and not path:
        return None, parse_address(given)
    if path:
        return path, None
    raise InvalidArgument(
        "option path is missing: give the data directory, where driver and executors see it, or the url of a server"
    )


def _group_url(given: Mapping[str, str], group: str | None) -> str | None:
    """Of the HTTP listener; where rows come from a directory, `url` can have no other meaning."""
    url = given.get("groupUrl") or (given.get("url") if given.get("url", "").startswith(_HTTP) else None)
    if group is not None and url is None:
        raise InvalidArgument(
            "option groupId needs groupUrl (and token): a group's progress is kept by the broker, which is told over "
            "HTTP; give the address of its HTTP listener, or leave groupId out"
        )
    if "token" in given and url is None and "url" not in given:
        raise InvalidArgument("option token has no meaning without url: give the address that it is for")
    return url
