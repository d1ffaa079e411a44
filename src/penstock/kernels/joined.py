"""Columns of many batches as one: what Arrow would join an array at a time, which costs more than the bytes do.

`layouts` has 16 words a batch: those of lay_out() in kernels/batch.py, the last of them the number of its records.
Bodies are uncompressed; that of a batch which was not compressed is the whole batch. Together they are below 2**31."""

from __future__ import annotations

from array import array

from penstock.core.ports import Buffer
from penstock.kernels import batch as kernel
from penstock.kernels import memory


def lay_out(batches: list[Buffer], bodies: list[Buffer], layouts: memoryview, sizes: array[int]) -> int:
    """Fills `layouts`; how many records there are. To `sizes`, bytes of all keys, properties, native ones, values,
    topics, and how many topics. CorruptBatch where a body is not what its header says."""
    rows = 0
    for i in range(len(batches)):
        head = batches[i]
        body = bodies[i]
        count = memory.load_u32(head, 20)
        layout = layouts[16 * i : 16 * i + 16]
        kernel.lay_out(body, 0 if head[30] else 64, len(body), count, head[28], layout)
        for column in range(4):
            if layout[7 + 2 * column] >= 0:
                sizes[column] += memory.load_i32(body, layout[7 + 2 * column] + 4 * count)
        if layout[3] >= 0:
            sizes[4] += memory.load_i32(body, layout[5] + 4 * layout[4])
            sizes[5] += layout[4]
        layout[15] = count
        rows += count
    return rows


def join_sums(
    batches: list[Buffer],
    bodies: list[Buffer],
    layouts: memoryview,
    word: int,
    base_at: int,
    step: int,
    out: memoryview,
) -> int:
    """Offsets (word 1, base at byte 8, step 1) or timestamps (word 0, base at byte 32, step 0) of all records."""
    row = 0
    for i in range(len(batches)):
        count = layouts[16 * i + 15]
        base = memory.load_i64(batches[i], base_at)
        kernel.add_deltas(bodies[i], layouts[16 * i + word], base, step, out[row : row + count])
        row += count
    return row


def join_var(bodies: list[Buffer], layouts: memoryview, word: int, places: memoryview, out: memoryview) -> int:
    """A variable-length column; the bytes of it. `places` has one more than there are records, the first comes in as
    0."""
    row = at = 0
    for i in range(len(bodies)):
        count = layouts[16 * i + 15]
        column = layouts[16 * i + word]
        if column < 0:
            for _ in range(count):
                row += 1
                places[row] = at
            continue
        body = bodies[i]
        for j in range(count):
            row += 1
            places[row] = at + memory.load_i32(body, column + 4 * j + 4)
        size = memory.load_i32(body, column + 4 * count)
        memory.copy_bytes(out, at, body, layouts[16 * i + word + 1], size)
        at += size
    return at


def join_expiry(bodies: list[Buffer], layouts: memoryview, out: bytearray) -> int:
    """`out` comes in zeroed, 8 bytes a record."""
    row = 0
    for i in range(len(bodies)):
        count = layouts[16 * i + 15]
        if layouts[16 * i + 2] >= 0:
            memory.copy_bytes(out, 8 * row, bodies[i], layouts[16 * i + 2], 8 * count)
        row += count
    return row


def join_topics(
    bodies: list[Buffer], layouts: memoryview, numbers: memoryview, places: memoryview, names: memoryview
) -> int:
    """Numbers of the topics of all records, and the topics one batch after the other, behind an empty one that records
    without a topic have; how many. `places` has two more than the batches have topics; the first two come in as 0."""
    known, row, at = 1, 0, 0
    for i in range(len(bodies)):
        count = layouts[16 * i + 15]
        column = layouts[16 * i + 3]
        if column < 0:
            for _ in range(count):
                numbers[row] = 0
                row += 1
            continue
        body = bodies[i]
        for j in range(count):
            numbers[row] = known + memory.load_i32(body, column + 4 * j)
            row += 1
        topics = layouts[16 * i + 4]
        for j in range(topics):
            places[known + j + 1] = at + memory.load_i32(body, layouts[16 * i + 5] + 4 * j + 4)
        size = memory.load_i32(body, layouts[16 * i + 5] + 4 * topics)
        memory.copy_bytes(names, at, body, layouts[16 * i + 6], size)
        at += size
        known += topics
    return known
