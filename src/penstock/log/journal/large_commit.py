"""A commit of more than a frame holds: segments written beside the journal, then one small frame that adopts them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from penstock.core.ports import Clock, Disk
from penstock.log.engine import Done, Engine
from penstock.log.journal.late import LateParts
from penstock.log.journal.turns import Turns
from penstock.log.partition import Log
from penstock.log.segments.side_segments import Importer, imported_version

Fill = Callable[[Importer], None]


class Adopting:
    """Used from the loop. One at a time: what limits them is the disk."""

    def __init__(self, engine: Engine, disk: Disk, clock: Clock, turns: Turns) -> None:
        self._engine, self._disk, self._clock, self._turns = engine, disk, clock, turns
        self.lock = asyncio.Lock()
        """held until the segments are shown: a log adopts no others before"""

    async def stage(
        self, logs: Sequence[Log], fill: Fill, late: LateParts, refuse: Callable[[], None], done: Done
    ) -> None:
        """Have `fill` write rows for `logs` in a thread of its own, while commits to these wait; then stage the frame.
        `refuse` raises what stands against that. If this raises, the files are gone and nothing has changed. Not to be
        cancelled: the thread would go on."""
        async with self._turns.taken(logs):
            version = imported_version(self._engine.next_sequence)
            importer = Importer(self._disk, logs, self._clock.now_ms(), version)
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(None, _write, importer, fill)
                refuse()
                self._engine.refuse_adoption(importer.adopted)
                decided = late(self._engine.frame_room)
                self._engine.stage_adoption(importer.adopted, decided.parts, done, decided.apply)
            except BaseException:
                await loop.run_in_executor(None, importer.abandon)
                raise


def _write(importer: Importer, fill: Fill) -> None:
    fill(importer)
    importer.finish()
