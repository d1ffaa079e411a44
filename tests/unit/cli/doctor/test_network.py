"""What the doctor says of ports, certificates and the server that commands ask."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from penstock.cli.doctor.finding import Verdict
from penstock.cli.doctor.network import certificates, ports, server
from penstock.server.config import Config, load
from penstock.server.context import Context, Contexts, context_file, write_contexts
from penstock.server.ready import SERVER_FILE, ReadyFile

FREE = ("listeners.mqtt.port=0", "listeners.mqtt_ws.port=0", "listeners.http.port=0")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock.getsockname()[1]


def with_certificate(place: Path, days: float) -> Config:
    authority = trustme.CA()
    made = authority.issue_cert("localhost", not_after=datetime.now(UTC) + timedelta(days=days))
    made.cert_chain_pems[0].write_to_path(str(place / "cert.pem"))
    made.private_key_pem.write_to_path(str(place / "key.pem"))
    tls = f'listeners.mqtts={{"port": 0, "tls": {{"certificate": "{place}/cert.pem", "key": "{place}/key.pem"}}}}'
    return load(None, {}, [tls])


def test_free_ports_are_fine_and_taken_ones_are_named(tmp_path: Path, taken: int) -> None:
    assert ports(load(None, {}, FREE), tmp_path).verdict is Verdict.OK
    found = ports(load(None, {}, [*FREE, f"listeners.http.port={taken}"]), tmp_path)
    assert found.verdict is Verdict.PROBLEM
    assert f"http (127.0.0.1:{taken})" in found.text
    assert "ss -ltnp" in found.text


def test_the_ports_of_the_server_on_this_directory_are_as_they_should_be(tmp_path: Path, taken: int) -> None:
    ReadyFile(tmp_path / SERVER_FILE).write({"http": ("127.0.0.1", taken)})
    assert ports(load(None, {}, [*FREE, f"listeners.http.port={taken}"]), tmp_path).verdict is Verdict.OK


@pytest.mark.parametrize(("days", "verdict"), [(100, Verdict.OK), (10, Verdict.WARNING), (-1, Verdict.PROBLEM)])
def test_a_certificate_that_ends_soon_is_told_in_time(tmp_path: Path, days: float, verdict: Verdict) -> None:
    found = certificates(with_certificate(tmp_path, days))
    assert found.verdict is verdict
    assert ("renew" in found.text) == (verdict is not Verdict.OK)


def test_a_certificate_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    config = with_certificate(tmp_path, 10)
    (tmp_path / "cert.pem").write_text("rubbish")
    assert certificates(config).verdict is Verdict.PROBLEM
    assert certificates(load(None, {}, [])).verdict is Verdict.OK


def test_a_server_that_somebody_chose_should_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PENSTOCK_URL", "PENSTOCK_SERVER", "PENSTOCK_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = context_file({"XDG_CONFIG_HOME": str(tmp_path)})
    write_contexts(file, Contexts(current_context="it", contexts={"it": Context(url="http://127.0.0.1:9")}))
    found = server()
    assert found.verdict is Verdict.WARNING
    assert "http://127.0.0.1:9" in found.text
