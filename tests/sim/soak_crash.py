"""Any number of seeded walks, over several processes; stops at the first seed that fails, with how to run it alone."""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Sequence

from tests.sim.walk import Walk

SEEDS_A_TASK = 200
TRACE_LINES = 40
PROGRESS_S = 10.0


def failure_of(seed: int) -> str | None:
    """What went wrong in that walk, with its last actions; None if nothing did."""
    walk = Walk(seed)
    logging.disable(logging.CRITICAL)
    try:
        walk.run()
    except Exception:
        actions = "\n".join(f"  {line}" for line in walk.trace[-TRACE_LINES:])
        return f"{actions}\n{traceback.format_exc()}\nwalk failed seed={seed}; alone: make sim SEED={seed}"
    finally:
        logging.disable(logging.NOTSET)
    return None


def failure_in(seeds: range) -> str | None:
    return next((failure for seed in seeds if (failure := failure_of(seed)) is not None), None)


def main(argv: Sequence[str] | None = None) -> int:
    """0 if every walk held."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.soak_crash", description=__doc__)
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(argv)
    if options.seed is not None:
        begun = time.monotonic()
        return _report(failure_of(options.seed), 1, begun)
    return _soak(range(options.first, options.first + options.count), options.processes)


def _soak(seeds: range, processes: int) -> int:
    begun = shown = time.monotonic()
    tasks = [seeds[at : at + SEEDS_A_TASK] for at in range(0, len(seeds), SEEDS_A_TASK)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for done, failure in enumerate(pool.imap_unordered(failure_in, tasks), 1):
            if failure is not None:
                return _report(failure, done * SEEDS_A_TASK, begun)
            if time.monotonic() - shown >= PROGRESS_S:
                shown = time.monotonic()
                print(f"walks {min(done * SEEDS_A_TASK, len(seeds))} of {len(seeds)}", flush=True)
    return _report(None, len(seeds), begun)


def _report(failure: str | None, walks: int, begun: float) -> int:
    if failure is not None:
        print(failure)
        return 1
    took_s = time.monotonic() - begun
    print(f"walks {walks} held, {walks / max(took_s, 1e-9):.0f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
