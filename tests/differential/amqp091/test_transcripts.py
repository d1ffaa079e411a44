"""Penstock says to a script what RabbitMQ says: to those that are recorded, and, where RabbitMQ is installed, to new
ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.differential.amqp091 import deviations, pending
from tests.differential.amqp091.brokers import here, penstock_has_amqp, reference
from tests.differential.amqp091.compare import difference, judged, played
from tests.differential.amqp091.record import recorded_scenes, recorded_scripts
from tests.differential.amqp091.scenes import SCENES
from tests.differential.amqp091.script import Script, from_plain, to_plain
from tests.support.servers import NotInstalled

SCRIPTS = recorded_scripts()
FRESH = 10


@pytest.fixture(scope="module")
def penstock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    if not penstock_has_amqp():
        pytest.skip("this version has no listener amqp")
    with here(tmp_path_factory.mktemp("transcripts")) as address:
        yield address


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    try:
        with reference(tmp_path_factory.mktemp("rabbitmq")) as address:
            yield address
    except NotInstalled as absence:
        pytest.skip(str(absence))


def test_every_scene_is_recorded() -> None:
    assert recorded_scenes().keys() == SCENES.keys(), "python -m tests.differential.amqp091.record scenes"
    assert deviations.SCENES.keys() <= SCENES.keys()


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_the_same_after_it_was_written_down(name: str) -> None:
    assert [from_plain(to_plain(step)) for step in SCENES[name]] == list(SCENES[name])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.xfail(reason="pending")] if name in pending.SCENES else [])
        for name in SCENES
        if name not in deviations.SCENES
    ],
)
def test_a_scene_goes_as_recorded(name: str, penstock: tuple[str, int]) -> None:
    _same(SCENES[name], recorded_scenes()[name], penstock)


@pytest.mark.xfail(not pending.HAS_ALL_OF_SCRIPTS, reason="pending")
@pytest.mark.parametrize("seed", SCRIPTS)
def test_a_script_goes_as_recorded(seed: str, penstock: tuple[str, int]) -> None:
    script, transcript = SCRIPTS[seed]
    _same(script, transcript, penstock)


@pytest.mark.xfail(not pending.HAS_ALL_OF_SCRIPTS, reason="pending")
def test_new_scripts_go_as_in_rabbitmq(rabbitmq: tuple[str, int], penstock: tuple[str, int], tmp_path: Path) -> None:
    first = int.from_bytes(os.urandom(4), "big")
    for seed in range(first, first + FRESH):
        found = judged(rabbitmq, penstock, seed)
        assert found is None, found


def _same(script: Script, transcript: list[dict[str, list[dict[str, object]]]], address: tuple[str, int]) -> None:
    found = difference(script, transcript, played(address, script))
    assert found is None, str(found)
