"""What `.option(...)` may say of a write, checked whole before anything is written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.core.errors import InvalidArgument
from penstock.core.queue_paths import canonical_queue
from penstock.queues.names import DEFAULT_NAMESPACE, check_namespace, check_queue_name
from penstock.spark import address
from penstock.spark.address import ServerAddress, parse_address
from penstock.spark.option_values import check_names, checked, count, required, said, yes

NAMES: Final = (
    *address.NAMES,
    "namespace",
    "queue",
    "queues",
    "pipeline",
    "resetPipeline",
    "queryId",
    "epochId",
    "batchRows",
    "createQueues",
)
# What Kafka's connector calls something that has another name here.
_OTHER_NAMES = {"topic": "queue", "kafka.bootstrap.servers": "url", "path": "url"}
# Those that Spark itself reads, and hands on.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})
# Each stage is a record that the broker keeps until the commit; rows of a few hundred bytes make one of some megabytes.
USUAL_BATCH_ROWS = 20_000
_MOST_BATCH_ROWS = 1_000_000
# Of an id, for those who look at what was committed: Spark's have 36 characters.
_SHOWN_QUERY = 40


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Picklable: it travels to the executors."""

    server: ServerAddress
    queue: str | None
    """None: each row says its own, one of `queues`"""
    queues: tuple[str, ...] = ()
    namespace: str | None = None
    """None: the one of the login"""
    pipeline: str | None = None
    reset_pipeline: bool = False
    key: tuple[str, int] | None = None
    """of a batch that may be written again: its query and epoch, as the user counts them"""
    batch_rows: int = USUAL_BATCH_ROWS
    create_queues: bool = True

    @property
    def target(self) -> str:
        """For messages."""
        return f"queue {self.queue!r}" if self.queue is not None else f"the queues {', '.join(self.queues)}"


def parse_sink_options(options: Mapping[str, str], is_stream: bool) -> SinkOptions:
    """InvalidArgument names the option, what is wrong with it and what may be written."""
    ours = {name: text for name, text in options.items() if name.lower() not in _OF_SPARK}
    given = check_names(ours, NAMES, _OTHER_NAMES, "a write to format penstock")
    required(given, "url", "the address of the server's Arrow Flight listener, like grpc://127.0.0.1:8815")
    queue, queues = _targets(given)
    namespace = _namespace(given)
    _check_pipeline(given, is_stream)
    return SinkOptions(
        server=parse_address(given),
        queue=queue,
        queues=queues,
        namespace=namespace,
        pipeline=given.get("pipeline"),
        reset_pipeline=yes(given, "resetPipeline", False),
        key=_key(given, is_stream, namespace, [queue] if queue is not None else queues),
        batch_rows=_batch_rows(given),
        create_queues=yes(given, "createQueues", True),
    )


def _namespace(given: Mapping[str, str]) -> str | None:
    namespace = checked(given, "namespace", check_namespace)
    return None if namespace == DEFAULT_NAMESPACE else namespace


def _targets(given: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """The queue of all rows, or those that rows may name."""
    if "queue" in given and "queues" in given:
        raise InvalidArgument("options queue and queues both say where to write: leave one out")
    if "queues" not in given:
        meaning = "the queue to write to; or queues, and a column queue with the queue of each row"
        return _queue("queue", required(given, "queue", meaning)), ()
    names = required(given, "queues", "the queues that rows may name, joined by commas").split(",")
    return None, tuple(dict.fromkeys(_queue("queues", name.strip()) for name in names))


def _queue(option: str, written: str) -> str:
    """As it is written: which queue that means, the server says."""
    said(option, lambda: check_queue_name(canonical_queue(written)))
    return written


def _key(
    given: Mapping[str, str], is_stream: bool, namespace: str | None, queues: Iterable[str]
) -> tuple[str, int] | None:
    """A query may write to several queues in one epoch, in any namespace, each with a write of its own."""
    named = [name for name in ("queryId", "epochId") if name in given]
    if not named:
        return None
    if is_stream:
        raise InvalidArgument(f"option {named[0]} has no meaning in a stream, whose checkpoint has both: leave it out")
    if len(named) == 1:
        raise InvalidArgument("options queryId and epochId go together: a write is known by both")
    query = required(given, "queryId", "the id of the query that foreachBatch belongs to")
    epoch = count(given, "epochId", least=0)
    # The namespace only where one is given: the key of a write that began before an upgrade stays what it was.
    parts = [query, ",".join(sorted(queues)), *([] if namespace is None else [namespace])]
    digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
    return f"{query[:_SHOWN_QUERY]}>{digest}", epoch or 0


def _check_pipeline(given: Mapping[str, str], is_stream: bool) -> None:
    named = [name for name in ("pipeline", "resetPipeline") if name in given]
    if named and not is_stream:
        raise InvalidArgument(f"option {named[0]} has no meaning in a batch: leave it out, or use df.writeStream")
    if "resetPipeline" in given and "pipeline" not in given:
        raise InvalidArgument("option resetPipeline has no meaning without pipeline: say which name is to be reset")


def _batch_rows(given: Mapping[str, str]) -> int:
    rows = count(given, "batchRows") or USUAL_BATCH_ROWS
    if rows > _MOST_BATCH_ROWS:
        raise InvalidArgument(f"option batchRows: {rows} is over {_MOST_BATCH_ROWS}: a batch is held in memory whole")
    return rows
