"""Rows of queues are staged by broker/publish and by nobody else: ADR 35."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from unittest import mock

import pytest
from tests.sim.queue_walk import QueueWalk
from tests.sim.refusal_walk import refusal_walk
from tests.sim.staging_walk import StagingWalk
from tests.support.broker import stage
from tests.support.loop import run

import penstock
from penstock.log.columns import Columns
from penstock.log.engine import Engine
from penstock.log.journal.frames import Entry
from penstock.log.partition import Log
from penstock.queues.names import partition_of_log

SOURCE = Path(penstock.__file__).parent
STAGES = {"stage_now", "commit", "commit_spread", "commit_now", "append", "append_raw", "adopt"}
"""methods of a shard that put rows into logs"""
OTHERS = {
    "broker/catalogue/configuration.py": {"commit"},
    "broker/catalogue/copied.py": {"append", "commit"},  # declarations, users
    "broker/queues/ledger.py": {"commit", "commit_now"},  # state logs
    "broker/retained/space.py": {"commit"},
    "broker/sessions/forwarding.py": {"commit"},
    "broker/sessions/snapshots.py": {"append"},
    "broker/sessions/state_writer.py": {"commit", "commit_now"},
    "broker/queues/snapshots.py": {"append", "commit"},
    "broker/staging/book.py": {"commit"},
    "broker/staging/staging.py": {"commit"},  # side logs
    "broker/topics/topics.py": {"commit"},  # sessions
    "gateways/mqtt/sessions/registry.py": {"commit"},  # sessions
    "cli/log/append.py": {"append"},  # a log by its name, without a broker
    "gateways/mqtt/outbound/retained.py": {"commit"},  # sessions
}
"""who may call which of them, for logs that are no queue's"""


def staging_calls(tree: ast.AST) -> Iterator[str]:
    """Of methods on something that is called a shard."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in STAGES:
            holder = node.func.value
            name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
            if name.lstrip("_") == "shard":
                yield node.func.attr


def test_only_those_who_write_other_logs_stage_beside_the_one_way() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(("log/", "broker/publish/")):
            calls = set(staging_calls(ast.parse(path.read_text())))
            found |= {name: calls} if calls else {}
    assert found == OTHERS


def _comes_by_the_one_way() -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("penstock.broker.publish."):
            return True
        frame = frame.f_back
    return False


@contextmanager
def watched(seen: list[str]) -> Iterator[None]:
    """Rows for logs of messages that are staged; it fails for those that come by another way."""
    submit = Engine._submit

    def watch(self: Engine, entries: list[Entry], logs: list[Log], *others: object, **named: object) -> None:
        for entry, log in zip(entries, logs, strict=True):
            is_queue = partition_of_log(log.name) is not None
            has_rows = bool(entry.records) or (entry.edit is not None and bool(entry.edit.adopted))
            if is_queue and has_rows:
                assert _comes_by_the_one_way(), log.name
                seen.append(log.name)
        submit(self, entries, logs, *others, **named)  # type: ignore[arg-type]

    with mock.patch.object(Engine, "_submit", watch):
        yield


def test_rows_of_queues_come_by_the_one_way_whatever_happens(tmp_path: Path) -> None:
    """Publishes, producers, transactions, dead letters, redrives, epochs in one frame and beside the journal."""
    seen: list[str] = []
    with watched(seen):
        run(QueueWalk(4, tmp_path / "queues", 300).run())
        run(StagingWalk(1, tmp_path / "staging").run())
        refusal_walk(tmp_path / "refusals", 1, 150)
    assert len(seen) > 100 and any("%24dlq" in name for name in seen)


def test_the_watch_sees_what_comes_by_another_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue()
            await s.put(queue, b"v")
            with watched([]), pytest.raises(AssertionError, match="q/0"):
                await s.broker.shard.append(queue.units[0].data, Columns.of([b"v"]))

    run(main())
