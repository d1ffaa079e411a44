"""A load beside other work: that goes on for the whole round, out of the way, and its end is not missed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import bench.spark.beside_mqtt
import pytest
from bench.mqtt.peers import Broker
from bench.mqtt.servers import Server
from bench.process import BenchmarkFailed
from bench.spark.beside_mqtt import BURNER, QUIET, SPARK, Rounds
from bench.spark.neighbours import Neighbour, Step, burning
from tests.support.tiny_mqtt import tiny_broker

_ROUND_S = 0.05


@contextmanager
def _place() -> Iterator[Step]:
    """Its steps tell on which core, and how politely, they are done."""
    yield lambda: 100 * max(os.sched_getaffinity(0)) + os.nice(0) if len(os.sched_getaffinity(0)) == 1 else -1


@contextmanager
def _breaking() -> Iterator[Step]:
    def step() -> int:
        raise SystemExit(3)

    yield step


def test_work_beside_a_broker_has_one_core_and_the_lowest_priority() -> None:
    with closing(Neighbour(_place)) as neighbour, neighbour.at_work() as work:
        pass
    assert set(work.results) == {100 * max(os.sched_getaffinity(0)) + 19}


def test_work_that_breaks_fails_the_benchmark() -> None:
    with (
        closing(Neighbour(_breaking)) as neighbour,
        pytest.raises(BenchmarkFailed, match="ended with 3"),
        neighbour.at_work(),
    ):
        pass


def test_a_burner_wants_the_core_with_all_its_threads() -> None:
    with closing(Neighbour(burning, 2)) as burner:
        assert burner.runnable_threads() == 2


def test_every_round_is_compared_and_says_what_ran_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.spark.beside_mqtt, "_MESSAGES_A_SECOND", 1000)
    server = Server("sleep", ["sleep", "60"], tmp_path)
    with tiny_broker() as address, closing(Neighbour(_place)) as one, closing(Neighbour(_place)) as other:
        rounds = Rounds(Broker("tiny", address, server), _ROUND_S, {BURNER: one, SPARK: other})
        rounds.run(3)
    server.stop()
    against_burner, against_nothing = rounds.comparisons(threads=2)
    assert rounds.published == 3 * 3 * 1000 * _ROUND_S
    assert [len(each.subject.samples) for each in (against_burner, against_nothing)] == [3, 3]
    assert against_burner.target is not None and against_nothing.target is None
    assert {BURNER, SPARK, "reads", f"all rounds {QUIET}"} <= set(against_burner.notes)
