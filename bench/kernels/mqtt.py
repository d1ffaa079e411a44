"""MQTT packets in and out, compiled and as plain Python: 820 messages of 256 bytes a call."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from bench.kernels.pure import compared_with_pure
from bench.measure import Benchmark, Comparison, Run, cpu_seconds, peak_bytes
from penstock.kernels import mqtt_columns as names
from penstock.kernels import mqtt_encode, mqtt_rows
from penstock.kernels.mqtt_publish import PublishEncoder, Template
from penstock.kernels.mqtt_scan import Scanner
from penstock.log.batch import Batch, encode, seal
from penstock.log.columns import Columns

_MESSAGES, _VALUE_BYTES = 820, 256
_NOW = 1_700_000_000_000
_USER_PROPERTY = b"\x26\x00\x03key\x00\x08cellar-1"
_GROUP = b"\x26\x00\x0econsumer-group\x00\x07workers"


def seconds_a_message(times: int, with_memory: bool) -> dict[str, tuple[float, int]]:
    """Of each loop: processor time a message, and the memory one call had allocated at most."""
    return {
        name: (cpu_seconds(call, times) / _MESSAGES, peak_bytes(call) if with_memory else 0)
        for name, call in (_incoming() | _outgoing()).items()
    }


def _publish(number: int, version: int, properties: bytes = b"") -> bytes:
    topic = b"devices/sensor-%d/temp" % (number % 100)
    carried = bytes([len(properties)]) + properties if version == 5 else b""
    body = len(topic).to_bytes(2, "big") + topic + (number + 1).to_bytes(2, "big") + carried + bytes(_VALUE_BYTES)
    return bytes([0x32, len(body) & 127 | 128, len(body) >> 7]) + body


def _incoming() -> dict[str, Callable[[], object]]:
    plain = b"".join(_publish(number, 4) for number in range(_MESSAGES))
    rich = b"".join(_publish(number, 5, _USER_PROPERTY) for number in range(_MESSAGES))
    acks = b"".join(b"\x40\x02" + (number + 1).to_bytes(2, "big") for number in range(_MESSAGES))
    scanner = Scanner(4096)

    def scan(data: bytes, version: int) -> None:
        assert scanner.scan(data, 0, len(data), version, 1 << 20, 10, 2, True) == _MESSAGES

    scan(rich, 5)
    starts, ends = scanner.column(names.TOPIC_START), scanner.column(names.TOPIC_END)
    property_starts, property_ends = scanner.column(names.PROPERTIES_START), scanner.column(names.PROPERTIES_END)
    table, numbers, firsts = _ints(6 * _MESSAGES), _ints(_MESSAGES), _ints(_MESSAGES)
    one = array("i", [starts[0]]) * _MESSAGES, array("i", [ends[0]]) * _MESSAGES

    def group(first: array[int], last: array[int]) -> int:
        return mqtt_rows.group_topics(rich, first, last, None, None, 1, table, numbers, firsts)

    return {
        "scan PUBLISH QoS 1 of MQTT 3.1.1": lambda: scan(plain, 4),
        "scan PUBLISH QoS 1 of MQTT 5 with a user property": lambda: scan(rich, 5),
        "scan PUBACK": lambda: scan(acks, 5),
        "group topics, one": lambda: group(*one),
        "group topics, a hundred": lambda: group(starts, ends),
        "find a user property": lambda: mqtt_rows.find_user_property(
            rich, property_starts, property_ends, b"key", numbers, firsts
        ),
    }


def _outgoing() -> dict[str, Callable[[], object]]:
    batch = _stored()
    rows, ids = array("i", range(_MESSAGES)), array("i", range(1, _MESSAGES + 1))
    spans, heads = array("q", [0]) * (mqtt_encode.SPAN_WORDS * _MESSAGES), b"\x32" * _MESSAGES
    mqtt_encode.batch_spans(batch.body, batch.layout, rows, spans)
    numbers = batch.offsets() + array("q", [1]) * _MESSAGES + batch.timestamps()
    old, new = PublishEncoder(4, 1 << 20), PublishEncoder(5, 1 << 20)
    queued = PublishEncoder(5, 1 << 20, Template(b"$queue/orders", *_template()))
    shared = new.encode(batch.body, spans, heads, _NOW)
    positions = new.id_positions()
    return {
        "find rows in a stored batch": lambda: mqtt_encode.batch_spans(batch.body, batch.layout, rows, spans),
        "encode deliveries of MQTT 3.1.1": lambda: old.encode(batch.body, spans, heads, _NOW, ids),
        "encode deliveries of MQTT 5": lambda: new.encode(batch.body, spans, heads, _NOW, ids),
        "encode deliveries of a queue, five properties more": lambda: queued.encode(
            batch.body, spans, heads, _NOW, ids, numbers
        ),
        "patch packet ids": lambda: mqtt_encode.patch_packet_ids(shared, positions, ids),
        "encode PUBACK": lambda: mqtt_encode.encode_acks(4, ids, None, 5),
    }


def _stored() -> Batch:
    topics = [b"devices/sensor-%d/temp" % (number % 10) for number in range(_MESSAGES)]
    values, properties = [bytes(_VALUE_BYTES)] * _MESSAGES, [_USER_PROPERTY] * _MESSAGES
    batch = encode(Columns.of(values, topics=topics, properties=properties))
    seal(batch, 1_000_000, 0, _NOW)
    return Batch.parse(batch)


def _template() -> tuple[bytes, array[int]]:
    """Four properties with a number of the row, and the group's name."""
    out, fields = b"", array("i")
    for name, text, number in (
        (b"message-id", b"orders@1:3:", 0),
        (b"offset", b"", 0),
        (b"delivery-count", b"", 1),
        (b"timestamp", b"", 2),
    ):
        out += b"\x26" + len(name).to_bytes(2, "big") + name
        fields.append(len(out))
        out += text
        fields.extend((len(out), number))
    return out + _GROUP, fields


def _ints(count: int) -> array[int]:
    return array("i", [0]) * count


def run(settings: Run) -> list[Comparison]:
    return compared_with_pure(settings, seconds_a_message, "a call")


BENCHMARK = Benchmark(
    "mqtt", "scanning and encoding MQTT packets, processor time a message in calls of 820", run, syncs=False
)
