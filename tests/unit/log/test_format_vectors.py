"""FORMAT.md is checked both ways: what it says is what we write, and its bytes are read as what it says."""

from __future__ import annotations

import json
import re
import struct
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import pytest
from tests.support.amqp091 import Native, Typed

import penstock.log
from penstock.core.types import Compression
from penstock.kernels.crc import crc32c
from penstock.kernels.frames import entries
from penstock.kernels.hashing import murmur3
from penstock.log.batch import Batch, build, check, next_offset, seal
from penstock.log.columns import Columns
from penstock.log.view import check_native, viewed_properties

TEXT = Path(penstock.log.__file__).with_name("FORMAT.md").read_text(encoding="utf-8")


class BatchVector(TypedDict, total=False):
    values: list[str]
    keys: list[str]
    topics: list[str]
    properties: list[str]
    native: list[str]
    expiry: list[int]
    timestamp_delta: list[int]
    offset_delta: list[int]
    producer_id: int
    producer_epoch: int
    base_sequence: int
    compression: str
    base_offset: int
    epoch: int
    timestamp: int


def vectors(kind: str) -> list[tuple[str, bytes]]:
    blocks = re.findall(rf"```json {kind}\n(.*?)\n```\n```hex\n(.*?)\n```", TEXT, re.DOTALL)
    return [(fields, bytes.fromhex(digits)) for fields, digits in blocks]


def utf8(texts: list[str] | None) -> list[bytes] | None:
    return None if texts is None else [text.encode() for text in texts]


def written(vector: BatchVector) -> bytearray:
    columns = Columns.of(
        utf8(vector["values"]) or [],
        keys=utf8(vector.get("keys")),
        topics=utf8(vector.get("topics")),
        properties=utf8(vector.get("properties")),
        native=utf8(vector.get("native")),
        expiry=vector.get("expiry"),
    )
    columns = replace(
        columns,
        producer_id=vector.get("producer_id", 0),
        producer_epoch=vector.get("producer_epoch", 0),
        base_sequence=vector.get("base_sequence", 0),
    )
    deltas = vector.get("timestamp_delta")
    offsets = vector.get("offset_delta")
    batch = build(
        columns,
        Compression[vector.get("compression", "NONE")],
        None if deltas is None else array("i", deltas),
        None if offsets is None else array("i", offsets),
    )
    seal(batch, vector["base_offset"], vector["epoch"], vector["timestamp"], vector["timestamp"] + (deltas or [0])[-1])
    return batch


@pytest.mark.parametrize(("fields", "data"), vectors("batch"))
def test_batches_of_the_document_are_what_we_write(fields: str, data: bytes) -> None:
    vector: BatchVector = json.loads(fields)
    if "compression" not in vector:
        assert written(vector).hex(" ", 4) == data.hex(" ", 4)


@pytest.mark.parametrize(("fields", "data"), vectors("batch"))
def test_batches_of_the_document_are_read_as_it_says(fields: str, data: bytes) -> None:
    vector: BatchVector = json.loads(fields)
    header, rows = check(data), list(Batch.parse(data))
    count = len(vector["values"])
    deltas = vector.get("offset_delta", list(range(count + 1)))
    assert header.compression == Compression[vector.get("compression", "NONE")]
    assert (header.base_offset, header.epoch) == (vector["base_offset"], vector["epoch"])
    assert (header.producer_id, header.base_sequence) == (vector.get("producer_id", 0), vector.get("base_sequence", 0))
    assert [row.offset - header.base_offset for row in rows] == deltas[:-1]
    assert next_offset(data) == header.base_offset + deltas[-1]
    assert [row.value for row in rows] == utf8(vector["values"])
    assert [row.key or b"" for row in rows] == (utf8(vector.get("keys")) or [b""] * count)
    assert [row.topic or b"" for row in rows] == (utf8(vector.get("topics")) or [b""] * count)
    assert [row.properties or b"" for row in rows] == (utf8(vector.get("properties")) or [b""] * count)
    assert [row.native or b"" for row in rows] == (utf8(vector.get("native")) or [b""] * count)
    assert [row.expiry for row in rows] == vector.get("expiry", [0] * count)
    assert [row.timestamp - vector["timestamp"] for row in rows] == vector.get("timestamp_delta", [0] * count)


