"""`penstock serve` as a user runs it: a process, real clients, signals, and data that is still there afterwards."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import paho.mqtt.client as mqtt
import pytest
import trustme
import yaml
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from tests.support.cli import COMMAND, ENVIRONMENT, penstock

# paho leaves its pair of sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "server.md"
SMALL = (
    "--set",
    "storage.journal_file_size=4MiB",
    "--set",
    "storage.journal_size=16MiB",
    "--set",
    "storage.disk_reserve=0",
)


class Serving:
    """One server after the other on one directory."""

    def __init__(self, place: Path) -> None:
        self.place, self.ready_file = place, place / "ready.json"
        self.process: subprocess.Popen[bytes] | None = None
        self.environment = {**ENVIRONMENT, "XDG_CONFIG_HOME": str(place / "config")}

    def start(self, *arguments: str) -> dict[str, int]:
        """The ports of its listeners."""
        self.ready_file.unlink(missing_ok=True)  # a killed one leaves it
        names = ("mqtt", "mqtt_ws", "http")
        ports = [word for name in names for word in ("--set", f"listeners.{name}.port=0")]
        command = [*COMMAND, "serve", "--data", str(self.place / "data"), "--ready-file", str(self.ready_file)]
        with (self.place / "said").open("ab") as said, (self.place / "lines").open("ab") as lines:
            self.process = subprocess.Popen(
                [*command, *ports, *SMALL, *arguments], env=self.environment, stdout=said, stderr=lines, cwd=self.place
            )
        deadline = time.monotonic() + 60
        while not self.ready_file.exists():
            assert self.process.poll() is None, self.lines
            assert time.monotonic() < deadline, self.lines
            time.sleep(0.01)
        ready = json.loads(self.ready_file.read_text())
        assert ready["pid"] == self.process.pid
        return {name: address["port"] for name, address in ready["listeners"].items()}

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    def wait_for_line(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.lines:
            assert time.monotonic() < deadline, self.lines
            time.sleep(0.01)

    @property
    def lines(self) -> str:
        return (self.place / "lines").read_text()

    @property
    def said(self) -> str:
        return (self.place / "said").read_text()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(tmp_path)
    yield serving
    if serving.process is not None and serving.process.poll() is None:
        serving.process.kill()
        serving.process.wait()


class Client:
    """paho with its thread; what it got, and how it was sent away."""

    def __init__(self, name: str, *, transport: Literal["tcp", "websockets"] = "tcp", is_clean: bool = True) -> None:
        self.got: list[bytes] = []
        self.ended: list[int] = []
        self._changed = threading.Condition()
        self.paho = mqtt.Client(
            CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5, transport=transport, reconnect_on_failure=False
        )
        self._is_clean = is_clean
        self.paho.on_message = lambda _client, _data, message: self._note(self.got, message.payload)
        self.paho.on_disconnect = lambda _c, _d, _f, reason, _p: self._note(self.ended, reason.value)
        self.refused: list[int] = []
        self.paho.on_connect = lambda _c, _d, _f, reason, _p: self._note(self.refused, reason.value)

    def connect(self, port: int) -> int:
        """The server's reason code."""
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho types its client only
        properties.SessionExpiryInterval = 0 if self._is_clean else 3600
        self.paho.connect("127.0.0.1", port, clean_start=self._is_clean, properties=properties)
        self.paho.loop_start()
        self.wait_for(self.refused, 1)
        return self.refused[0]

    def subscribe(self, topic: str, qos: int = 1) -> None:
        done = threading.Event()
        self.paho.on_subscribe = lambda *_: done.set()
        self.paho.subscribe(topic, qos)
        assert done.wait(30)

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        self.paho.publish(topic, payload, 1, retain).wait_for_publish(30)

    def wait_for(self, events: list[int] | list[bytes], count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(events) >= count, 30)

    def close(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def _note(self, events: list[int] | list[bytes], event: object) -> None:
        with self._changed:
            events.append(event)  # type: ignore[arg-type]  # each list gets its own kind
            self._changed.notify_all()


# Life


def test_a_client_publishes_the_server_stops_and_everything_is_still_there(serving: Serving) -> None:
    ports = serving.start("--dev", "--set", 'queues=[{"name": "orders", "topics": ["orders/#"], "partitions": 1}]')
    away, publisher = Client("away", is_clean=False), Client("publisher")
    assert away.connect(ports["mqtt"]) == 0
    away.subscribe("news/#")
    away.close()
    assert publisher.connect(ports["mqtt"]) == 0
    publisher.publish("orders/1", b"an order")
    publisher.publish("news/today", b"while away")
    publisher.publish("state/door", b"open", retain=True)
    assert serving.stop() == 0
    publisher.wait_for(publisher.ended, 1)
    assert publisher.ended == [0x8B]
    assert "insecure: development mode" in serving.lines

    ports = serving.start("--dev")
    worker, back = Client("worker"), Client("away", is_clean=False)
    assert worker.connect(ports["mqtt"]) == 0
    worker.subscribe("$queue/orders")
    worker.subscribe("state/#")
    worker.wait_for(worker.got, 2)
    assert sorted(worker.got) == [b"an order", b"open"]
    assert back.connect(ports["mqtt"]) == 0
    back.wait_for(back.got, 1)
    assert back.got == [b"while away"]
    for client in (worker, back, publisher):
        client.close()
    assert serving.stop(signal.SIGINT) == 0


def test_websocket_clients_are_served_too(serving: Serving) -> None:
    ports = serving.start("--dev")
    browser, device = Client("browser", transport="websockets"), Client("device")
    assert browser.connect(ports["mqtt_ws"]) == 0
    browser.subscribe("a/b")
    assert device.connect(ports["mqtt"]) == 0
    device.publish("a/b", b"over both")
    browser.wait_for(browser.got, 1)
    assert browser.got == [b"over both"]
    for client in (browser, device):
        client.close()


def test_uvloop_serves_the_same(serving: Serving) -> None:
    pytest.importorskip("uvloop")
    ports = serving.start("--dev", "--set", "loop=uvloop")
    client = Client("any")
    assert client.connect(ports["mqtt"]) == 0
    client.subscribe("a")
    client.publish("a", b"x")
    client.wait_for(client.got, 1)
    client.close()
    assert serving.stop() == 0


def test_without_development_mode_nobody_comes_in_without_the_first_password(serving: Serving) -> None:
    ports = serving.start()
    stranger, admin = Client("stranger"), Client("admin")
    assert stranger.connect(ports["mqtt"]) in (0x86, 0x87)
    stranger.close()
    context = yaml.safe_load((serving.place / "config" / "penstock" / "config.yaml").read_text())["contexts"]["local"]
    assert context["mqtt"] == f"mqtt://127.0.0.1:{ports['mqtt']}"
    assert context["url"] == f"http://127.0.0.1:{ports['http']}"
    assert context["password"] in serving.said
    assert context["password"] not in serving.lines
    admin.paho.username_pw_set("admin", context["password"])
    assert admin.connect(ports["mqtt"]) == 0
    admin.publish("anything", b"goes")
    admin.close()
    assert serving.stop() == 0
    serving.start()
    assert serving.said.count(context["password"]) == 1


def test_tls_and_client_certificates(serving: Serving) -> None:
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(serving.place / "server.pem"))
    authority.issue_cert(common_name="device-1").private_key_and_cert_chain_pem.write_to_path(
        str(serving.place / "client.pem")
    )
    authority.cert_pem.write_to_path(str(serving.place / "ca.pem"))
    tls = {"certificate": "server.pem", "key": "server.pem", "client_ca": "ca.pem", "require_client_certificate": True}
    rules = [{"effect": "allow", "action": "all", "pattern": "devices/%u/#"}]
    listener = json.dumps({"port": 0, "tls": tls})
    ports = serving.start("--set", f"listeners.mqtts={listener}", "--set", f"auth.acl={json.dumps(rules)}")
    device = Client("any")
    device.paho.tls_set(
        str(serving.place / "ca.pem"), str(serving.place / "client.pem"), str(serving.place / "client.pem")
    )
    assert device.connect(ports["mqtts"]) == 0
    device.subscribe("devices/device-1/in")
    device.publish("devices/device-1/in", b"hello")
    device.wait_for(device.got, 1)
    device.close()
    assert serving.stop() == 0


