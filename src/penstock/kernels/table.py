"""A sequence lock over a mapped table of int64 words: one writer, any number of readers in other processes.

    begin(view, word); store(view, i, value) …; end(view, word)          the writer
    while not load_consistent(view, out, word, first, count): again      a reader

`view` is a memoryview cast to 'q' (a writable one for the writer); `word` is the index of the sequence word, odd while
the writer is inside. Without the native kernel the order of the stores is only that of the interpreter: enough on
x86-64, and elsewhere what the table points to is checksummed anyway."""

from __future__ import annotations

from array import array


def begin_plain(view: memoryview, word: int) -> None:
    """Make the sequence odd, and unlike before even if an earlier writer died inside."""
    view[word] = (view[word] + 1) | 1


def end_plain(view: memoryview, word: int) -> None:
    """Make the sequence even again."""
    view[word] = (view[word] + 2) & ~1


def store_plain(view: memoryview, index: int, value: int) -> None:
    """One aligned store, between begin and end."""
    view[index] = value


def load_consistent_plain(view: memoryview, out: array[int], word: int, first: int, count: int) -> bool:
    """Copy view[first:first+count] to `out`; True if no writer was inside meanwhile, else the copy means nothing."""
    if first < 0 or first + count > len(view) or count > len(out) or not 0 <= word < len(view):
        raise IndexError("words outside the table")
    before = view[word]
    for i in range(count):
        out[i] = view[first + i]
    return bool(before & 1 == 0 and view[word] == before)


try:
    from penstock.kernels._native import begin, end, load_consistent, store
except ImportError:
    begin, end, store, load_consistent = begin_plain, end_plain, store_plain, load_consistent_plain

__all__ = ["begin", "end", "load_consistent", "store"]
