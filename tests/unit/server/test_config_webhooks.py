"""Webhooks as people write them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from penstock.broker.webhooks.events import Event, Hook, encode, headers_of
from penstock.broker.webhooks.webhooks import MAX_HOOKS
from penstock.server.config import Config, load
from penstock.server.written import BadConfiguration

SECRET = "a secret of some length"
URL = "https://hooks.example/path"
PAGE = Path(__file__).parents[3] / "docs" / "howto" / "webhooks.md"


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


@pytest.mark.parametrize("key", ["webhooks", "listeners.mqtt", "storage.data_dir", "storage.disk_reserve", "log.level"])
@pytest.mark.parametrize("written", [{"endpoints": [{"secret": "hidden"}]}, [["hidden"]], "hidden"])
def test_what_has_parts_is_not_repeated_where_something_else_belongs(key: str, written: object) -> None:
    if isinstance(written, str) and key not in ("webhooks", "listeners.mqtt"):
        return
    section, _, setting = key.partition(".")
    with pytest.raises(BadConfiguration) as caught:
        load(None, {}, [f"{section}={json.dumps({setting: written} if setting else written)}"])
    assert "hidden" not in str(caught.value)


def test_an_address_is_written_once_and_there_are_not_many() -> None:
    with pytest.raises(BadConfiguration, match=r"webhooks\[1\].url: is that of webhooks\[0\] too"):
        read({"url": URL}, {"url": URL})
    with pytest.raises(BadConfiguration, match="the limit is 16"):
        read(*({"url": f"{URL}/{number}"} for number in range(MAX_HOOKS + 1)))


def test_the_configuration_in_the_how_to_is_good(tmp_path: Path) -> None:
    [block] = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    file = tmp_path / "penstock.yaml"
    file.write_text(block)
    assert [hook.options().place for hook in load(file, {}, ()).webhooks] == [
        "https://ops.example",
        "https://presence.example",
    ]


def test_the_how_to_verifies_what_is_sent() -> None:
    [block] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Callable[..., bool]] = {}
    exec(block, names)
    notice, now_s = encode(Event.LAG, "id", 0, {}), int(time.time())
    headers = headers_of(Hook(URL, secret=SECRET), notice, now_s)
    is_genuine = names["is_genuine"]
    assert is_genuine(SECRET, headers, notice.body)
    assert not is_genuine("another secret", headers, notice.body)
    assert not is_genuine(SECRET, headers, notice.body + b" ")
    assert not is_genuine(SECRET, headers_of(Hook(URL, secret=SECRET), notice, now_s - 3600), notice.body)
