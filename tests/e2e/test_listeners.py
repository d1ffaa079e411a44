"""Every way in that a configuration file can open, through one server as users run it."""

from __future__ import annotations

import json
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from tests.support.cli import COMMAND, ENVIRONMENT
from tests.support.mqtt_client import ConnectionEnded, MqttClient
from tests.support.mqtt_gateway import V3, V5
from tests.support.websocket_client import WebSocketRefused, upgrade

from penstock.codecs.mqtt.packets import ConnAck
from penstock.codecs.mqtt.reasons import ReasonCode

CONFIGURATION = """
listeners:
  mqtt: {port: 0, proxy_protocol: true}
  mqtts:
    port: 0
    tls: {certificate: server.pem, key: server.pem, client_ca: ca.pem}
  http: null
  mqtt_ws:
    port: 0
    proxy_protocol: true
    tls: {certificate: server.pem, key: server.pem}
  mqtt_wss:
    port: 0
    path: /here
    allowed_origins: ["https://*.example.com"]
    tls:
      certificate: server.pem
      key: server.pem
      sni: [{hostnames: [iot.example.com], certificate: iot.pem, key: iot.pem}]
auth:
  allow_anonymous: true
  acl:
    - {effect: allow, action: all, pattern: open/#}
    - {effect: allow, action: all, pattern: "devices/%u/#"}
    - {effect: deny, action: all, pattern: devices/anonymous/#}
storage: {journal_file_size: 4MiB, journal_size: 16MiB, disk_reserve: 0}
"""
REQUIRED = """
listeners:
  mqtt: null
  mqtt_ws: null
  http: null
  mqtts:
    port: 0
    tls: {certificate: server.pem, key: server.pem, client_ca: ca.pem, require_client_certificate: true}
auth: {allow_anonymous: true, acl: [{effect: allow, action: all, pattern: "devices/%u/#"}]}
storage: {journal_file_size: 4MiB, journal_size: 16MiB, disk_reserve: 0}
"""
PROXY_1 = b"PROXY TCP4 203.0.113.7 198.51.100.1 56324 1883\r\n"
PROXY_2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c" + bytes([203, 0, 113, 8, 198, 51, 100, 1]) + b"\xdc\x04\x07\x5b"


