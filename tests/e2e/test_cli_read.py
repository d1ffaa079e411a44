"""`penstock log cat|stat|dump` on a closed, a crashed and a live directory."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.cli import lines, penstock, penstock_json, started

from penstock.log.upkeep.format_file import FORMAT_VERSION

SMALL = ("--journal-file-bytes", "256KiB", "--journal-limit-bytes", "1MiB", "--disk-reserve", "0")
NEVER_S = 60.0


@contextmanager
def _writer(directory: Path, count: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has acknowledged `count` messages and keeps the directory open."""
    with started("log", "append", directory, "--log", "a", *SMALL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines(count))
        process.stdin.flush()
        while int(process.stdout.readline()) < count - 1:
            continue
        try:
            yield process
        finally:
            process.kill()


def _wait_until_readable(directory: Path, end: int) -> None:
    """What is committed reaches the files of a live directory a moment later."""
    deadline = time.monotonic() + NEVER_S
    while f'"end_offset": {end}'.encode() not in penstock("log", "stat", directory, "-o", "json").stdout:
        assert time.monotonic() < deadline, "what was committed never became readable"


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    penstock("log", "append", tmp_path, "--log", "a", "--batch", "50", *SMALL, given=lines(1000))
    return tmp_path


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    with _writer(tmp_path, 1000) as writer:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    return tmp_path


def _log(stat: dict[str, object], name: str = "a") -> dict[str, object]:
    logs = stat["logs"]
    assert isinstance(logs, list)
    found: dict[str, object] = next(log for log in logs if log["name"] == name)
    return found


def _contents(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("state", ["closed", "crashed"])
def test_reading_shows_all_and_changes_nothing(request: pytest.FixtureRequest, state: str) -> None:
    directory: Path = request.getfixturevalue(state)
    before = _contents(directory)
    stat = penstock_json("log", "stat", directory)
    assert stat["state"] == state
    assert stat["format"] == FORMAT_VERSION
    log = _log(stat)
    assert (log["start_offset"], log["end_offset"], log["records"]) == (0, 1000, 1000)
    assert penstock("log", "cat", directory, "--log", "a").stdout == lines(1000)
    assert penstock("log", "verify", directory).stdout.endswith(b"no damage\n")
    penstock("log", "dump", directory)
    penstock("log", "dump", directory, "--journal")
    assert _contents(directory) == before


def test_a_live_directory_is_read_beside_its_writer(tmp_path: Path) -> None:
    with _writer(tmp_path, 500):
        _wait_until_readable(tmp_path, 500)
        assert penstock_json("log", "stat", tmp_path)["state"] == "live"
        assert penstock("log", "cat", tmp_path, "--log", "a").stdout == lines(500)
        assert penstock("log", "cat", tmp_path, "--log", "a", "--since", "1h", "--from", "490").stdout == lines(10, 490)
        assert b"no damage" in penstock("log", "verify", tmp_path).stdout
        assert b"offsets 0.." in penstock("log", "dump", tmp_path, "--log", "a").stdout


def test_following_prints_what_comes_later(tmp_path: Path) -> None:
    with _writer(tmp_path, 10) as writer:
        _wait_until_readable(tmp_path, 10)
        with started("log", "cat", tmp_path, "--log", "a", "-f", "-n", "15") as reader:
            assert writer.stdin is not None
            writer.stdin.write(lines(10, 10))
            writer.stdin.flush()
            printed, _ = reader.communicate(timeout=NEVER_S)
    assert printed == lines(15)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--from", "990"), lines(10, 990)),
        (("--from", "10", "--to", "13"), lines(3, 10)),
        (("--from", "55", "-n", "2"), lines(2, 55)),
        (("-n", "0"), b""),
        (("--since", "1h", "--to", "2"), lines(2)),
        (("--until", "1h"), b""),
        (("--since", "2100-01-01"), b""),
        (("--from", "5000"), b""),
    ],
)
def test_cat_prints_what_is_asked_for(closed: Path, arguments: tuple[str, ...], expected: bytes) -> None:
    assert penstock("log", "cat", closed, "--log", "a", *arguments).stdout == expected


def test_times_pick_the_same_messages_as_their_offsets(closed: Path) -> None:
    records = [
        json.loads(line) for line in penstock("log", "cat", closed, "--log", "a", "-o", "json").stdout.splitlines()
    ]
    middle = records[500]["timestamp"]
    since = penstock("log", "cat", closed, "--log", "a", "--since", str(middle)).stdout
    until = penstock("log", "cat", closed, "--log", "a", "--until", str(middle)).stdout
    assert until + since == lines(1000)
    assert since.count(b"\n") == sum(record["timestamp"] >= middle for record in records)


def test_json_has_keys_and_base64_where_text_cannot_be(tmp_path: Path) -> None:
    given = b"user:caf\xc3\xa9\nuser:\xff\xfe\nno key\n"
    penstock("log", "append", tmp_path, "--log", "a", "--key-separator", ":", *SMALL, given=given)
    printed = penstock("log", "cat", tmp_path, "--log", "a", "-o", "json").stdout
    first, second, third = (json.loads(line) for line in printed.splitlines())
    assert (first["offset"], first["key"], first["value"]) == (0, "user", "café")
    assert base64.b64decode(second["value_base64"]) == b"\xff\xfe"
    assert "key" not in third


def test_a_log_that_is_not_there_is_one_line_of_error(closed: Path) -> None:
    ran = penstock("log", "cat", closed, "--log", "missing", expected=1)
    assert b"no log 'missing'" in ran.stderr
    assert ran.stderr.count(b"\n") == 1


def test_dump_has_a_line_a_batch_with_its_place(closed: Path) -> None:
    printed = penstock("log", "dump", closed, "--log", "a", "-o", "json").stdout
    batches = [json.loads(line) for line in printed.splitlines()]
    assert [batch["base_offset"] for batch in batches] == list(range(0, 1000, 50))
    assert all(batch["crc_ok"] and batch["problem"] is None for batch in batches)
    ends = [batch["position"] + batch["bytes"] for batch in batches]
    assert [batch["position"] for batch in batches[1:]] == ends[:-1]
    some = penstock("log", "dump", closed, "--log", "a", "--from", "120", "--to", "201", "-o", "json").stdout
    assert [json.loads(line)["base_offset"] for line in some.splitlines()] == [100, 150, 200]


def test_dump_of_the_journal_shows_every_commit(closed: Path) -> None:
    printed = penstock("log", "dump", closed, "--journal", "--log", "a", "-o", "json").stdout
    entries = [entry for line in printed.splitlines() for entry in json.loads(line)["entries"]]
    assert [entry["base_offset"] for entry in entries] == list(range(0, 1000, 50))


def test_output_into_a_closed_pipe_ends_quietly(closed: Path) -> None:
    with started("log", "cat", closed, "--log", "a") as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        reader.stdout.close()
        said = reader.stderr.read()
    assert said == b""
    assert reader.returncode in (0, 141)


def test_a_directory_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    for command in ("stat", "verify", "dump", "repair"):
        ran = penstock("log", command, tmp_path, expected=1)
        assert b"not a data directory" in ran.stderr
        assert ran.stderr.count(b"\n") == 1
    assert [*tmp_path.iterdir()] == []
