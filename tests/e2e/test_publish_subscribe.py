"""`penstock publish` and `penstock subscribe` as a user types them, against ours and another server."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import servers
from tests.support.cli import ENVIRONMENT, lines, penstock, started
from tests.support.servers import Kind, RunningServer

from penstock.cli.main import run
from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.options import MqttOptions
from penstock.client.mqtt.settling import Verdict
from penstock.codecs.mqtt.properties import Properties


@pytest.fixture(autouse=True)
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the local context is, which no test may share with who runs it."""
    monkeypatch.setitem(ENVIRONMENT, "XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "penstock" / "config.yaml"


@pytest.fixture(params=list(servers.SERVERS))
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    try:
        with servers.SERVERS[request.param](tmp_path) as running:
            yield running
    except servers.NotInstalled as missing:
        pytest.skip(str(missing))


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[RunningServer]:
    with servers.penstock(tmp_path) as running:
        yield running


def address(server: RunningServer) -> tuple[str, str]:
    return "--port", str(server.port)


def published(server: RunningServer, *arguments: str, given: bytes = b"") -> dict[str, Any]:
    """JSON can be anything; what it must be, the test says."""
    ran = penstock("publish", *arguments, *address(server), "-o", "json", given=given)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def retained(server: RunningServer, *arguments: str) -> bytes:
    """What a new subscriber is given of what was published with --retain."""
    return penstock("subscribe", *arguments, *address(server)).stdout


def test_a_retained_message_is_printed_as_text_raw_json_and_by_a_template(server: RunningServer) -> None:
    options = "--retain", "--content-type", "text/plain", "--property", "a=1", "--property", "b=x=y", "--expiry", "1h"
    assert published(server, "site/one", "hello", *options)["messages"] == 1
    one = "--count", "1"
    assert retained(server, "site/+", *one) == b"site/one hello\n"
    assert retained(server, "site/one", *one, "-o", "raw") == b"hello"
    template = "%t=%p %x %l %q %r %{b}%{none} 100%% %?"
    assert retained(server, "site/#", *one, "--template", template) == b"site/one=hello 68656c6c6f 5 1 1 x=y 100% %?\n"
    found = json.loads(retained(server, "site/one", *one, "-o", "json"))
    assert 0 < found.pop("expiry_s") <= 3600
    assert found == {
        "topic": "site/one",
        "payload": "hello",
        "qos": 1,
        "retain": True,
        "content_type": "text/plain",
        "properties": [["a", "1"], ["b", "x=y"]],
    }


def test_a_file_is_published_byte_for_byte(server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "blob"
    file.write_bytes(bytes(range(256)) * 10)
    published(server, "blob", "--file", str(file), "--retain", "-q", "2")
    assert retained(server, "blob", "--count", "1", "-o", "raw") == file.read_bytes()
    found = json.loads(retained(server, "blob", "--count", "1", "-o", "json"))
    assert "payload_base64" in found


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_lines_are_messages_and_a_subscriber_prints_them_in_order(server: RunningServer, version: str) -> None:
    options = *address(server), "-V", version
    subscriber = started("subscribe", "lines/#", "ready", "--count", "1001", *options)
    try:
        _wait_for_subscriber(server, subscriber)
        ran = penstock("publish", "lines/1", "--stdin", "-q", "1", *options, given=lines(1000))
        assert ran.stdout == b"lines/1: 1,000 messages acknowledged\n"
        out, _ = subscriber.communicate(timeout=30)
    finally:
        subscriber.kill()
        subscriber.wait()
    assert [line for line in out.splitlines(keepends=True) if not line.startswith(b"ready")] == [
        b"lines/1 " + line for line in lines(1000).splitlines(keepends=True)
    ]


def _wait_for_subscriber(server: RunningServer, subscriber: subprocess.Popen[bytes]) -> None:
    """It prints what it kept for it as soon as it is subscribed."""
    published(server, "ready", "yes", "--retain")
    assert subscriber.stdout is not None
    assert subscriber.stdout.readline() == b"ready yes\n"


def test_count_repeats_and_stops(server: RunningServer) -> None:
    assert published(server, "t", "x", "--count", "3", "-q", "0")["messages"] == 3
    assert published(server, "t", "--stdin", "--count", "5", "--rate", "1000/s", given=lines(10))["messages"] == 5


def test_interrupted_it_tells_how_many_were_acknowledged(server: RunningServer) -> None:
    subscriber = started("subscribe", "t", "ready", *address(server))
    publisher = started("publish", "t", "--stdin", *address(server))
    try:
        _wait_for_subscriber(server, subscriber)
        assert publisher.stdin is not None
        assert subscriber.stdout is not None
        publisher.stdin.write(lines(10))
        publisher.stdin.flush()
        for _ in range(10):
            assert subscriber.stdout.readline().startswith(b"t message")
        publisher.send_signal(signal.SIGINT)
        out, _ = publisher.communicate(timeout=30)
        assert (out, publisher.returncode) == (b"t: 10 messages acknowledged\n", 130)
        subscriber.send_signal(signal.SIGINT)
        assert subscriber.wait(30) == 130
    finally:
        for process in (publisher, subscriber):
            process.kill()
            process.communicate()


def test_queues_are_filled_and_consumed_by_groups(ours: RunningServer) -> None:
    assert published(ours, "$queue/orders", "--stdin", "--property", "k=v", given=lines(20))["messages"] == 20
    group = "subscribe", "$queue/orders", "--group", "billing", *address(ours)
    first = penstock(*group, "--count", "12", "--template", "%p").stdout
    rest = penstock(*group, "--count", "8", "--template", "%p").stdout
    assert sorted((first + rest).splitlines()) == sorted(lines(20).splitlines())
    again = json.loads(
        penstock("subscribe", "$queue/orders", "--group", "audit", "--count", "1", *address(ours), "-o", "json").stdout
    )
    assert ["k", "v"] in again["properties"]
    assert "message-id" in dict(again["properties"])


async def work(options: MqttOptions) -> None:
    """One message of three is done, one comes again, one is given up."""
    terms = Properties(user_properties=(("consumer-group", "workers"),))
    async with asyncio.timeout(30), AsyncMqttClient(replace(options, manual_ack=True)) as client:
        for text in ("done", "again", "never"):
            await client.publish("$queue/jobs", text, qos=1)
        await client.subscribe("$queue/jobs", qos=1, properties=terms)
        handed_out: list[tuple[bytes, str | None]] = []
        verdicts = {b"done": Verdict.ACK, b"again": Verdict.NACK, b"never": Verdict.REJECT}
        while len(handed_out) < 4:
            message = await client.receive()
            client.ack(message)
            is_again = (message.payload, "1") in handed_out
            verdict = Verdict.ACK if is_again else verdicts[message.payload]
            await client.settle(verdict, message, delay_s=0.05 if verdict is Verdict.NACK else None, reason="test")
            handed_out.append((message.payload, message.header("delivery-count")))
        assert sorted(handed_out) == [(b"again", "1"), (b"again", "2"), (b"done", "1"), (b"never", "1")]
        await client.subscribe("$dlq/jobs", qos=1, properties=terms)
        letter = await client.receive()
        assert (letter.payload, letter.header("dlq-detail")) == (b"never", "test")


@pytest.mark.parametrize("path", [None, "/mqtt"], ids=["tcp", "websocket"])
def test_a_program_settles_what_it_consumes(tmp_path: Path, path: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ["listeners.mqtt.port=0", "listeners.mqtt_ws.port=0", "listeners.http=null"]
    monkeypatch.setattr(servers, "_penstock_settings", lambda *_arguments: settings)
    with servers.penstock(tmp_path):
        listeners = json.loads((tmp_path / "ready.json").read_text())["listeners"]
        port = listeners["mqtt" if path is None else "mqtt_ws"]["port"]
        asyncio.run(work(MqttOptions(port=port, websocket_path=path, reconnect=None)))


def failed(*arguments: str, expected: int = 1) -> str:
    return penstock(*arguments, expected=expected).stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["publish", "t"], "one of MESSAGE, --file and --stdin"),
        (["publish", "t", "x", "--stdin"], "one of MESSAGE, --file and --stdin"),
        (["publish", "t", "x", "--rate", "fast"], "100/s"),
        (["publish", "t", "x", "--rate", "0"], "100/s"),
        (["publish", "t", "x", "--property", "oops"], "colour=red"),
        (["publish", "t", "x", "--expiry", "10"], "30s"),
        (["subscribe", "t", "--group", "g"], "$queue/NAME"),
        (["subscribe", "$queue/q", "--group", "g", "-V", "3.1.1"], "no user properties"),
        (["subscribe", "t", "--no-retained", "-V", "3.1.1"], "use version 5"),
        (["subscribe", "t", "--template", "%p", "-o", "json"], "leave -o out"),
    ],
)
def test_wrong_usage_says_what_is_right(
    arguments: list[str], said: str, context: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(context.parents[1]))
    assert run(arguments) == 2
    assert said in capsys.readouterr().err


