"""Whole batches through a window, against the same through arrays of offsets and keys."""

from __future__ import annotations

import random
from array import array

import pytest

from penstock.kernels import hashing
from penstock.kernels.batch import keys_at
from penstock.kernels.window import Window
from penstock.log.batch import KEY, Batch, encode, seal
from penstock.log.columns import Columns

NOW = 1_000_000


def stored(
    first: int,
    keys: list[bytes] | None,
    count: int = 0,
    *,
    topics: bool = False,
    expiry: bool = False,
    producer: int = 0,
) -> bytearray:
    count = len(keys) if keys is not None else count
    columns = Columns.of(
        [b"value"] * count,
        keys=keys,
        topics=[b"topic/%d" % (i % 3) for i in range(count)] if topics else None,
        expiry=[0] * count if expiry else None,
    )
    columns.producer_id = producer
    batch = encode(columns)
    seal(batch, first, 0, NOW)
    return batch


def hashes(batch: bytearray) -> array[int] | None:
    column = Batch.parse(batch).var_column(KEY)
    if column is None:
        return None
    count, offsets, data = column
    out = array("Q", bytes(8 * count))
    hashing.hash_column(data, offsets.cast("i"), count, out)
    return out


def deliver(window: Window, batch: bytearray, consumer: int) -> int:
    """In arrays; how many of the batch the consumer got."""
    offsets = Batch.parse(batch).offsets()
    out = array("i", bytes(4 * len(offsets)))
    keys = hashes(batch)
    return window.deliver(offsets, keys, None, 0, len(offsets), consumer, len(out), NOW, -1, 1 << 40, out)


def seen(window: Window) -> tuple[object, ...]:
    counts = window.next, window.floor, window.pending, window.held, window.ready, window.parked
    return (*counts, [window.entry(offset) for offset in window.offsets()], window.held_by(1), window.held_by(2))


@pytest.mark.parametrize("seed", range(40))
def test_a_batch_in_one_call_leaves_the_window_as_arrays_do(seed: int) -> None:
    rng = random.Random(seed)
    quick, slow = Window(5), Window(5)
    for _ in range(60):
        consumer = rng.choice([1, 1, 1, 2])
        if rng.random() < 0.6:
            keys = [rng.choice([b"", b"a", b"bb", b"ccc", b"long-key-number-%d" % rng.randrange(9)]) for _ in range(3)]
            batch = stored(quick.next, keys if rng.random() < 0.8 else None, 3, topics=rng.random() < 0.5)
            given = quick.deliver_whole(batch, True, consumer, NOW, 100)
            if given:
                assert given == deliver(slow, batch, consumer) == 3
            elif rng.random() < 0.5:
                assert deliver(quick, batch, consumer) == deliver(slow, batch, consumer)
        elif quick.pending:
            first = rng.choice(quick.offsets())
            stop = first + rng.randrange(1, 4)
            whole, offsets = quick.ack_whole(first, stop, consumer), array("q", range(first, stop))
            if whole:
                assert slow.ack(offsets, None, consumer, array("q", bytes(8 * len(offsets)))) == len(offsets)
            else:
                wanted = [quick.entry(offset) for offset in offsets]
                assert not all(
                    entry is not None and entry.state <= 2 and entry.consumer == consumer for entry in wanted
                )
        assert seen(quick) == seen(slow)


@pytest.mark.parametrize("seed", range(40))
def test_a_part_of_a_batch_in_one_call_leaves_the_window_as_arrays_do(seed: int) -> None:
    rng = random.Random(seed)
    quick, slow = Window(5), Window(5)
    batch = stored(5, None, 1)
    for _ in range(80):
        consumer, room = rng.choice([1, 1, 2]), rng.randrange(1, 6)
        end = Batch.parse(batch).next_offset
        if quick.next >= end:
            keys = [rng.choice([b"", b"a", b"bb", b"ccc"]) for _ in range(5)]
            batch = stored(end, keys if rng.random() < 0.7 else None, 5, topics=rng.random() < 0.5)
        if rng.random() < 0.6:
            before, offsets, out = quick.next, Batch.parse(batch).offsets(), array("i", bytes(4 * room))
            given = quick.deliver_some(batch, True, consumer, NOW, room)
            row, keys_of = before - offsets[0], hashes(batch)
            assert slow.deliver(offsets, keys_of, None, row, row + given, consumer, given, NOW, -1, 99, out) == given
            if given < min(room, len(offsets) - row) and not quick.ready:
                beyond = row + given, row + given + 1, consumer, 1
                for window in (quick, slow):
                    assert window.deliver(offsets, keys_of, None, *beyond, NOW, -1, 99, out) == 0, "parked"
        elif quick.pending:
            first = rng.choice(quick.offsets())
            assert quick.settle_range(first, first + 2) == slow.settle_range(first, first + 2)
        assert seen(quick) == seen(slow)


