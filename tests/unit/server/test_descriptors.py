"""How the descriptors of the process are shared out, and what becomes of connections beyond the limit."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.support.http_server import running_server

from penstock.server.descriptors import shared_out


@pytest.mark.parametrize("limit", [64, 128, 256, 1024, 4096, 65_536, 1 << 20])
def test_storage_comes_first_and_connections_get_the_rest(limit: int) -> None:
    shares = shared_out(limit, 512, None)
    assert shares.segment_files + shares.connections < limit
    assert shares.reserve >= shares.segment_files + 16
    assert shares.connections >= 8
    assert shares.kept < shares.connections
    if limit >= 4096:
        assert shares.segment_files == 512
        assert shares.connections > 0.8 * limit


def test_a_limit_that_was_set_counts_as_far_as_there_is_room() -> None:
    assert shared_out(4096, 512, 100).connections == 100
    assert shared_out(1024, 512, 100_000).connections == shared_out(1024, 512, None).connections


def test_descriptors_for_storage_are_left_whoever_has_taken_the_others() -> None:
    shares = shared_out(1024, 512, None)
    assert shares.has_room(30, 0, is_http=False)
    assert not shares.has_room(1000, 0, is_http=True)
    assert not shares.has_room(30, shares.connections - shares.kept, is_http=False)
    assert shares.has_room(30, shares.connections - shares.kept, is_http=True)
    assert not shares.has_room(30, shares.connections, is_http=True)


def test_connections_beyond_the_limit_are_refused_and_counted_and_probes_get_in(tmp_path: Path) -> None:
    with running_server(tmp_path, max_connections=20) as server:
        host, port = server.server.addresses["mqtt"]
        idle = [socket.create_connection((host, port)) for _ in range(30)]
        try:
            http = server.http()
            answer = http.get("/metrics").body.decode()
            [line] = [line for line in answer.splitlines() if 'reason="connection-limit"' in line]
            assert float(line.split()[-1]) >= 30 - 20
            assert http.get("/ready").status == 200
        finally:
            for sock in idle:
                sock.close()
