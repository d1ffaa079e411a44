"""What `.option(...)` may say of a write, checked whole before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.core.errors import InvalidArgument
from penstock.queues.names import DEFAULT_NAMESPACE, canonical_queue, check_namespace, check_queue_name
from penstock.spark import address
from penstock.spark.address import ServerAddress, parse_address
from penstock.spark.option_values import check_names, checked, count, required, said, yes

NAMES: Final = (*address.NAMES, "namespace", "queue", "pipeline", "resetPipeline", "batchRows")
# What Kafka's connector calls something that has another name here.
_OTHER_NAMES = {"topic": "queue", "kafka.bootstrap.servers": "url", "path": "url"}
# Those that Spark itself reads, and hands on.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})
# Each stage is a record that the broker keeps until the commit; rows of a few hundred bytes make one of some megabytes.
USUAL_BATCH_ROWS = 20_000
_MOST_BATCH_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Picklable: it travels to the executors."""

    server: ServerAddress
    queue: str
    namespace: str | None = None
    """None: the one of the login"""
    pipeline: str | None = None
    reset_pipeline: bool = False
    batch_rows: int = USUAL_BATCH_ROWS


def parse_sink_options(options: Mapping[str, str], is_stream: bool) -> SinkOptions:
    """InvalidArgument names the option, what is wrong with it and what may be written."""
    ours = {name: text for name, text in options.items() if name.lower() not in _OF_SPARK}
    given = check_names(ours, NAMES, _OTHER_NAMES, "a write to format penstock")
    required(given, "url", "the address of the server's Arrow Flight listener, like grpc://127.0.0.1:8815")
    queue = canonical_queue(required(given, "queue", "the queue to write to"))
    said("queue", lambda: check_queue_name(queue))
    namespace = checked(given, "namespace", check_namespace)
    _check_pipeline(given, is_stream)
    return SinkOptions(
        server=parse_address(given),
        queue=queue,
        namespace=None if namespace == DEFAULT_NAMESPACE else namespace,
        pipeline=given.get("pipeline"),
        reset_pipeline=yes(given, "resetPipeline", False),
        batch_rows=_batch_rows(given),
    )


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