def test_a_part_of_what_is_not_plain_or_not_next_is_left_alone() -> None:
    window = Window(1)
    refused = [
        stored(2, [b"a"]),
        stored(0, [b"a"]),
        stored(0, [b"a", b"b"], expiry=True),
        stored(0, [b"a", b"b"], producer=(1 << 64) - 1),
    ]
    assert [window.deliver_some(batch, True, 1, NOW, 9) for batch in refused] == [0] * 4
    batch = stored(0, [b"a", b"b", b"c", b"d"])
    assert window.deliver_some(batch, True, 1, NOW, 9, NOW) == 0, "published when it is too old"
    assert window.deliver_some(batch, True, 1, NOW, 0) == window.deliver_some(batch, True, -1, NOW, 9) == 0
    assert (window.pending, window.next) == (0, 1)
    assert [window.deliver_some(batch, True, 1, NOW, 2) for _ in range(3)] == [2, 1, 0]
    assert window.next == 4


def test_what_is_not_plain_or_not_next_is_left_alone() -> None:
    window = Window(0)
    compressed = stored(0, [b"a"])
    compressed[30] = 1
    refused = [
        stored(1, [b"a"]),
        stored(0, [b"a", b"b"]),
        stored(0, [b"a"], expiry=True),
        stored(0, [b"a"], producer=(1 << 64) - 1),
        compressed,
    ]
    assert [window.deliver_whole(batch, True, 1, NOW, 1) for batch in refused] == [0] * 5
    assert window.deliver_whole(stored(0, [b"a"]), True, 1, NOW, 1, NOW) == 0, "published when it is too old"
    assert window.deliver_whole(stored(0, [b"a"]), True, -1, NOW, 1) == 0
    assert window.pending == window.next == 0
    assert window.deliver_whole(stored(0, [b"a"]), True, 1, NOW, 1, NOW - 1) == 1


def test_what_would_be_parked_is_left_alone() -> None:
    window = Window(0)
    assert window.deliver_whole(stored(0, [b"a", b""]), True, 1, NOW, 10) == 2
    assert window.deliver_whole(stored(2, [b"b", b"a"]), True, 2, NOW, 10) == 0
    assert window.deliver_whole(stored(2, [b"b", b"a"]), False, 2, NOW, 10) == 2, "keys count for nothing"


def test_a_batch_waits_while_an_earlier_message_is_ready_again() -> None:
    window = Window(0)
    assert window.deliver_whole(stored(0, None, 2), True, 1, NOW, 10) == 2
    room = array("q", bytes(16)), array("q", bytes(16))
    assert window.give_back(1, False, 10, NOW, *room) == 2
    assert window.deliver_whole(stored(2, None, 1), True, 1, NOW, 10) == 0


def test_what_was_handed_out_again_is_not_settled_as_a_whole() -> None:
    window = Window(0)
    window.deliver_whole(stored(0, None, 2), True, 1, NOW, 10)
    room = array("q", bytes(16)), array("q", bytes(16))
    assert window.give_back(1, True, 10, NOW, *room) == 2
    assert window.take(1, 2, NOW, -1, 10, array("q", bytes(16)), array("i", bytes(8))) == 2
    assert not window.ack_whole(0, 2, 1), "it may be the first delivery that is meant"
    assert window.pending == 2


def test_all_are_settled_or_none() -> None:
    window = Window(0)
    window.deliver_whole(stored(0, None, 3), True, 1, NOW, 10)
    assert not window.ack_whole(0, 4, 1)
    assert not window.ack_whole(0, 3, 2)
    assert not window.ack_whole(2, 2, 1)
    assert not window.ack_whole(-1, 2, 1)
    assert window.ack_whole(1, 2, 1)
    assert not window.ack_whole(0, 3, 1), "one is settled already"
    assert window.pending == 2
    assert window.ack_whole(0, 1, 1)
    assert window.ack_whole(2, 3, 1)
    assert window.floor == 3


@pytest.mark.parametrize("topics", [False, True])
def test_keys_are_found_where_the_layout_has_them(topics: bool) -> None:
    batch = stored(0, [b"key-%d" % i for i in range(7)], topics=topics)
    column = Batch.parse(batch).var_column(KEY)
    assert column is not None
    at = keys_at(batch)
    assert bytes(batch[at : at + 4 * 8]) == bytes(column[1])
    assert keys_at(stored(0, None, 7, topics=topics)) == -1


@pytest.mark.parametrize("size", [0, 20, 63, 64, 70])
def test_bytes_that_end_too_early_are_not_read_behind_their_end(size: int) -> None:
    batch = stored(0, [b"key"], topics=True)[:size]
    with pytest.raises(IndexError):
        Window(0).deliver_whole(batch, True, 1, NOW, 10)
