"""Which pieces of a job that writes were done: a file beside what it wrote, a line a piece."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from penstock.jobs.files import appearing

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class _Head(msgspec.Struct, frozen=True):
    job: str


class _Line(msgspec.Struct, frozen=True):
    piece: str
    result: msgspec.Raw


class FinishedFile(Generic[Piece, Result]):
    """One process. A last line that a crash cut short is not there: its piece is done again."""

    def __init__(self, path: Path, job: str, kind: type[Result], name_of: Callable[[Piece], str]) -> None:
        """`job` says all that was asked: what was done for another question is worthless for this one. `kind` is what
        JSON can hold; `name_of` tells the pieces of the job apart."""
        self._path, self._name_of = path, name_of
        lines = _whole_lines(path)
        is_same = bool(lines) and msgspec.json.decode(lines[0], type=_Head).job == job
        self._results = _results(lines[1:], kind) if is_same else {}
        kept = lines if is_same else [msgspec.json.encode(_Head(job))]
        with appearing(path) as unfinished:
            unfinished.write_bytes(b"".join(line + b"\n" for line in kept))
        self._file = path.open("ab")

    @property
    def count(self) -> int:
        """Of pieces that are finished."""
        return len(self._results)

    def result(self, piece: Piece) -> Result | None:
        return self._results.get(self._name_of(piece))

    def record(self, piece: Piece, result: Result) -> None:
        name = self._name_of(piece)
        self._file.write(msgspec.json.encode(_Line(name, msgspec.Raw(msgspec.json.encode(result)))) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._results[name] = result

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """The job is done."""
        self.close()
        self._path.unlink()


def _whole_lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _results(lines: list[bytes], kind: type[Result]) -> dict[str, Result]:
    found: dict[str, Result] = {}
    for data in lines:
        line = msgspec.json.decode(data, type=_Line)
        found[line.piece] = msgspec.json.decode(line.result, type=kind)
    return found
