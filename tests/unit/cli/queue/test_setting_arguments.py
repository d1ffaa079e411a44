from __future__ import annotations

from pathlib import Path

import click
import pytest

from penstock.cli.output import age_text
from penstock.cli.queue.setting_arguments import written_settings
from penstock.core.errors import InvalidArgument


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("limits.max_queue_depth=10", {"limits": {"max_queue_depth": 10}}),
        ("retry_policy.initial_backoff=5s", {"retry_policy": {"initial_backoff": "5s"}}),
        ('topics=["sales/#"]', {"topics": ["sales/#"]}),
        ("dlq_config.enabled=false", {"dlq_config": {"enabled": False}}),
        ("compaction.key=a=b", {"compaction": {"key": "a=b"}}),
        ("overflow=", {"overflow": ""}),
    ],
)
def test_a_value_is_json_where_it_is_some_else_text(written: str, value: object) -> None:
    assert written_settings(None, [written]) == value


def test_options_go_over_the_file_section_by_section(tmp_path: Path) -> None:
    file = tmp_path / "q.json"
    file.write_text('{"name": "q", "limits": {"max_queue_depth": 5, "message_ttl": "1h"}}')
    assert written_settings(file, ["limits.max_queue_depth=10"]) == {
        "name": "q",
        "limits": {"max_queue_depth": 10, "message_ttl": "1h"},
    }


@pytest.mark.parametrize("wrong", ["partitions", "=3", "limits.=3", ".a=3"])
def test_what_is_not_key_and_value_is_wrong_usage(wrong: str) -> None:
    with pytest.raises(click.BadParameter):
        written_settings(None, [wrong])


def test_a_value_has_nothing_below_it() -> None:
    with pytest.raises(click.BadParameter):
        written_settings(None, ["partitions=3", "partitions.more=4"])


@pytest.mark.parametrize("content", ["[]", "{", "\xff"])
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "q.json"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidArgument):
        written_settings(file, [])


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0s"), (12.34, "12.3s"), (245, "4m 5s"), (12_000, "3h 20m"), (190_800, "2d 5h")]
)
def test_ages_are_shown_in_the_units_that_matter(seconds: float, text: str) -> None:
    assert age_text(seconds) == text
