"""A server that runs out of descriptors stays alive, acknowledges again by itself, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.exhaustion import SMALL, exhausted, found_after_restart, idle_connections, text
from tests.support.http_client import HttpClient
from tests.support.live_server import live_server

pytestmark = pytest.mark.faults


def test_idle_connections_do_not_take_what_storage_needs(tmp_path: Path) -> None:
    with live_server(tmp_path / "server", SMALL, open_files=160) as server:
        http = HttpClient(("127.0.0.1", server.ports["http"]))
        assert http.get("/ready").status == 200
        with idle_connections(server, 300):
            for number in range(40):  # each has segments of its own
                assert http.post(f"queues/q{number}/messages", {"text": text(number)}).status == 200
            other = HttpClient(("127.0.0.1", server.ports["http"]))
            assert other.get("/ready").status == 200, "probes get in"
            other.close()
            page = http.get("/metrics").body.decode()
            [line] = [line for line in page.splitlines() if 'reason="connection-limit"' in line]
            assert float(line.split()[-1]) > 100
        assert server.said().count("as many as max_connections allows listener=mqtt") == 1
        assert http.get("/health").status == 200
        http.close()
    assert found_after_restart(tmp_path / "server") == list(range(40))


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_server_without_descriptors_waits_and_nothing_that_it_acknowledged_is_lost(
    tmp_path: Path, is_killed: bool
) -> None:
    said = exhausted(tmp_path / "server", 2.0, is_killed=is_killed)
    assert "Too many open files" in said
    assert "journal failed" not in said
    assert "thread ended" not in said
    assert said.count("tried again") < 20, "told once a minute"
