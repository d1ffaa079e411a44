"""Rows that come with their commit, killed between any two steps on the disk: after the replay they are there once."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Stage, stage
from tests.support.loop import run
from tests.support.staging import QUERY, staged, stored

from penstock.broker.queues.queue import Queue
from penstock.log.batch import encode
from penstock.log.columns import Columns
from penstock.log.disk import RealDisk, RealFile
from penstock.log.encoded import Encoded

pytestmark = pytest.mark.faults

_STEPS = {
    RealFile: ("write", "sync", "truncate"),
    RealDisk: ("create", "rename", "unlink", "link", "make_directory", "remove_directory", "sync_directory"),
}
EPOCH = 7
# A frame of these tests holds 128 KiB: the last two are written beside the journal.
KINDS = {"alone": (20, 0), "before a stage": (20, 20), "with a large stage": (20, 4000), "large": (4000, 0)}


class Photographs:
    """Copies of a directory as a kill would leave it, from before each step."""

    def __init__(self, directory: Path, place: Path) -> None:
        self._directory, self._place, self._lock = directory, place, threading.Lock()
        self.taken: list[Path] = []

    def take(self) -> None:
        with self._lock:
            copy = self._place / str(len(self.taken))
            shutil.copytree(self._directory, copy, ignore=shutil.ignore_patterns("table*", "lock"))
            self.taken.append(copy)

    @contextmanager
    def of_each_step(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        with patch.context() as patched:
            for kind, names in _STEPS.items():
                for name in names:
                    patched.setattr(kind, name, self._watched(getattr(kind, name)))
            yield
        self.take()

    def _watched(self, step: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(step)
        def watched(*arguments: Any) -> Any:
            self.take()
            return step(*arguments)

        return watched


def _values(name: str, size: int) -> list[bytes]:
    return [f"{name}.{number}.".encode().ljust(size, b".") for number in range(40)] if size else []


def _keys(values: list[bytes]) -> list[bytes]:
    return [value[:10] for value in values]


async def _commit(s: Stage, queue: Queue, carried: list[bytes], behind: list[bytes]) -> bool:
    """As a sink does it, from the beginning."""
    halves = [each for each in (behind[:20], behind[20:]) if each]
    ranges = [await staged(s, queue, *half, keys=_keys(half), writer=f"{QUERY}/{EPOCH}") for half in halves]
    parts = [Columns.of(part, keys=_keys(part)) for part in (carried[:10], carried[10:])]
    rows = [(queue, Encoded.checked(encode(part))) for part in parts]
    return (await s.broker.staging.commit(QUERY, EPOCH, ranges, rows=rows, pipeline="p")).is_repeated


@pytest.mark.parametrize("kind", KINDS)
def test_killed_between_any_two_steps_an_epoch_is_whole_or_not_there_and_once_after_its_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    carried, behind = (_values(name, size) for name, size in zip(("carried", "behind"), KINDS[kind], strict=True))
    directory, wanted = tmp_path / "data", sorted([b"before", *carried, *behind])
    photographs = Photographs(directory, tmp_path)

    async def write() -> None:
        async with stage(directory) as s:
            queue = await s.queue(partitions=2)
            await s.put(queue, b"before")
            with photographs.of_each_step(monkeypatch):
                assert not await _commit(s, queue, carried, behind)

    async def replay(copy: Path) -> bool:
        async with stage(copy) as s:
            assert await stored(s) in ([b"before"], wanted), "a part of an epoch"
            is_there = await stored(s) == wanted
            assert await _commit(s, s.broker.queue("q"), carried, behind) is is_there
            assert await stored(s) == wanted
            await s.restart()
            assert await stored(s) == wanted
            return is_there

    run(write())
    fates = [run(replay(copy)) for copy in photographs.taken]
    assert not fates[0] and fates[-1], "both fates are seen"
    assert fates == sorted(fates), "what was there once stays"
    assert len(fates) > 2
