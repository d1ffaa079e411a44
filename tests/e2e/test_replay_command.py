"""`penstock pipeline replay` on a directory: once, changed, again after it was killed anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.support.cli import ENVIRONMENT
from tests.support.cli import penstock as run_command

import penstock
from penstock.cli.main import run
from penstock.jobs import replay_plan
from penstock.tables.table import QueueTable

_KILLED = 9
# Ends the process as kill -9 would, in the middle of a replay: before the commit of an epoch, or before it is noted.
_DYING = """
import os, sys
from penstock.cli.pipeline import replay_sinks
from penstock.jobs import replay_plan
from penstock.cli.main import run

replay_plan.PIECE_ROWS = 100
plan = replay_plan.plan_pieces
replay_plan.plan_pieces = lambda table, span: plan(table, span, 100)
where, epoch = sys.argv[1], int(sys.argv[2])
commit, record = replay_sinks.DirectorySink.commit, replay_plan.ReplayFile.record

def dying_commit(self, query, number, prepared):
    return os._exit(9) if (where, epoch) == ("commit", number) else commit(self, query, number, prepared)

def dying_record(self, number, rows):
    return os._exit(9) if (where, epoch) == ("record", number) else record(self, number, rows)

replay_sinks.DirectorySink.commit, replay_plan.ReplayFile.record = dying_commit, dying_record
sys.exit(run(sys.argv[3:]))
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """500 orders in two partitions, the first as a dead letter; the checkpoint is beside them."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data"
    with penstock.open(path) as database:
        database.declare("orders", partitions=2)
        values = [b'{"id": %d}' % number for number in range(500)]
        keys = [b"k%d" % (number % 7) for number in range(500)]
        database.put_many("orders", values, keys, headers={"source": "web"})
        with database.consume("orders", group="billing") as messages:
            message = messages.get(timeout=10)
            assert message is not None
            message.dead_letter("no")
    return path


def replay(directory: Path, *arguments: str) -> int:
    return run(["pipeline", "replay", "--data", str(directory), *arguments])


def rows(directory: Path, queue: str) -> list[dict[str, object]]:
    table = QueueTable.open(directory, queue)
    found: list[dict[str, object]] = []
    for partition in table.partitions():
        for batch in table.read(partition.number, columns=["key", "value", "headers", "offset"]):
            found += batch.to_pylist()
    table.close()
    return found


def values(directory: Path, queue: str) -> Counter[object]:
    return Counter(row["value"] for row in rows(directory, queue))


def test_messages_come_again_with_key_headers_and_their_place(directory: Path) -> None:
    assert replay(directory, "--from", "orders", "--to", "again") == 0
    assert values(directory, "again") == values(directory, "orders")
    [row] = [row for row in rows(directory, "again") if row["value"] == b'{"id": 499}']
    assert row["key"] == b"k2"
    headers = row["headers"]
    assert isinstance(headers, list)
    assert headers[0] == {"key": "source", "value": b"web"}
    assert headers[1]["key"] == "replayed-from" and headers[1]["value"].startswith(b"orders:")
    assert os.listdir(directory.parent) == ["data"]  # noqa: PTH208  # the checkpoint is gone


def test_messages_of_a_key_stay_in_order(directory: Path) -> None:
    assert replay(directory, "--from", "orders", "--to", "again") == 0
    numbers = [int(str(row["value"])[8:-2]) for row in rows(directory, "again") if row["key"] == b"k3"]
    assert numbers == list(range(3, 500, 7))


def test_a_time_chooses_messages(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert replay(directory, "--from", "orders", "--to", "again", "--since", "2100-01-01", "-o", "json") == 0
    assert capfd.readouterr().out == '{\n  "pieces": 0,\n  "rows": 0\n}\n'


def test_dead_letters_come_again_as_they_were(directory: Path) -> None:
    assert replay(directory, "--from", "$dlq/orders", "--to", "again") == 0
    [row] = rows(directory, "again")
    headers = row["headers"]
    assert isinstance(headers, list)
    assert [pair["key"] for pair in headers] == ["source", "replayed-from"]
    assert headers[1]["value"].startswith(b"$dlq/orders:")


def test_a_query_chooses_and_changes(directory: Path) -> None:
    query = """select key, 'n' || (value::json->>'id') as value, "offset" from orders
               where (value::json->>'id')::int % 100 = 0"""
    assert replay(directory, "--from", "orders", "--to", "again", "--sql", query) == 0
    assert values(directory, "again") == Counter([b"n0", b"n100", b"n200", b"n300", b"n400"])


def test_bytes_that_are_no_text_are_not_changed_by_a_query(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with penstock.open(directory) as database:
        database.put("raw", b"\xff\x00")
    arguments = ["--from", "raw", "--to", "again", "--sql", "select value from raw"]
    assert replay(directory, *arguments) == 1
    assert "use --bytes" in capfd.readouterr().err
    assert replay(directory, *arguments, "--bytes", "--checkpoint", "other.replay") == 0
    assert values(directory, "again") == Counter([b"\xff\x00"])


def test_a_function_of_python_is_found_in_the_working_directory(directory: Path) -> None:
    Path("shout.py").write_text(
        "import pyarrow.compute as pc\n"
        "def batch(rows):\n"
        "    upper = pc.utf8_upper(rows['value'].cast('string'))\n"
        "    return [rows.set_column(1, 'value', upper), None]\n"
    )
    run_command("pipeline", "replay", "--data", directory, "--from", "orders", "--to", "a", "--python", "shout:batch")
    assert b'{"ID": 7}' in values(directory, "a")
    assert values(directory, "a").total() == 500


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "write it like"),
        ("no_such_module:f", "cannot be found"),
        ("json:no", "cannot"),
        ("os:sep", "is not a f"),
    ],
)
def test_a_function_that_is_none_is_said(
    directory: Path, capfd: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    assert replay(directory, "--from", "orders", "--to", "again", "--python", name) == 1
    assert said in capfd.readouterr().err


def test_a_dry_run_counts_and_writes_nothing(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    query = "select value from orders limit 3"
    assert replay(directory, "--from", "orders", "--to", "again", "--sql", query, "--dry-run", "-o", "json") == 0
    assert '"rows": 6' in capfd.readouterr().out
    assert os.listdir(directory.parent) == ["data"]  # noqa: PTH208
    with penstock.open(directory) as database:
        assert "again" not in database.queues()


def test_a_directory_that_a_process_has_is_not_written_to(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with penstock.open(directory):
        assert replay(directory, "--from", "orders", "--to", "again") == 1
    assert "with --url" in capfd.readouterr().err


@pytest.mark.faults
@pytest.mark.parametrize("where", ["commit", "record"])
@pytest.mark.parametrize("epoch", [0, 3])
def test_killed_anywhere_and_run_again_each_message_is_there_once(directory: Path, where: str, epoch: int) -> None:
    arguments = ["pipeline", "replay", "--data", str(directory), "--from", "orders", "--to", "again"]
    command = [sys.executable, "-c", _DYING, where, str(epoch), *arguments]
    assert subprocess.run(command, env=ENVIRONMENT, timeout=60, capture_output=True).returncode == _KILLED
    with penstock.open(directory) as database:
        database.put("orders", b"came later")
    ran = run_command(*arguments)
    assert (b"continuing" in ran.stderr) == (epoch > 0)
    expected = values(directory, "orders")
    del expected[b"came later"]
    assert values(directory, "again") == expected


@pytest.mark.faults
def test_a_queue_that_was_created_anew_meanwhile_is_not_mistaken_for_the_old_one(directory: Path) -> None:
    arguments = ["pipeline", "replay", "--data", str(directory), "--from", "orders", "--to", "again"]
    command = [sys.executable, "-c", _DYING, "commit", "2", *arguments]
    assert subprocess.run(command, env=ENVIRONMENT, timeout=60, capture_output=True).returncode == _KILLED
    with penstock.open(directory) as database:
        database.delete("orders")
        database.declare("orders", partitions=2)
        database.put_many("orders", [b"another"] * 500, [b"k%d" % (number % 7) for number in range(500)])
    assert b"created again" in run_command(*arguments, expected=1).stderr
    assert b"another" not in values(directory, "again")


def test_the_size_of_pieces_does_not_matter(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replay_plan.plan_pieces
    monkeypatch.setattr(replay_plan, "plan_pieces", lambda table, span: plan(table, span, 7))
    assert replay(directory, "--from", "orders", "--to", "again") == 0
    assert values(directory, "again") == values(directory, "orders")


@pytest.fixture
def in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replay_plan.plan_pieces
    monkeypatch.setattr(replay_plan, "plan_pieces", lambda table, span: plan(table, span, 60))


@pytest.mark.usefixtures("in_small_pieces")
def test_processes_make_the_rows_and_messages_of_a_key_stay_in_order(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("doubling.py").write_text("def batch(rows):\n    return [rows, rows]\n")
    arguments = ["--from", "orders", "--to", "again", "--python", "doubling:batch", "--processes", "2", "-o", "json"]
    assert replay(directory, *arguments, "--dry-run") == 0
    assert '"rows": 1000' in capfd.readouterr().out
    assert replay(directory, *arguments) == 0
    assert '"pieces": 9,\n  "rows": 1000' in capfd.readouterr().out
    assert set(values(directory, "again").values()) == {2}
    numbers = [int(str(row["value"])[8:-2]) for row in rows(directory, "again") if row["key"] == b"k3"]
    pieces = [number for at, number in enumerate(numbers) if number not in numbers[:at]]
    assert pieces == list(range(3, 500, 7))
    assert not list(directory.parent.glob("again.replay*"))


@pytest.mark.usefixtures("in_small_pieces")
def test_a_query_runs_in_processes(directory: Path) -> None:
    query = "select key, value from orders where (value::json->>'id')::int % 100 = 0"
    assert replay(directory, "--from", "orders", "--to", "few", "--sql", query, "--processes", "2") == 0
    assert values(directory, "few") == Counter(b'{"id": %d}' % number for number in range(0, 500, 100))


@pytest.mark.usefixtures("in_small_pieces")
def test_what_is_wrong_in_a_process_is_said_and_nothing_is_left_behind(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--from", "orders", "--to", "again", "--sql", "select 1 as number from orders", "--processes", "2"]
    assert replay(directory, *arguments) == 1
    assert "has a column 'number'" in capfd.readouterr().err
    assert not Path("again.replay.pieces").exists()


@pytest.mark.faults
@pytest.mark.parametrize(("first", "then"), [(["--processes", "2"], []), ([], ["--processes", "2"])])
@pytest.mark.parametrize("where", ["commit", "record"])
def test_killed_with_processes_or_without_it_goes_on_with_or_without_them(
    directory: Path, where: str, first: list[str], then: list[str]
) -> None:
    arguments = ["pipeline", "replay", "--data", str(directory), "--from", "orders", "--to", "again"]
    command = [sys.executable, "-c", _DYING, where, "3", *arguments, *first]
    assert subprocess.run(command, env=ENVIRONMENT, timeout=60, capture_output=True).returncode == _KILLED
    assert b"continuing: 3 of 6" in run_command(*arguments, *then).stderr
    assert values(directory, "again") == values(directory, "orders")
    assert not list(directory.parent.glob("again.replay*"))