def test_the_document_has_vectors_of_everything() -> None:
    assert len(vectors("batch")) >= 6
    assert len(vectors("frame")) == 1
    assert crc32c(b"123456789") == 0xE3069283
    assert "e3069283" in TEXT


def test_the_worked_example_is_the_first_vector_byte_for_byte() -> None:
    example = TEXT[TEXT.index("### Worked example") : TEXT.index("### Vectors")]
    rows = re.findall(r"^\| (\d+) \| `([0-9a-f ]+)` \|", example, re.MULTILINE)
    assert b"".join(bytes.fromhex(digits) for _, digits in rows) == vectors("batch")[0][1]
    assert [int(at) for at, _ in rows] == [sum(len(bytes.fromhex(d)) for _, d in rows[:i]) for i in range(len(rows))]


def test_frames_of_the_document_are_read_as_it_says() -> None:
    ((fields, data),) = vectors("frame")
    vector = json.loads(fields)
    magic, crc, generation, sequence, durable, body_bytes, count = struct.unpack_from("<4sIQQQII", data)
    out = array("q", bytes(32 * count))
    assert magic == b"PSTF"
    assert crc == crc32c(data, 0, 8)
    assert (generation, sequence, durable) == (vector["generation"], vector["sequence"], vector["durable"])
    assert 40 + body_bytes == len(data)
    assert entries(data, 40, len(data), out) == count
    found = [[out[i], out[i + 1], data[out[i + 2] : out[i + 3]].hex()] for i in range(0, len(out), 4)]
    assert found == vector["entries"]


def test_hashes_and_partitions_of_the_document_come_out() -> None:
    rows = re.findall(r"^\| (?:`(.+)`|\(empty\)) \| `([0-9a-f]{8})` \| (\d+) \| (\d+) \|$", TEXT, re.MULTILINE)
    assert len(rows) >= 6
    for text, digits, of_10, of_16 in rows:
        key = text.encode()
        number = murmur3(key, 0, len(key))
        assert (f"{number:08x}", number % 10, number % 16) == (digits, int(of_10), int(of_16))


def native_vectors() -> list[tuple[str, bytes, bytes]]:
    blocks = re.findall(r"```json native\n(.*?)\n```\n```hex\n(.*?)\n```\n```view\n(.*?)\n```", TEXT, re.DOTALL)
    return [(fields, bytes.fromhex(native), bytes.fromhex(view)) for fields, native, view in blocks]


def typed(kind: str, value: object) -> Typed:
    if isinstance(value, list):
        return Typed(kind, [typed(*each) for each in value])
    return Typed(kind, value.encode("latin-1") if isinstance(value, str) else value)


@pytest.mark.parametrize(("fields", "native", "view"), native_vectors())
def test_native_properties_of_the_document_are_what_it_says(fields: str, native: bytes, view: bytes) -> None:
    said: dict[str, Any] = {
        name: value.encode() if isinstance(value, str) else value for name, value in json.loads(fields).items()
    }
    headers = [(name.encode(), typed(kind, value)) for name, kind, value in said.pop("headers")]
    assert Native(headers=headers, **said).stored() == native
    assert viewed_properties(None, native) == view
    check_native(native, array("i", [0]), array("i", [len(native)]))


def test_the_example_of_native_properties_is_the_first_vector() -> None:
    example = TEXT[TEXT.index("### Native properties") : TEXT.index("Vectors: the properties")]
    rows = re.findall(r"^\| (\d+) \| `([0-9a-f ]+)` \|", example, re.MULTILINE)
    assert b"".join(bytes.fromhex(digits) for _, digits in rows) == native_vectors()[0][1]
    assert len(native_vectors()) == 2