@dataclass
class Site:
    place: Path
    ports: dict[str, int]
    authority: trustme.CA
    stranger: trustme.CA

    def open(self, listener: str) -> MqttClient:
        return MqttClient(("127.0.0.1", self.ports[listener]), V5, f"{listener}-client")

    def trusting(self, certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if certificate is not None:
            certificate.configure_cert(context)
        return context

    @property
    def lines(self) -> str:
        return (self.place / "lines").read_text()

    def wait_for_line(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.lines:
            assert time.monotonic() < deadline, self.lines
            time.sleep(0.01)


@contextmanager
def served(place: Path, configuration: str) -> Iterator[Site]:
    authority, stranger, ready = trustme.CA(), trustme.CA(), place / "ready.json"
    for file, name in (("server.pem", "127.0.0.1"), ("iot.pem", "iot.example.com")):
        authority.issue_cert(name).private_key_and_cert_chain_pem.write_to_path(str(place / file))
    authority.cert_pem.write_to_path(str(place / "ca.pem"))
    (place / "penstock.yaml").write_text(configuration)
    command = [*COMMAND, "serve", "-c", "penstock.yaml", "--data", "data", "--ready-file", str(ready)]
    environment = {**ENVIRONMENT, "XDG_CONFIG_HOME": str(place / "config")}
    with (
        (place / "lines").open("wb") as lines,
        subprocess.Popen(command, cwd=place, env=environment, stdout=lines, stderr=lines) as process,
    ):
        try:
            deadline = time.monotonic() + 60
            while not ready.exists():
                assert process.poll() is None and time.monotonic() < deadline, (place / "lines").read_text()
                time.sleep(0.01)
            listeners = json.loads(ready.read_text())["listeners"]
            ports = {name: address["port"] for name, address in listeners.items()}
            yield Site(place, ports, authority, stranger)
        finally:
            process.terminate()
            assert process.wait(60) == 0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("site"), CONFIGURATION) as made:
        yield made


def talk(client: MqttClient, topic: str = "open/a") -> None:
    """All the way in and out again."""
    assert client.connect().reason is ReasonCode.SUCCESS
    assert client.subscribe(topic, qos=1) == (ReasonCode.GRANTED_QOS_1,)
    client.publish(topic, b"x" * 100_000, 0)
    assert len(client.expect_message().payload) == 100_000
    client.disconnect()
    client.close()


@pytest.mark.parametrize("header", [PROXY_1, PROXY_2], ids=["version 1", "version 2"])
def test_a_client_behind_a_proxy_is_served(site: Site, header: bytes) -> None:
    client = site.open("mqtt")
    client.send_raw(header)
    talk(client)


def test_the_address_that_the_proxy_announces_is_the_peers(site: Site) -> None:
    client = site.open("mqtt")
    client.send_raw(PROXY_1 + b"\xff\xff\xff\xff")
    client.expect_closed()
    client.close()
    site.wait_for_line("connection closed peer=203.0.113.7")


def test_nobody_comes_in_past_the_proxy(site: Site) -> None:
    client = site.open("mqtt")
    with pytest.raises(ConnectionEnded):
        client.connect()
    client.close()


def test_tls_without_a_certificate_asks_for_another_login(site: Site) -> None:
    client = site.open("mqtts")
    client.secure(site.trusting())
    talk(client)


def test_a_certificate_is_a_login(site: Site) -> None:
    client = site.open("mqtts")
    client.secure(site.trusting(site.authority.issue_cert(common_name="pump-7")))
    talk(client, "devices/pump-7/state")


def test_a_certificate_is_no_other_ones_login(site: Site) -> None:
    client = site.open("mqtts")
    client.secure(site.trusting(site.authority.issue_cert(common_name="pump-7")))
    client.connect()
    assert client.subscribe("devices/pump-8/state", qos=1) == (ReasonCode.NOT_AUTHORIZED,)
    client.close()


def test_a_certificate_of_another_authority_does_not_come_in(site: Site) -> None:
    client = site.open("mqtts")
    assert is_turned_away(client, site.trusting(site.stranger.issue_cert(common_name="pump-7")))


def is_turned_away(client: MqttClient, context: ssl.SSLContext) -> bool:
    """TLS 1.3 refuses after the client's side of the handshake is done: then the connection ends, or is reset."""
    try:
        client.secure(context)
        client.connect()
    except (OSError, ConnectionEnded):
        return True
    finally:
        client.close()
    return False


def test_clear_text_on_a_tls_listener_is_closed_and_nobody_else_notices(site: Site) -> None:
    beside = site.open("mqtts")
    beside.secure(site.trusting())
    client = site.open("mqtts")
    with pytest.raises(ConnectionEnded):
        client.connect()
    client.close()
    talk(beside)


def test_a_websocket_over_tls_is_served_at_its_path(site: Site) -> None:
    client = site.open("mqtt_wss")
    upgrade(client, "/here", site.trusting())
    talk(client)


def test_pages_of_a_listed_origin_may_connect(site: Site) -> None:
    client = site.open("mqtt_wss")
    upgrade(client, "/here", site.trusting(), origin="https://app.example.com")
    talk(client)


@pytest.mark.parametrize(
    ("path", "origin", "answer"), [("/here", "https://example.org", "403"), ("/mqtt", "https://app.example.com", "404")]
)
def test_pages_of_other_origins_and_other_paths_are_refused(site: Site, path: str, origin: str, answer: str) -> None:
    client = site.open("mqtt_wss")
    with pytest.raises(WebSocketRefused, match=answer):
        upgrade(client, path, site.trusting(), origin=origin)
    client.close()


def test_the_certificate_is_that_of_the_name_which_the_client_asks_for(site: Site) -> None:
    client = site.open("mqtt_wss")
    upgrade(client, "/here", site.trusting(), hostname="iot.example.com")
    talk(client)


def test_a_websocket_over_tls_behind_a_proxy_is_served(site: Site) -> None:
    client = site.open("mqtt_ws")
    client.send_raw(PROXY_1)
    upgrade(client, "/mqtt", site.trusting())
    talk(client)


def test_what_is_insecure_about_it_is_said(site: Site) -> None:
    for listener in ("mqtt", "mqtt_ws"):
        assert f"insecure: listener {listener} believes any address that is announced" in site.lines
    assert "insecure: auth.allow_anonymous" in site.lines


def test_where_a_certificate_is_required_nobody_comes_in_without_one(tmp_path: Path) -> None:
    with served(tmp_path, REQUIRED) as site:
        assert is_turned_away(site.open("mqtts"), site.trusting())
        assert is_turned_away(site.open("mqtts"), site.trusting(site.stranger.issue_cert(common_name="pump-7")))
        known = site.open("mqtts")
        known.secure(site.trusting(site.authority.issue_cert(common_name="pump-7")))
        talk(known, "devices/pump-7/state")
        old = MqttClient(("127.0.0.1", site.ports["mqtts"]), V3, "old")
        old.secure(site.trusting(site.authority.issue_cert(common_name="pump-7")))
        assert old.connect() == ConnAck()
        old.close()