def test_sighup_changes_rules_while_clients_are_connected(serving: Serving) -> None:
    file = serving.place / "penstock.yaml"
    file.write_text("auth: {allow_anonymous: false}")
    ports = serving.start("-c", str(file))
    before, after = Client("before"), Client("after")
    assert before.connect(ports["mqtt"]) != 0
    before.close()
    file.write_text("auth: {allow_anonymous: true, acl: [{effect: allow, action: all, pattern: open/#}]}")
    assert serving.process is not None
    serving.process.send_signal(signal.SIGHUP)
    serving.wait_for_line("reloaded setting=auth.allow_anonymous before=False after=True")
    assert after.connect(ports["mqtt"]) == 0
    after.subscribe("open/#")
    after.publish("open/a", b"x")
    after.wait_for(after.got, 1)
    after.close()
    assert serving.stop() == 0


def test_beyond_loopback_connections_are_limited_by_address(serving: Serving) -> None:
    limits = ("max_connections_per_ip=1", "connection_burst_size=1", "connection_window=1h")
    ports = serving.start("--set=listeners.mqtt.host=0.0.0.0", *(f"--set=rate_limit.{limit}" for limit in limits))
    address = ("127.0.0.1", ports["mqtt"])
    with socket.create_connection(address) as first, socket.create_connection(address) as second:
        assert second.recv(1) == b""
        first.setblocking(False)
        with pytest.raises(BlockingIOError):
            first.recv(1)
    serving.wait_for_line("too many connections listener=mqtt peer=127.0.0.1")


