"""Sessions over a small directory: opened, opened again, or as a kill leaves them; short words for what tests do."""

from __future__ import annotations

import contextlib
import shutil
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.broker import SMALL
from tests.support.clock import FakeClock

from penstock.broker.sessions.options import SessionOptions
from penstock.broker.sessions.queued import Taken
from penstock.broker.sessions.session import Session
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.sessions.targets import Accepted, Targets
from penstock.log.columns import Columns
from penstock.log.options import ShardOptions
from penstock.log.shard import Shard

HOUR_S = 3600


async def copy_of_now(shard: Shard, directory: Path, copy: Path) -> None:
    """Behind a checkpoint the threads of the shard write nothing: the copy is of one moment. Files that the checkpoint
    has made superfluous may vanish meanwhile."""
    await shard.checkpoint()
    shutil.copytree(directory, copy, copy_function=_copy_if_there)


def _copy_if_there(source: str, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.copy(source, target)


@dataclass
class SessionStage:
    """Settlements stay in memory until something is flushed: the delay is longer than a test."""

    directory: Path
    options: SessionOptions = field(default_factory=lambda: SessionOptions(message_logs=2, settle_delay_s=60.0))
    shard_options: ShardOptions = SMALL
    clock: FakeClock = field(default_factory=FakeClock)
    shard: Shard = field(init=False)
    sessions: Sessions = field(init=False)
    lives: int = 0

    async def open(self) -> None:
        self.shard = await Shard.open(self.directory, self.shard_options, self.clock)
        self.sessions = await Sessions.open(self.shard, self.clock.now_ms, self.options)

    async def close(self) -> None:
        await self.sessions.close()
        await self.shard.close()

    async def restart(self) -> None:
        await self.close()
        await self.open()

    async def crash(self) -> None:
        """Go on with what is on disk now: what was committed, and nothing that was not flushed."""
        self.lives += 1
        copy = self.directory.with_name(f"{self.directory.name.partition('-')[0]}-{self.lives}")
        await copy_of_now(self.shard, self.directory, copy)
        await self.close()
        self.directory = copy
        await self.open()

    async def begin(self, client_id: str = "c", expiry_s: int = HOUR_S) -> Session:
        return await self.sessions.begin(client_id, owner="somebody", expiry_s=expiry_s)

    def find(self, client_id: str = "c") -> Session:
        found = self.sessions.find(client_id)
        assert found is not None
        return found

    async def send(
        self,
        *values: bytes,
        to: Sequence[Session],
        flags: int = 1,
        topic: bytes = b"a/b",
        expiry: Sequence[int] | None = None,
    ) -> Accepted:
        """All values to all sessions, in one frame; nothing if nobody has room."""
        columns = Columns.of(values, topics=[topic] * len(values), expiry=expiry)
        targets = Targets()
        for session in to:
            targets.add(session, array("i", range(len(values))), flags)
        accepted = self.sessions.accept(columns, targets)
        try:
            if accepted.parts:
                await self.shard.commit(accepted.parts)
            accepted.taken()
        finally:
            accepted.close()
        return accepted


def values(taken: Sequence[Taken]) -> list[bytes]:
    return [one.stored.batch.value(row) for one in taken for row in one.rows]


def message_ids(taken: Sequence[Taken]) -> list[int]:
    return [message_id for one in taken for message_id in one.message_ids]


def flags_of(taken: Sequence[Taken]) -> list[int]:
    return [flags for one in taken for flags in one.flags]


async def take_all(session: Session) -> list[Taken]:
    found: list[Taken] = []
    while more := await session.take(1000, 1 << 20):
        found += more
    return found


@asynccontextmanager
async def session_stage(
    directory: Path, options: SessionOptions | None = None, shard: ShardOptions = SMALL
) -> AsyncIterator[SessionStage]:
    made = SessionStage(directory / "0", shard_options=shard)
    made.options = options or made.options
    await made.open()
    try:
        yield made
    finally:
        await made.close()
