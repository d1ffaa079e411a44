from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import CorruptBatch
from penstock.gateways.beside.frames import LENGTH, MAX_BODY_BYTES, MAX_HEAD_BYTES, Caller, head_bytes
from penstock.gateways.beside.intake import Receiving
from penstock.gateways.flight.heads import HEADS, Action, BatchHead, Head, PutBatches, PutEnd

CALLER = Caller("Bearer t", "127.0.0.1")
SENT: list[tuple[Head, list[bytes]]] = [
    (PutBatches(1, 7, 3, [BatchHead(3, 1, True), BatchHead(5)]), [b"abc", b"defgh"]),
    (PutEnd(7), []),
    (Action(2, CALLER, "commit", 2), [b"{}"]),
]


def received(chunks: Sequence[bytes]) -> list[tuple[Head, list[bytes]]]:
    found: list[tuple[Head, list[bytes]]] = []
    receiving = Receiving(HEADS, lambda head, bodies: found.append((head, [bytes(body) for body in bodies])))
    for chunk in chunks:
        while chunk:
            room = receiving.room()
            size = min(len(room), len(chunk))
            room[:size] = chunk[:size]
            receiving.received(size)
            chunk = chunk[size:]
    return found


@given(st.lists(st.integers(1, 40)))
def test_the_same_is_received_however_the_bytes_are_split(cuts: list[int]) -> None:
    data = b"".join(head_bytes(head) + b"".join(bodies) for head, bodies in SENT)
    chunks: list[bytes] = []
    for size in cuts:
        chunks.append(data[:size])
        data = data[size:]
    assert received([*chunks, data]) == SENT


def test_lengths_are_looked_at_before_room_is_made() -> None:
    for bad in (0, MAX_HEAD_BYTES + 1):
        with pytest.raises(CorruptBatch):
            received([LENGTH.pack(bad)])
    for head in (
        Action(1, CALLER, "commit", MAX_BODY_BYTES + 1),
        Action(1, CALLER, "commit", 0),
        PutBatches(1, 1, 1, [BatchHead(MAX_BODY_BYTES), BatchHead(1)]),
        PutBatches(1, 1, 1, [BatchHead(-5), BatchHead(6)]),
    ):
        with pytest.raises(CorruptBatch):
            received([head_bytes(head)])
    with pytest.raises(msgspec.DecodeError):
        received([LENGTH.pack(3) + b"{}}"])
