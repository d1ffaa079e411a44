"""The parts of the scene: what it counts, what it shows, and what it takes for a reading."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from examples.scene.board import Board, Rate
from examples.scene.devices import Reading, Readings
from examples.scene.play import farewells, invitations
from examples.scene.workers import parse_reading

from penstock.client.mqtt.message import Message
from penstock.client.mqtt.options import MqttOptions


def reading(number: int, run: str = "now") -> Reading:
    return {"run": run, "device": "pump-1", "number": number, "celsius": 60.0}


def test_a_reading_counts_once_however_often_it_is_handled() -> None:
    readings = Readings("now")
    readings.publishing(reading(1))
    readings.publishing(reading(2))
    readings.was_handled(reading(1))
    readings.was_handled(reading(1))
    assert (readings.handled, readings.left, readings.none_left.is_set()) == (1, 1, False)
    readings.was_given_up(reading(2))
    assert (readings.given_up, readings.left, readings.none_left.is_set()) == (1, 0, True)


def test_readings_of_an_earlier_run_are_not_counted() -> None:
    readings = Readings("now")
    readings.publishing(reading(1))
    readings.was_handled(reading(1, run="before"))
    readings.was_given_up({})
    assert (readings.handled, readings.given_up, readings.left) == (0, 0, 1)


@pytest.mark.parametrize("payload", [b"rubbish", b"[]", b"{}", b'{"celsius": "hot"}', b"\xff", b""])
def test_what_is_no_reading_is_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="celsius"):
        parse_reading(payload)


def test_a_rate_is_what_was_added_over_the_time_it_took() -> None:
    times = iter([10.0, 12.0, 12.0, 13.0])
    rate = Rate(lambda: next(times))
    rate.take(100)
    assert rate.per_s == 0
    rate.take(300)
    assert rate.per_s == 100
    rate.take(400)
    assert rate.per_s == 100
    rate.take(0)
    assert rate.per_s == 0


def test_the_board_shows_the_group_of_the_workers_and_the_dead_letters() -> None:
    async def shown() -> dict[str, str]:
        board = Board(MqttOptions())
        assert set(board.row().values()) == {"", "0"}
        group = {"lag": 7, "lag_s": 1.25, "in_flight": 3, "waiting": 1, "members": [{}, {}, {}], "counts": {"acked": 5}}
        queue = {"messages": 20, "depth": 9, "published": 20, "settings": {}}
        said = {**queue, "groups": [{"name": "others", **group, "lag": 99}, {"name": "workers", **group}]}
        board.take(Message("$admin/queue/readings/stats", json.dumps(said).encode()))
        board.take(Message("$admin/queue/$dlq/readings/stats", json.dumps({**queue, "groups": []}).encode()))
        board.take(Message("$SYS/broker/clients/connected", b"15"))
        return board.row()

    row = asyncio.run(shown())
    assert row["clients"] == "15"
    assert (row["depth"], row["lag"], row["lag s"], row["in flight"], row["in retry"]) == ("9", "7", "1.2", "3", "1")
    assert (row["workers"], row["dead letters"]) == ("3", "20")


def test_what_to_type_names_the_port_and_quotes_the_directory() -> None:
    assert all("4711" in line for line in invitations(4711, "http://127.0.0.1:4711"))
    assert all("'my data'" in line for line in farewells(Path("my data")))
