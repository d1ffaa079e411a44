"""Any number of seeded walks through the rules of queues; stops at the first seed that fails, with how to run it
alone."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.sim.queue_walk import QueueWalk

TRACE_LINES = 60
PROGRESS_S = 10.0


def failure_of(seed: int, steps: int) -> str | None:
    """What went wrong in that walk, with its last actions; None if nothing did."""
    with tempfile.TemporaryDirectory(prefix="penstock-walk-") as place:
        walk: QueueWalk | None = None

        async def run() -> None:
            nonlocal walk
            walk = QueueWalk(seed, Path(place), steps)
            await walk.run()

        try:
            asyncio.run(run())
        except Exception:
            lines = walk.trace if walk is not None else []
            actions = "\n".join(f"  {line}" for line in lines[-TRACE_LINES:])
            again = f"python -m tests.sim.soak_queues --seed {seed} --steps {steps}"
            return f"{actions}\n{traceback.format_exc()}\nwalk failed seed={seed} step={len(lines)}; alone: {again}"
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every walk held."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.soak_queues", description=__doc__)
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args(argv)
    first, count = (options.first, options.count) if options.seed is None else (options.seed, 1)
    begun = shown = time.monotonic()
    for seed in range(first, first + count):
        if (failure := failure_of(seed, options.steps)) is not None:
            print(failure)
            return 1
        if time.monotonic() - shown >= PROGRESS_S:
            shown = time.monotonic()
            print(f"walks {seed - first + 1} of {count}", flush=True)
    print(f"walks {count} of {options.steps} steps held in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
