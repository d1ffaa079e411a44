"""The scene plays to its end, keeps what it promised, stops at a signal, and leaves its data and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import servers
from tests.support.cli import ENVIRONMENT, example, example_started, penstock

SMALL = "--devices", "3"


@pytest.fixture
def playing(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """For long enough; its data is in `data`."""
    process = example_started("scene", "--data", tmp_path / "data", "--seconds", "100", *SMALL)
    yield process
    # Not kill(): it has a server to take with it.
    process.terminate()
    process.communicate(timeout=60)


def until(process: subprocess.Popen[bytes], text: str) -> list[str]:
    """What it says up to a line with this text."""
    said: list[str] = []
    assert process.stdout is not None
    while not said or text not in said[-1]:
        line = process.stdout.readline().decode()
        assert line, said
        said.append(line.rstrip("\n"))
    return said


def port_in(said: list[str]) -> int:
    found = re.search(r"127\.0\.0\.1:(\d+)", "\n".join(said))
    assert found is not None
    return int(found[1])


def test_it_ends_by_itself_with_one_dead_letter_and_nothing_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, temporary = tmp_path / "data", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setitem(ENVIRONMENT, "TMPDIR", str(temporary))
    for runs in (1, 2):
        said = example("scene", "--data", data, "--seconds", "3", *SMALL).stdout.decode()
        assert "1 in the dead letters, none lost" in said
        assert "1,001 orders taken and acknowledged by the group shipping, which has 0 left" in said
        assert "stored once" in said
        assert said.count("cannot handle") == 4
        assert said.count("dead letter in $dlq/readings") == 1
        assert "max-retries: celsius is not a number" in said
        listed = penstock("dlq", "list", "readings", "--data", data).stdout.decode()
        assert listed.count("max-retries") == runs
    assert list(temporary.iterdir()) == []


def test_ctrl_c_stops_everything_and_ends_with_0(playing: subprocess.Popen[bytes], tmp_path: Path) -> None:
    said = until(playing, "workers 3")
    playing.send_signal(signal.SIGINT)
    rest = until(playing, "serve --dev")
    assert playing.wait(60) == 0
    assert any("none lost" in line for line in rest)
    assert any(str(tmp_path / "data") in line for line in rest)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((servers.HOST, port_in(said)), timeout=5)


def test_the_lines_it_invites_to_type_work(playing: subprocess.Popen[bytes]) -> None:
    said = until(playing, "workers 3")
    lines = [line for line in said if line.startswith("     ")]
    assert len(lines) == 7
    for line in lines:
        if line.split()[0].startswith("mosquitto") and shutil.which(line.split()[0]) is None:
            continue
        ran = subprocess.run(["bash", "-c", line], capture_output=True, timeout=60, env=ENVIRONMENT)
        assert ran.returncode == 0, (line, ran.stderr)
        assert ran.stdout or "mosquitto_pub" in line, line
    if shutil.which("mosquitto_pub") is not None:
        until(playing, "dead letter in $dlq/readings: rubbish")


def test_a_port_that_is_taken_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((servers.HOST, 1883))
            taken.listen()
        except OSError:
            pass  # somebody else has it, which is as good
        ran = example("scene", "--data", tmp_path / "data", "--seconds", "0", *SMALL)
    assert port_in(ran.stdout.decode().splitlines()) != 1883


def test_a_directory_in_use_is_told_with_who_has_it(tmp_path: Path) -> None:
    with servers.penstock(tmp_path) as server:
        refused = example("scene", "--data", tmp_path / "data", "--seconds", "1", expected=1)
    assert "did not start" in refused.stderr.decode()
    assert str(server.pid) in refused.stderr.decode()


def test_a_server_that_dies_ends_the_scene_with_what_it_said(playing: subprocess.Popen[bytes]) -> None:
    children = Path(f"/proc/{playing.pid}/task/{playing.pid}/children")
    if not children.exists():
        pytest.skip("this system does not tell the children of a process")
    until(playing, "workers 3")
    [server] = map(int, children.read_text().split())
    os.kill(server, signal.SIGKILL)
    _, errors = playing.communicate(timeout=60)
    assert playing.returncode == 1
    assert "the server ended by itself (exit code -9)" in errors.decode()
