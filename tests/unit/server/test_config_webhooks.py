"""Webhooks as people write them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from penstock.broker.webhooks.events import Event, Hook
from penstock.broker.webhooks.webhooks import MAX_HOOKS
from penstock.server.config import Config, load
from penstock.server.written import BadConfiguration

SECRET = "a secret of some length"
URL = "https://hooks.example/path"


def read(*hooks: Mapping[str, object]) -> Config:
    return load(None, {}, [f"webhooks={json.dumps(hooks)}"])


def test_an_address_is_enough() -> None:
    [hook] = read({"url": URL}).webhooks
    assert hook.options() == Hook(URL)


def test_everything_can_be_written() -> None:
    [hook] = read(
        {
            "url": URL,
            "events": ["lag", "queue-full", "lag"],
            "secret": SECRET,
            "headers": {"Authorization": "Bearer x"},
            "timeout": "2s",
            "retries": 0,
            "lag_threshold": 5,
        }
    ).webhooks
    events = frozenset({Event.LAG, Event.QUEUE_FULL})
    assert hook.options() == Hook(URL, events, SECRET, (("Authorization", "Bearer x"),), 2.0, 0, 5)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({}, r"webhooks\[0\].url: is missing"),
        ({"url": "hooks.example"}, r"webhooks\[0\].url: is not an address"),
        ({"url": 7}, r"webhooks\[0\].url: is not an address"),
        ({"url": URL, "events": ["conected"]}, r"events\[0\].*did you mean connected"),
        ({"url": URL, "events": []}, "not a list"),
        ({"url": URL, "secret": "short"}, "secret: is too short"),
        ({"url": URL, "headers": ["x"]}, "headers: is not an object"),
        ({"url": URL, "headers": {"a b": "x"}}, "not the name of a header"),
        ({"url": URL, "headers": {"Penstock-Signature": "x"}}, "written by the server itself"),
        ({"url": URL, "headers": {"X": "a\r\nY: b"}}, "text that a header can have"),
        ({"url": URL, "event": []}, "no such setting; did you mean webhooks"),
    ],
)
def test_mistakes_are_named(written: dict[str, object], said: str) -> None:
    with pytest.raises(BadConfiguration, match=said):
        read(written)


def test_no_mistake_repeats_a_secret() -> None:
    for written in ({"url": "ftp://hooks.example/hidden"}, {"url": URL, "headers": {"X": "hidden\n"}}):
        with pytest.raises(BadConfiguration) as caught:
            read(written)
        assert "hidden" not in str(caught.value)


def test_an_address_is_written_once_and_there_are_not_many() -> None:
    with pytest.raises(BadConfiguration, match=r"webhooks\[1\].url: is that of webhooks\[0\] too"):
        read({"url": URL}, {"url": URL})
    with pytest.raises(BadConfiguration, match="at most 16"):
        read(*({"url": f"{URL}/{number}"} for number in range(MAX_HOOKS + 1)))