def test_a_killed_server_starts_again_with_what_it_acknowledged(serving: Serving) -> None:
    ports = serving.start("--dev")
    client = Client("any")
    client.connect(ports["mqtt"])
    client.publish("$queue/jobs", b"kept")
    serving.stop(signal.SIGKILL)
    client.close()
    ports = serving.start("--dev")
    worker = Client("worker")
    worker.connect(ports["mqtt"])
    worker.subscribe("$queue/jobs")
    worker.wait_for(worker.got, 1)
    assert worker.got == [b"kept"]
    worker.close()


# Mistakes


def test_a_directory_in_use_is_told_with_its_process(serving: Serving) -> None:
    serving.start("--dev")
    assert serving.process is not None
    ports = ("--set", "listeners.mqtt.port=0", "--set", "listeners.mqtt_ws=null", "--set", "listeners.http=null")
    refused = penstock("serve", "--dev", "--data", serving.place / "data", *ports, expected=1)
    assert b"is held by process %d" % serving.process.pid in refused.stderr


def test_a_port_in_use_is_told(serving: Serving) -> None:
    port = serving.start("--dev")["mqtt"]
    refused = penstock(
        "serve", "--dev", "--data", serving.place / "other", "--set", f"listeners.mqtt.port={port}", expected=1
    )
    assert b"listener mqtt cannot listen on 127.0.0.1:%d" % port in refused.stderr
    assert not (serving.place / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-c", "absent.yaml"], b"absent.yaml: cannot be read: No such file or directory"),
        (["--set", "listeners.mqtt.prot=1"], b"did you mean listeners.mqtt.port?"),
        (["--dev", "--set", "listeners.mqtt.host=0.0.0.0"], b"development mode lets everybody in"),
        (["--set", "listeners.grpc={}"], b"not in this version"),
        (["--set", 'listeners.mqtts.tls={"certificate": "no.pem", "key": "no.pem"}'], b"no.pem cannot be read"),
        (["--set", "auth.jwt.algorithm=HS256"], b"auth.jwt"),
    ],
)
def test_a_bad_configuration_ends_with_2_and_one_line(arguments: list[str], said: bytes, tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    for check in ([], ["--check"]):
        refused = penstock("serve", *data, *arguments, *check, expected=2)
        assert said in refused.stderr
        assert refused.stderr.count(b"\n") == 1


def test_a_good_configuration_is_said_to_be_one(tmp_path: Path) -> None:
    ran = penstock("serve", "--check", "--dev", "--data", tmp_path / "data")
    assert b"the configuration is good, listeners: mqtt, mqtt_ws, http" in ran.stdout
    assert b"insecure: development mode" in ran.stdout
    assert not (tmp_path / "data").exists()


def test_every_configuration_of_the_page_is_good(tmp_path: Path) -> None:
    authority = trustme.CA()
    for name in ("server", "iot"):
        issued = authority.issue_cert(f"{name}.example.com")
        issued.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / f"{name}.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "clients.pem"))
    blocks = re.findall(r"^```yaml\n(.*?)^```", HOWTO.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        (tmp_path / "penstock.yaml").write_text(block)
        ran = subprocess.run(
            [*COMMAND, "serve", "-c", "penstock.yaml", "--check"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True
        )
        assert ran.returncode == 0, (block, ran.stderr)
