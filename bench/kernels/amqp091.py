"""AMQP 0.9.1 in and out, compiled and as plain Python: 500 messages of 256 bytes a call."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from bench.kernels.pure import compared_with_pure
from bench.measure import Benchmark, Comparison, Run, cpu_seconds, peak_bytes
from penstock.codecs.amqp091.encode import content_frames
from penstock.codecs.amqp091.methods import BasicPublish
from penstock.codecs.amqp091.properties import Properties, properties_bytes
from penstock.codecs.amqp091.wire import table_of
from penstock.kernels import amqp_columns as names
from penstock.kernels import amqp_deliver, amqp_tables
from penstock.kernels.amqp_scan import Scanner
from penstock.log.batch import Batch, encode, seal
from penstock.log.columns import Columns

_MESSAGES, _VALUE_BYTES, _FRAME_MAX = 500, 256, 131_072
_NOW = 1_700_000_000_000
_ID = "3cc8a3e1-2b62-4ca0-9c33-6b41e3ad7a6c"
_PLAIN = Properties(delivery_mode=2)
# As Celery sends a task: 480 bytes with its frames.
_TASK = Properties(
    content_type="application/json",
    content_encoding="utf-8",
    headers=table_of({"lang": "py", "task": "tasks.add", "id": _ID}),
    delivery_mode=2,
    priority=0,
    correlation_id=_ID,
    reply_to="8f3d9b9e-7f43-3f0f-9d7e",
)


def seconds_a_message(times: int, with_memory: bool) -> dict[str, tuple[float, int]]:
    """Of each loop: processor time a message, and the memory one call had allocated at most."""
    return {
        name: (cpu_seconds(call, times) / _MESSAGES, peak_bytes(call) if with_memory else 0)
        for name, call in (_incoming() | _outgoing()).items()
    }


def _stream(properties: Properties) -> bytes:
    publish = BasicPublish(exchange="celery", routing_key="celery")
    return content_frames(1, publish, properties, bytes(_VALUE_BYTES), _FRAME_MAX) * _MESSAGES


def _incoming() -> dict[str, Callable[[], object]]:
    plain, tasks = _stream(_PLAIN), _stream(_TASK)
    tags = array("q", range(1, _MESSAGES + 1))
    channels = array("i", [1]) * _MESSAGES
    acks = bytes(amqp_deliver.encode_settlements(b"\x50" * _MESSAGES, channels, tags, bytes(_MESSAGES)))
    scanner = Scanner(4096)

    def scan(data: bytes) -> None:
        assert scanner.scan(data, 0, len(data), _FRAME_MAX, 1 << 16) == _MESSAGES

    scan(tasks)
    starts, stops = scanner.pick((names.HEADERS_START, names.HEADERS_END))
    out = [array("i", [0]) * _MESSAGES for _ in range(3)]
    return {
        "scan basic.publish with one property": lambda: scan(plain),
        "scan basic.publish of a Celery task: five properties, three headers": lambda: scan(tasks),
        "scan basic.ack": lambda: scan(acks),
        "find a header": lambda: amqp_tables.find(tasks, starts, stops, b"id", *out),
    }


def _outgoing() -> dict[str, Callable[[], object]]:
    batch = _stored()
    rows, spans = array("i", range(_MESSAGES)), array("q", [0]) * (amqp_deliver.SPAN_WORDS * _MESSAGES)
    routes, route_ends = b"\x06celery\x06celery", array("i", [14])
    amqp_deliver.batch_spans(batch.body, batch.layout, rows, route_ends, spans)
    encoder = amqp_deliver.deliveries(1, b"ctag1.0123456789abcdef", _FRAME_MAX)
    tags, channels = array("q", range(1, _MESSAGES + 1)), array("i", [1]) * _MESSAGES
    methods, bits = b"\x50" * _MESSAGES, bytes(_MESSAGES)
    return {
        "find rows in a stored batch": lambda: amqp_deliver.batch_spans(
            batch.body, batch.layout, rows, route_ends, spans
        ),
        "encode basic.deliver with its content": lambda: encoder.encode(batch.body, spans, routes, 1),
        "encode basic.ack": lambda: amqp_deliver.encode_settlements(methods, channels, tags, bits),
    }


def _stored() -> Batch:
    native = bytes([names.NATIVE_KIND]) + properties_bytes(_TASK)
    values = [bytes(_VALUE_BYTES)] * _MESSAGES
    batch = encode(Columns.of(values, topics=[b"$exchange/celery/celery"] * _MESSAGES, native=[native] * _MESSAGES))
    seal(batch, 1_000_000, 0, _NOW)
    return Batch.parse(batch)


def run(settings: Run) -> list[Comparison]:
    return compared_with_pure(settings, seconds_a_message, "a call")


BENCHMARK = Benchmark(
    "amqp091", "scanning and encoding AMQP 0.9.1, processor time a message in calls of 500", run, syncs=False
)
