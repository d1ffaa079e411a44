"""`penstock log append`: what it prints is safe, and it ends as it should."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from tests.support.cli import lines, offsets, penstock, started

SMALL = ("--journal-file-bytes", "256KiB", "--journal-limit-bytes", "1MiB", "--disk-reserve", "0")


def _first_offset(writer: subprocess.Popen[bytes]) -> int:
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(b"first\n")
    writer.stdin.flush()
    return int(writer.stdout.readline())


def test_each_commit_prints_its_last_offset(tmp_path: Path) -> None:
    ran = penstock("log", "append", tmp_path / "data", "--log", "a", "--batch", "3", *SMALL, given=lines(10))
    printed = offsets(ran.stdout)
    assert printed == sorted(set(printed))
    assert printed[-1] == 9
    assert len(printed) >= 4


def test_offsets_go_on_where_the_last_run_ended(tmp_path: Path) -> None:
    penstock("log", "append", tmp_path, "--log", "a", *SMALL, given=lines(5))
    ran = penstock("log", "append", tmp_path, "--log", "a", *SMALL, given=lines(5))
    assert offsets(ran.stdout)[-1] == 9


def test_a_last_line_without_newline_and_empty_lines_are_messages(tmp_path: Path) -> None:
    ran = penstock("log", "append", tmp_path, "--log", "a", *SMALL, given=b"a\n\nb")
    assert offsets(ran.stdout)[-1] == 2


def test_nothing_given_is_nothing_appended(tmp_path: Path) -> None:
    assert penstock("log", "append", tmp_path, "--log", "a", *SMALL).stdout == b""


def test_commits_under_way_at_once_keep_their_order(tmp_path: Path) -> None:
    arguments = ("--log", "a", "--depth", "16", "--batch", "10", *SMALL)
    printed = offsets(penstock("log", "append", tmp_path, *arguments, given=lines(5000)).stdout)
    assert printed == sorted(printed)
    assert printed[-1] == 4999


@pytest.mark.parametrize("depth", ["1", "8"])
def test_what_is_ready_is_committed_and_told_without_waiting_for_more(tmp_path: Path, depth: str) -> None:
    with started("log", "append", tmp_path, "--log", "a", "--depth", depth, *SMALL) as writer:
        assert _first_offset(writer) == 0
        assert _first_offset(writer) == 1
        writer.communicate()
    assert writer.returncode == 0


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_closes_the_directory_cleanly(tmp_path: Path, number: int, expected: int) -> None:
    with started("log", "append", tmp_path, "--log", "a", *SMALL) as writer:
        _first_offset(writer)
        writer.send_signal(number)
        assert writer.wait(timeout=30) == expected
        assert writer.stderr is not None
        assert writer.stderr.read() == b""
    assert b'"clean":true' in (tmp_path / "checkpoint").read_bytes()


def test_a_directory_in_use_is_refused_in_one_line(tmp_path: Path) -> None:
    with started("log", "append", tmp_path, "--log", "a", *SMALL) as writer:
        _first_offset(writer)
        refused = penstock("log", "append", tmp_path, "--log", "a", given=b"x\n", expected=1)
        writer.communicate()
    assert refused.stderr.count(b"\n") == 1
    assert b"is held by process %d" % writer.pid in refused.stderr


def test_publishes_are_refused_below_the_reserve_while_settlements_go_on(tmp_path: Path) -> None:
    arguments = ("log", "append", tmp_path, "--log", "a", *SMALL[:4], "--disk-reserve", "900TB")
    refused = penstock(*arguments, given=b"x\n", expected=1)
    assert b"disk_reserve" in refused.stderr
    assert offsets(penstock(*arguments, "--purpose", "settle", given=b"x\n").stdout) == [0]


def test_a_message_too_large_for_a_frame_fails_and_keeps_what_was_before(tmp_path: Path) -> None:
    given = b"small\n" + b"x" * 400_000 + b"\n"
    ran = penstock("log", "append", tmp_path, "--log", "a", "--batch", "1", *SMALL, given=given, expected=1)
    assert offsets(ran.stdout) == [0]
    assert b"the limit is" in ran.stderr
    assert offsets(penstock("log", "append", tmp_path, "--log", "a", *SMALL, given=b"y\n").stdout) == [1]


def test_settings_of_an_existing_log_are_changed(tmp_path: Path) -> None:
    penstock("log", "append", tmp_path, "--log", "a", *SMALL, given=b"x\n")
    ran = penstock("log", "append", tmp_path, "--log", "a", "--durability", "memory", *SMALL, given=b"y\n")
    assert b"were changed" in ran.stderr
    again = penstock("log", "append", tmp_path, "--log", "a", "--durability", "memory", *SMALL, given=b"z\n")
    assert again.stderr == b""
    assert offsets(again.stdout) == [2]
