"""`penstock doctor` looks without leaving anything behind."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.support.cli import COMMAND, ENVIRONMENT, penstock


def _doctor(*arguments: str | Path, pure: bool = False) -> dict[str, dict[str, object]]:
    """Its checks. The exit code depends on the machine: a nearly full disk is a problem."""
    environment = {**ENVIRONMENT, "PENSTOCK_PURE": "1" if pure else "0"}
    ran = subprocess.run(
        [*COMMAND, "doctor", *map(str, arguments), "-o", "json"], capture_output=True, timeout=60, env=environment
    )
    assert ran.returncode in (0, 1), ran.stderr
    checks: dict[str, dict[str, object]] = json.loads(ran.stdout)["checks"]
    return checks


def test_every_check_has_a_verdict_and_the_directory_stays_empty(tmp_path: Path) -> None:
    checks = _doctor(tmp_path)
    assert [*checks] == [
        *("kernels", "data directory", "file system", "sync", "free space", "open files", "clock"),
        *("event loop", "packages", "rate limits", "limits", "ports", "certificates", "server", "java"),
    ]
    assert all(check["verdict"] in ("ok", "warning", "problem") for check in checks.values())
    assert [*tmp_path.iterdir()] == []


def test_uncompiled_kernels_are_a_warning_with_what_to_do(tmp_path: Path) -> None:
    check = _doctor(tmp_path, pure=True)["kernels"]
    assert check["verdict"] == "warning"
    assert check["compiled"] is False
    assert "C compiler" in str(check["text"])


def test_a_data_directory_is_told_with_its_state(tmp_path: Path) -> None:
    penstock("log", "append", tmp_path, "--log", "a", "--disk-reserve", "0", given=b"x\n")
    checks = _doctor(tmp_path)
    assert checks["data directory"]["state"] == "closed"
    assert checks["clock"]["newest_record_ms"] != 0


def test_a_place_that_is_not_there_yet_is_looked_at_above(tmp_path: Path) -> None:
    checks = _doctor(tmp_path / "later" / "data")
    assert checks["data directory"]["state"] is None
    assert checks["sync"]["verdict"] in ("ok", "warning")


def test_the_rate_limits_that_count_are_those_of_listeners_beyond_loopback(tmp_path: Path) -> None:
    config = tmp_path / "penstock.yaml"
    config.write_text("listeners: {mqtt: {host: 0.0.0.0}}\nrate_limit: {max_messages_per_client: 50}\n")
    check = _doctor(tmp_path, "-c", config)["rate limits"]
    assert check["verdict"] == "ok"
    assert (check["limited_listeners"], check["unlimited_listeners"]) == (["mqtt"], ["mqtt_ws", "http"])
    assert check["limits"] == {
        "max_connections_per_ip": 100,
        "connection_burst_size": 20,
        "connection_window_s": 60.0,
        "max_messages_per_client": 50,
        "message_burst_size": 100,
        "max_subscriptions_per_client": 100,
        "subscribe_burst_size": 10,
    }
    assert "50 messages a second (at once 100)" in str(check["text"])
    assert "mqtt_ws, http: none, on loopback" in str(check["text"])


def test_a_limit_that_is_switched_off_beyond_loopback_is_a_warning(tmp_path: Path) -> None:
    beyond = "--set", "listeners.mqtt.host=0.0.0.0", "--set", "rate_limit.max_messages_per_client=0"
    check = _doctor(tmp_path, *beyond)["rate limits"]
    assert check["verdict"] == "warning"
    assert "any number of messages a second" in str(check["text"])


def test_the_directory_and_the_reserve_are_those_of_the_configuration(tmp_path: Path) -> None:
    data = tmp_path / "data"
    penstock("log", "append", data, "--log", "a", "--disk-reserve", "0", given=b"x\n")
    config = tmp_path / "penstock.yaml"
    config.write_text(f"data_dir: {data}\nstorage: {{disk_reserve: 5MiB}}\n")
    checks = _doctor("-c", config)
    assert checks["data directory"]["state"] == "closed"
    assert checks["free space"]["disk_reserve_bytes"] == 5 << 20


def test_a_bad_configuration_ends_with_2_and_names_the_key() -> None:
    assert (
        b"rate_limit.max_messages_per_client"
        in penstock("doctor", "--set", "rate_limit.max_message_per_client=1", expected=2).stderr
    )


def test_the_directory_may_be_named_as_for_other_commands(tmp_path: Path) -> None:
    data = tmp_path / "data"
    penstock("log", "append", data, "--log", "a", "--disk-reserve", "0", given=b"x\n")
    assert _doctor("--data", data)["data directory"] == _doctor(data)["data directory"]
    both = penstock("doctor", data, "--data", tmp_path, expected=2)
    assert b"DIR and --data both name the data directory: leave one out" in both.stderr
