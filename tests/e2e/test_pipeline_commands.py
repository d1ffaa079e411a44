"""`penstock pipeline` as a user runs it: output, exit codes, what stays on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.cli import penstock, penstock_json
from tests.support.live_tables import LiveTables

from penstock.log.columns import Columns


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    root.mkdir()
    live = LiveTables(root)
    log = live.create("orders")
    for number in range(8):
        live.append(log, Columns.of([b"%d" % number * 30] * 2, keys=[b"a", b"k%d" % number]))
    live.close()
    return root


def test_an_audit_says_what_it_looked_at_and_ends_with_its_verdict(directory: Path) -> None:
    said = penstock("pipeline", "audit", "--data", directory).stdout
    assert said.endswith(b"verdict: ok\n")
    assert b"16 records" in said
    assert penstock_json("pipeline", "audit", "--data", directory)["verdict"] == "ok"


def test_an_audit_of_a_damaged_directory_names_the_place_and_what_to_do(directory: Path) -> None:
    [first, *_] = sorted((directory / "logs").glob("default/orders/0@1/*.seg"))
    data = first.read_bytes()
    first.write_bytes(data[:90] + bytes([data[90] ^ 1]) + data[91:])
    said = penstock("pipeline", "audit", "--data", directory, expected=1).stdout.decode()
    assert "damaged-batch" in said
    assert "verdict: damaged" in said
    assert "penstock log repair" in said
    report = json.loads(penstock("pipeline", "audit", "--data", directory, "-o", "json", expected=1).stdout)
    [finding] = report["findings"]
    assert (finding["log"], finding["offset"]) == ("default/orders/0", 0)
    assert directory / finding["file"] == first
    first.unlink()
    assert b"missing-file" in penstock("pipeline", "audit", "--data", directory, expected=1).stdout


def test_an_archive_grows_and_a_dry_run_does_not(directory: Path, tmp_path: Path) -> None:
    arguments = ("pipeline", "archive", "ord*", "--data", directory, "--to", tmp_path / "archive")
    assert b"nothing was changed" in penstock(*arguments, "--dry-run").stdout
    assert not (tmp_path / "archive").exists()
    assert penstock_json(*arguments)["rows"] == 16
    assert penstock_json(*arguments, "--processes", "1")["rows"] == 0
    assert json.loads((tmp_path / "archive" / "_manifest.json").read_bytes())["files"][0]["rows"] == 16


def test_a_snapshot_is_a_table_of_the_last_values(directory: Path, tmp_path: Path) -> None:
    arguments = ("pipeline", "snapshot", "orders", "--data", directory, "--to", tmp_path / "table")
    assert b"nothing was changed" in penstock(*arguments, "--dry-run").stdout
    assert b"9 keys of queue orders" in penstock(*arguments).stdout
    assert penstock_json(*arguments)["rows"] == 9


def test_wrong_usage_and_what_is_not_there_have_their_exit_codes(directory: Path, tmp_path: Path) -> None:
    penstock("pipeline", "audit", expected=2)
    penstock("pipeline", "audit", "--data", directory, "--master", "local", "--processes", "2", expected=2)
    penstock("pipeline", "archive", "nobody", "--data", directory, "--to", tmp_path / "a", expected=3)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert b"not a Penstock data directory" in penstock("pipeline", "audit", "--data", empty, expected=1).stderr
    for command in ("audit", "archive", "snapshot"):
        assert b"Examples:" in penstock("pipeline", command, "--help").stdout
