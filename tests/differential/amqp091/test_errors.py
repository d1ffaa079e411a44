"""What RabbitMQ says to mistakes, as it is recorded: our table of errors can say the same, and Penstock does."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Any

import pytest
from tests.differential.amqp091 import deviations, pending
from tests.differential.amqp091.brokers import here, penstock_has_amqp
from tests.differential.amqp091.compare import played
from tests.differential.amqp091.mistakes import MISTAKES
from tests.differential.amqp091.record import outcome, recorded_errors
from tests.differential.amqp091.told import Told

from penstock.codecs.amqp091.errors import Fault

RECORDED = recorded_errors()


@pytest.fixture(scope="module")
def penstock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    if not penstock_has_amqp():
        pytest.skip("this version has no listener amqp")
    with here(tmp_path_factory.mktemp("mistakes")) as address:
        yield address


def _said_by(fault: Fault) -> re.Pattern[str]:
    parts = [re.escape(text) + ("(.*)" if name else "") for text, name, _, _ in string.Formatter().parse(fault.text)]
    return re.compile(f"{fault.reply.name} - {''.join(parts)}" if parts else fault.reply.name, re.DOTALL)


def test_every_mistake_is_recorded() -> None:
    assert RECORDED.keys() == MISTAKES.keys(), "python -m tests.differential.amqp091.record errors"
    assert deviations.MISTAKES.keys() | deviations.NOT_RUN.keys() <= MISTAKES.keys()


@pytest.mark.parametrize(
    "name", [name for name in MISTAKES if RECORDED[name]["level"] and name not in deviations.MISTAKES]
)
def test_the_table_of_errors_has_what_is_recorded(name: str) -> None:
    recorded = RECORDED[name]
    is_hard = recorded["level"] == "connection"
    assert [
        fault
        for fault in Fault
        if int(fault.reply) == recorded["code"]
        and _said_by(fault).fullmatch(recorded["text"])
        and fault.is_hard == is_hard
    ], recorded


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.xfail(reason="pending")] if name in pending.MISTAKES else [])
        for name in MISTAKES
        if name not in deviations.NOT_RUN
    ],
)
def test_penstock_says_what_is_recorded(name: str, penstock: tuple[str, int]) -> None:
    got = outcome(played(penstock, MISTAKES[name]))
    if (ours := deviations.MISTAKES.get(name)) is None:
        assert _compared(got) == _compared(RECORDED[name])
    else:
        assert (got["level"], got.get("code", 0)) == (ours.level, ours.code), ours.reason
        assert ours.text in (None, got.get("text", "")), ours.reason


def _compared(found: dict[str, Any]) -> dict[str, Any]:
    came: dict[str, list[Told]] = found["came"]
    return {**found, "came": deviations.normalised(came)}
