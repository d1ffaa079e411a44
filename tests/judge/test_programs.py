"""Random programs through every door against the reference: see README.md. Many more: `python -m tests.soak --only
judge`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from tests.judge.embedded import judge_embedded
from tests.judge.programs import embedded_programs, programs
from tests.judge.requests import Program
from tests.judge.running import judge, judged_server
from tests.support.http_server import RunningServer

import penstock
from penstock.embedded.database import Database


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, RunningServer]]:
    """By whether queues are made by themselves."""
    place = tmp_path_factory.mktemp("judge")
    with (
        judged_server(place / "making", auto_create=True) as making,
        judged_server(place / "strict", auto_create=False) as strict,
    ):
        yield {True: making, False: strict}


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, Database]]:
    place = tmp_path_factory.mktemp("judge")
    with penstock.open(place / "making") as making, penstock.open(place / "strict", auto_create=False) as strict:
        yield {True: making, False: strict}


@given(program=programs())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_cut_and_mix_of_packets_gives_what_the_reference_gives(
    servers: dict[bool, RunningServer], program: Program
) -> None:
    judge(servers[program.auto_create], program)


@given(program=embedded_programs())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_calls_of_several_threads_give_what_the_reference_gives(
    databases: dict[bool, Database], program: Program
) -> None:
    judge_embedded(databases[program.auto_create], program)
