from __future__ import annotations

import mmap
import os
from array import array
from collections.abc import Iterator
from types import ModuleType

import pytest
from tests.support.kernels import builds


@pytest.fixture
def view() -> Iterator[memoryview]:
    with mmap.mmap(-1, 4096) as mapped, memoryview(mapped) as whole, whole.cast("q") as words:
        yield words


@pytest.mark.parametrize("table", builds("table"))
def test_what_was_published_is_read(table: ModuleType, view: memoryview) -> None:
    table.begin(view, 0)
    table.store(view, 5, -(2**63))
    table.store(view, 6, 2**63 - 1)
    table.end(view, 0)
    out = array("q", bytes(16))
    assert table.load_consistent(view, out, 0, 5, 2)
    assert list(out) == [-(2**63), 2**63 - 1]


@pytest.mark.parametrize("table", builds("table"))
def test_a_reader_is_told_that_a_writer_is_inside(table: ModuleType, view: memoryview) -> None:
    table.begin(view, 3)
    assert not table.load_consistent(view, array("q", [0]), 3, 5, 1)
    table.end(view, 3)
    assert table.load_consistent(view, array("q", [0]), 3, 5, 1)


@pytest.mark.parametrize("table", builds("table"))
def test_a_writer_that_died_inside_is_followed_by_one_that_is_seen(table: ModuleType, view: memoryview) -> None:
    table.begin(view, 0)
    dead = view[0]
    table.begin(view, 0)
    assert view[0] % 2 == 1
    assert view[0] != dead
    table.end(view, 0)
    assert view[0] % 2 == 0


@pytest.mark.parametrize("table", builds("table"))
def test_a_read_only_view_can_be_read(table: ModuleType, view: memoryview) -> None:
    assert table.load_consistent(view.toreadonly(), array("q", [9]), 0, 1, 1)


@pytest.mark.parametrize("table", builds("table"))
@pytest.mark.parametrize(("word", "first", "count"), [(-1, 0, 1), (512, 0, 1), (0, -1, 1), (0, 512, 1), (0, 0, 9)])
def test_words_outside_the_table_are_refused(
    table: ModuleType, view: memoryview, word: int, first: int, count: int
) -> None:
    with pytest.raises(IndexError):
        table.load_consistent(view, array("q", bytes(64)), word, first, count)


@pytest.mark.parametrize("table", builds("table"))
def test_another_process_never_sees_half_a_row(table: ModuleType, view: memoryview) -> None:
    """The writer keeps 16 words equal; a reader that gets a consistent copy must find them equal."""
    child = os.fork()
    if child == 0:
        for value in range(4000):
            table.begin(view, 0)
            for word in range(16):
                table.store(view, 8 + word, value)
            table.end(view, 0)
        table.store(view, 1, 1)
        os._exit(0)
    out, copies = array("q", bytes(128)), set[tuple[int, ...]]()
    while not view[1]:
        if table.load_consistent(view, out, 0, 8, 16):
            copies.add(tuple(out))
    assert os.waitpid(child, 0)[1] == 0
    assert all(len(set(copy)) == 1 for copy in copies)
