from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidArgument
from penstock.core.logs import JsonFormatter, TextFormatter, configure_logs


def _line(message: str, *args: object) -> dict[str, object]:
    record = logging.LogRecord("penstock.log", logging.WARNING, __file__, 1, message, args, None)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    line: dict[str, object] = json.loads(text)
    return line


@pytest.fixture
def penstock_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("penstock")
    before = logger.handlers[:], logger.level, logger.propagate
    yield logger
    logger.handlers[:], logger.level, logger.propagate = before


def test_an_event_with_fields_becomes_an_object() -> None:
    line = _line("segment sealed log=%s base=%d", "orders/0", 128)
    assert datetime.fromisoformat(str(line.pop("time"))).utcoffset() is not None
    assert line == {
        "level": "warning",
        "logger": "penstock.log",
        "event": "segment sealed",
        "log": "orders/0",
        "base": 128,
    }


@pytest.mark.parametrize(
    ("message", "args", "event", "fields"),
    [
        (
            "signal=%s: draining, once more ends at once",
            ("SIGTERM",),
            "draining, once more ends at once",
            {"signal": "SIGTERM"},
        ),
        ("took ms=%.1f of=%d%%", (1.25, 3), "took %", {"ms": 1.2, "of": 3}),
        ("read rows=%d from=%s at_once=%s", (7, None, True), "read", {"rows": 7, "from": None, "at_once": True}),
        ("%d of %d partitions moved queue=%s", (2, 3, "orders"), "2 of 3 partitions moved", {"queue": "orders"}),
        ("second signal=%s: ends at once", ("SIGINT",), "second : ends at once", {"signal": "SIGINT"}),
        ("lag ended seconds=%s", (float("inf"),), "lag ended", {"seconds": "inf"}),
    ],
)
def test_fields_keep_their_types_and_an_event_its_name(
    message: str, args: tuple[object, ...], event: str, fields: dict[str, object]
) -> None:
    line = _line(message, *args)
    assert line["event"] == event
    assert {name: line[name] for name in fields} == fields


def test_an_event_without_fields_is_all_of_the_text() -> None:
    assert _line("journal recycled")["event"] == "journal recycled"


def test_a_value_with_spaces_is_kept_whole() -> None:
    line = _line("journal failed reason=%s errno=%d", "No space left on device", 28)
    assert (line["reason"], line["errno"]) == ("No space left on device", 28)


def test_an_empty_value_is_kept() -> None:
    line = _line("log opened key=%s base=%d", "", 0)
    assert (line["key"], line["base"]) == ("", 0)


def test_an_equals_sign_inside_a_value_starts_no_field() -> None:
    assert _line("refused topic=%s", "a?b=c")["topic"] == "a?b=c"


@pytest.mark.parametrize("key", ["time", "level", "logger", "event", "exception"])
def test_a_field_never_replaces_a_key_of_ours(key: str) -> None:
    line = _line(f"checked {key}=mine")
    assert line[f"{key}_"] == "mine"
    assert line.get(key) != "mine"


@given(st.text())
def test_any_text_stays_one_line(text: str) -> None:
    _line("read reason=%s", text)


def test_an_exception_is_part_of_its_line() -> None:
    try:
        raise OSError(5, "Input/output error")
    except OSError:
        record = logging.LogRecord("penstock", logging.ERROR, __file__, 1, "sync failed", (), sys.exc_info())
    line = json.loads(JsonFormatter().format(record))
    assert line["event"] == "sync failed"
    assert "Input/output error" in line["exception"]


def test_configuring_again_changes_level_and_format(
    penstock_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logs("warning", "text")
    logging.getLogger("penstock.log").info("unheard")
    configure_logs("info", "json")
    logging.getLogger("penstock.log").info("heard base=%d", 1)
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["heard"]


def test_text_lines_name_level_and_logger(penstock_logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("INFO", "text")
    logging.getLogger("penstock.log").info("heard base=%d", 1)
    assert capsys.readouterr().err.endswith("INFO    penstock.log heard base=1\n")


def test_an_unknown_level_is_refused_and_changes_nothing(penstock_logger: logging.Logger) -> None:
    configure_logs("info", "text")
    handlers = penstock_logger.handlers[:]
    with pytest.raises(InvalidArgument, match="'loud' is not a log level: write debug"):
        configure_logs("loud", "text")
    assert penstock_logger.handlers == handlers


@pytest.mark.parametrize("name", ["a\nb", "a\r\nb", "a\x1b[2Jb", "a\x85b", "a\u2028b", "a\x00b"])
def test_no_name_that_a_client_gives_itself_makes_a_line_of_its_own(name: str) -> None:
    record = logging.LogRecord("penstock.mqtt", logging.WARNING, __file__, 1, "client=%s", (name,), None)
    text = TextFormatter().format(record)
    assert len(text.splitlines()) == 1
    assert text.isprintable()


def test_text_of_any_language_is_written_as_it_is() -> None:
    record = logging.LogRecord("penstock.mqtt", logging.WARNING, __file__, 1, "client=%s", ("größe/日本 \\ 🌡",), None)
    assert TextFormatter().format(record).endswith("client=größe/日本 \\ 🌡")


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("x")
    except ValueError:
        facts = sys.exc_info()
    record = logging.LogRecord("penstock.mqtt", logging.ERROR, __file__, 1, "failed", (), facts)
    assert TextFormatter().format(record).splitlines()[1].startswith("Traceback")


def test_a_file_that_was_moved_away_is_opened_anew(tmp_path: Path, penstock_logger: logging.Logger) -> None:
    file, moved = tmp_path / "penstock.log", tmp_path / "penstock.log.1"
    configure_logs("info", "json", str(file))
    penstock_logger.info("first number=%d", 1)
    file.rename(moved)
    penstock_logger.info("second number=%d", 2)
    assert [json.loads(path.read_text())["number"] for path in (moved, file)] == [1, 2]
    penstock_logger.handlers[0].close()
