"""Random programs by their seed: `python -m tests.judge.rounds --count 500 --seed 1` runs so many through the doors of
a server, and so many by threads of a database. The same seed gives the same programs."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.judge.embedded import judge_embedded, judged_database
from tests.judge.fresh import Fresh
from tests.judge.programs import embedded_programs, programs
from tests.judge.requests import Program
from tests.judge.running import judge, judged_server
from tests.support.loop import watched_loops

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)


def judged(judge_one: Callable[[Program], None], some: st.SearchStrategy[Program], count: int, first: int) -> None:
    """Raises what the shortest program that fails gives."""

    @seed(first)
    @settings(max_examples=count, deadline=None, database=None, print_blob=True, suppress_health_check=_SLOW)
    @given(program=some)
    def all_of_them(program: Program) -> None:
        judge_one(program)

    all_of_them()


def run(place: Path, count: int, first: int) -> None:
    with watched_loops() as errors:
        with Fresh(place / "servers", judged_server) as servers:
            judged(lambda program: judge(servers.of(program.auto_create), program), programs(), count, first)
        with Fresh(place / "databases", judged_database) as databases:
            judged(
                lambda program: judge_embedded(databases.of(program.auto_create), program),
                embedded_programs(),
                count,
                first,
            )
        errors.check()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.judge.rounds", description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-judge-") as place:
        for kind in ("servers", "databases"):
            (Path(place) / kind).mkdir()
        run(Path(place), options.count, options.seed)
    print(f"{options.count} programs through doors, {options.count} by threads: seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