def test_a_server_that_is_not_there_is_named_with_what_to_do() -> None:
    port = str(servers._free_port())
    text = failed("publish", "t", "x", "--port", port, expected=4)
    assert f"127.0.0.1:{port}" in text
    assert "penstock serve" in text


def write(file: Path, mqtt: str, login: dict[str, str]) -> None:
    """JSON is YAML."""
    file.write_text(json.dumps({"current_context": "it", "contexts": {"it": {"mqtt": mqtt, **login}}}))


def test_the_local_context_is_used_for_its_own_server_and_no_other(tmp_path: Path, context: Path) -> None:
    if servers.mosquitto_command() is None:
        pytest.skip(servers.INSTALL_HINT)
    with servers.mosquitto(tmp_path, Kind.LIMITED) as server:
        context.parent.mkdir(parents=True)
        login = {"username": servers.USERNAME, "password": servers.PASSWORD.decode()}
        write(context, f"mqtt://{servers.HOST}:{server.port}", login)
        assert b"acknowledged" in penstock("publish", "t", "x").stdout
        assert b"acknowledged" in penstock("publish", "t", "x", *address(server)).stdout

        write(context, f"mqtt://{servers.HOST}:{server.port + 1}", login)
        assert "0x87 not authorized" in failed("publish", "t", "x", *address(server))
        password = tmp_path / "password"
        password.write_bytes(servers.PASSWORD + b"\n")
        given = "-u", servers.USERNAME, "--password-file", str(password)
        assert b"acknowledged" in penstock("publish", "t", "x", *address(server), *given).stdout

        context.write_text("{")
        assert "mend or remove it" in failed("publish", "t", "x", *address(server))
