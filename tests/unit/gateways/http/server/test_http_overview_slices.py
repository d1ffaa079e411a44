"""The overview of a server with ten thousand queues: everybody else has a turn again and again while it is made, and no
piece of it looks at all queues, or at all logs."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest
from tests.support.http_server import RunningServer, running_server

from penstock.gateways.http.events.glance import Glances
from penstock.log.columns import Columns
from penstock.telemetry import breather

if TYPE_CHECKING:
    from _typeshed import TraceFunction

_MEMORY = Path("/dev/shm")
QUEUES, TOGETHER = 10_000, 500
WITH_LOGS = 1_000
MOST_AT_ONCE = 20
# Steps of Python that one turn may take: a slice takes 600 lines, what is said beside the numbers less than 2,000
# instructions.
MOST_STEPS = 4_000


@dataclass
class Meter:
    """What happens between two turns of somebody else on the loop."""

    glances: Glances
    queues: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    _steps: int = 0

    def __post_init__(self) -> None:
        self._looked_at = self.glances.looked_at

    def note(self) -> None:
        self.queues.append(self.glances.looked_at - self._looked_at)
        self.steps.append(self._steps)
        self._looked_at, self._steps = self.glances.looked_at, 0

    def trace(self, frame: FrameType, event: str, _: object) -> TraceFunction:
        self._steps += event in ("line", "opcode")
        # A comprehension is one line, however many it looks at.
        frame.f_trace_opcodes = frame.f_code.co_filename.endswith("operations.py")
        return self.trace

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.note()


@asynccontextmanager
async def metered(glances: Glances) -> AsyncIterator[Meter]:
    meter = Meter(glances)
    watching = asyncio.ensure_future(meter.watch())
    await asyncio.sleep(0)
    sys.settrace(meter.trace)
    try:
        yield meter
    finally:
        sys.settrace(None)
        watching.cancel()


@pytest.fixture(scope="module")
def full() -> Iterator[RunningServer]:
    """One log of its many has failed, so that there is something to warn of."""

    async def declare(first: int) -> None:
        declared = [made.broker.declare({"name": f"q{n}", "partitions": 1}) for n in range(first, first + TOGETHER)]
        queues = await asyncio.gather(*declared)
        if first < WITH_LOGS:
            columns, by = Columns.of([b"x"]), made.broker.publisher()
            await asyncio.gather(*[made.broker.publishing.put(queue, columns, by) for queue in queues])

    directory = tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None)
    with directory as place, running_server(Path(place), auth={}) as made:
        for first in range(0, QUEUES, TOGETHER):
            made.wait(declare(first))
        unit = made.broker.queue("q7").units[0]
        made.call(lambda: made.broker.shard._engine._poison(unit.data.number, "a test"))
        yield made


@pytest.fixture
def no_slice_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock a slice is over whenever it is looked at."""
    seconds = iter(range(1_000_000_000))
    monkeypatch.setattr(breather, "monotonic", lambda: float(next(seconds)))


@pytest.mark.usefixtures("no_slice_is_short")
@pytest.mark.parametrize("role", ["admin", "read-only"])
def test_others_have_a_turn_after_every_few_queues(full: RunningServer, role: str) -> None:
    glances = full.works.http.app.state.glances
    client = full.with_roles(role)

    async def ask() -> Meter:
        glances._whole_s = -1e9  # all of them are looked at, as is done now and then
        async with metered(glances) as meter:
            answer = await asyncio.get_running_loop().run_in_executor(None, client.get, "overview")
        assert answer.status == 200
        assert answer.json["queues"] == QUEUES
        assert any("q7" in warning for warning in answer.json["warnings"])
        return meter

    meter = full.wait(ask())
    assert sum(meter.queues) >= QUEUES
    assert max(meter.queues) <= MOST_AT_ONCE
    assert max(meter.steps) <= MOST_STEPS
