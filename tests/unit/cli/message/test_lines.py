"""Lines come out as they went in, however the bytes were split."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from penstock.cli.message.lines import LineReader
from penstock.core.errors import TooLarge
from penstock.log.header import MAX_BODY_BYTES


async def _all_of(descriptor: int, max_lines: int = 10, max_bytes: int = 1 << 20) -> list[list[bytes]]:
    reader, taken = LineReader(descriptor), list[list[bytes]]()
    while got := await reader.take(max_lines, max_bytes):
        taken.append(got)
    return taken


def _from_file(directory: Path, data: bytes, max_lines: int = 10, max_bytes: int = 1 << 20) -> list[list[bytes]]:
    path = directory / "input"
    path.write_bytes(data)
    with path.open("rb") as file:
        return asyncio.run(_all_of(file.fileno(), max_lines, max_bytes))


def test_lines_of_a_file_in_order_with_bounds_kept(tmp_path: Path) -> None:
    taken = _from_file(tmp_path, b"".join(b"%d\n" % n for n in range(25)))
    assert [line for part in taken for line in part] == [b"%d" % n for n in range(25)]
    assert [len(part) for part in taken] == [10, 10, 5]


def test_a_batch_keeps_to_its_bytes_but_takes_one_line_whatever_its_size(tmp_path: Path) -> None:
    taken = _from_file(tmp_path, b"aaaa\nbbbb\ncccccccccccc\nd\n", max_bytes=8)
    assert taken == [[b"aaaa", b"bbbb"], [b"cccccccccccc"], [b"d"]]


def test_only_the_newline_is_stripped(tmp_path: Path) -> None:
    taken = _from_file(tmp_path, b"a \r\n\n\xff\x00")
    assert [line for part in taken for line in part] == [b"a \r", b"", b"\xff\x00"]


def test_a_line_split_over_many_writes_is_one_line() -> None:
    async def run() -> list[list[bytes]]:
        reading, writing = os.pipe()
        all_of_it = asyncio.create_task(_all_of(reading))
        for part in (b"he", b"ll", b"o\nw", b"orld\n"):
            await asyncio.to_thread(os.write, writing, part)
            await asyncio.sleep(0)
        os.close(writing)
        taken = await all_of_it
        os.close(reading)
        return taken

    assert [line for part in asyncio.run(run()) for line in part] == [b"hello", b"world"]


def test_after_stop_nothing_more_is_taken() -> None:
    async def run() -> list[bytes]:
        reading, writing = os.pipe()
        reader = LineReader(reading)
        waiting = asyncio.create_task(reader.take(10, 100))
        await asyncio.sleep(0)
        reader.stop()
        taken = await waiting
        os.close(writing)
        return taken

    assert asyncio.run(run()) == []


def test_a_line_that_no_batch_could_hold_ends_the_input_with_an_error(tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="a line"):
        _from_file(tmp_path, b"x" * (MAX_BODY_BYTES + (1 << 19)))
