"""The batch format said a second time, naively: a struct at a time. Tests hold the kernels against it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from penstock.log.columns import Columns


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def plain_int32(values: Sequence[int]) -> bytes:
    return padded(b"".join(struct.pack("<i", value) for value in values))


def plain_var(entries: Sequence[bytes]) -> bytes:
    ends = [0]
    for entry in entries:
        ends.append(ends[-1] + len(entry))
    return plain_int32(ends) + padded(b"".join(entries))


def plain_topics(topics: Sequence[bytes]) -> bytes:
    names = list(dict.fromkeys(topics))
    return plain_int32([names.index(topic) for topic in topics]) + struct.pack("<ii", len(names), 0) + plain_var(names)


@dataclass(frozen=True)
class Records:
    """What a test puts into a batch, a Python object a field."""

    values: list[bytes]
    keys: list[bytes] | None = None
    topics: list[bytes] | None = None
    properties: list[bytes] | None = None
    native: list[bytes] | None = None
    expiry: list[int] | None = None

    def columns(self) -> Columns:
        return Columns.of(
            self.values,
            keys=self.keys,
            topics=self.topics,
            properties=self.properties,
            native=self.native,
            expiry=self.expiry,
        )

    def plain_body(self) -> bytes:
        body = b"" if self.expiry is None else b"".join(struct.pack("<q", ms) for ms in self.expiry)
        body += b"" if self.topics is None else plain_topics(self.topics)
        for entries in (self.keys, self.properties, self.native, self.values):
            body += b"" if entries is None else plain_var(entries)
        return body


@st.composite
def records(draw: st.DrawFn, max_count: int = 12) -> Records:
    """One to max_count records, each optional column there or not."""
    count = draw(st.integers(1, max_count))

    def column(field: st.SearchStrategy[bytes]) -> list[bytes] | None:
        return draw(st.none() | st.lists(field, min_size=count, max_size=count))

    return Records(
        values=draw(st.lists(st.binary(max_size=40), min_size=count, max_size=count)),
        keys=column(st.binary(max_size=12)),
        topics=column(st.sampled_from([b"", b"a", b"a/b", b"orders/eu"])),
        properties=column(st.binary(max_size=20)),
        native=column(st.binary(max_size=9)),
        expiry=draw(st.none() | st.lists(st.integers(0, 2**63 - 1), min_size=count, max_size=count)),
    )
