"""A server from its start to its end: listeners in front of a gateway that echoes."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
from pathlib import Path

import msgspec
import pytest
import trustme
from tests.support.loop import run
from tests.support.serving import EchoWorks, configured, running

from penstock.core.errors import CannotListen, DirectoryInUse
from penstock.core.types import Durability
from penstock.server.config import Config
from penstock.server.context import Context
from penstock.server.doors import facts_of
from penstock.server.process import context_of
from penstock.server.ready import ReadyFile
from penstock.server.reload import changes_between, reloadable
from penstock.server.server import Server
from penstock.server.weaknesses import weaknesses
from penstock.server.written import BadConfiguration
from penstock.version import VERSION


async def _said(address: tuple[str, int], data: bytes, until: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(data)
        return await reader.readuntil(until)
    finally:
        writer.close()


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


# Connections


def test_a_connection_reaches_the_gateway_with_the_facts_of_its_listener(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(configured(tmp_path)) as (server, _):
            assert await _said(server.addresses["mqtt"], b"hello\n", b"\n") == b"mqtt 127.0.0.1 hello\n"

    run(scene())


_UPGRADE = (
    b"GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n%s"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)


def test_a_websocket_listener_upgrades_at_its_path(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(configured(tmp_path, "listeners.mqtt_ws.path=/here")) as (server, _):
            address = server.addresses["mqtt_ws"]
            said = await _said(address, _UPGRADE % (b"/here", b"localhost", b""), b"127.0.0.1 ")
            assert said.startswith(b"HTTP/1.1 101")
            assert (await _said(address, _UPGRADE % (b"/mqtt", b"localhost", b""), b"\n")).startswith(b"HTTP/1.1 404")

    run(scene())


@pytest.mark.parametrize(
    ("host", "is_dev", "answer"),
    [
        (b"evil.example:8083", True, b"421"),
        (b"evil.example:8083", False, b"101"),
        (b"localhost:8083", True, b"101"),
        (b"127.1.2.3:8083", True, b"101"),
        (b"[::1]:8083", True, b"101"),
        (b"127.0.0.1.evil.example", True, b"421"),
    ],
)
def test_a_page_that_makes_its_own_name_point_here_is_refused_in_development_mode(
    tmp_path: Path, host: bytes, is_dev: bool, answer: bytes
) -> None:
    config = configured(tmp_path, f"auth.development_mode={str(is_dev).lower()}")

    async def scene() -> None:
        async with running(config) as (server, _):
            request = _UPGRADE % (b"/mqtt", host, b"Origin: http://" + host + b"\r\n")
            end = b"127.0.0.1 " if answer == b"101" else b"\n"
            assert (await _said(server.addresses["mqtt_ws"], request, end)).startswith(b"HTTP/1.1 " + answer)

    run(scene())


def test_a_proxy_announces_the_address_of_the_client(tmp_path: Path) -> None:
    config = configured(tmp_path, "listeners.mqtt.proxy_protocol=true", "listeners.mqtt_ws=null")

    async def scene() -> None:
        async with running(config) as (server, _):
            header = b"PROXY TCP4 192.0.2.7 192.0.2.1 5000 1883\r\n"
            assert await _said(server.addresses["mqtt"], header + b"x\n", b"\n") == b"mqtt 192.0.2.7 x\n"

    run(scene())


def test_behind_a_proxy_the_limit_of_an_address_is_that_of_the_announced_one(tmp_path: Path) -> None:
    config = configured(tmp_path, "listeners.mqtt.proxy_protocol=true", "listeners.mqtt_ws=null")
    asked: list[str] = []

    def may_connect(peer: str) -> bool:
        asked.append(peer)
        return asked.count("192.0.2.7") <= 2

    async def scene() -> None:
        async with running(config) as (server, works):
            works.may = may_connect
            header = b"PROXY TCP4 192.0.2.%d 192.0.2.1 5000 1883\r\nx\n"
            for last in (7, 7, 8):
                said = await _said(server.addresses["mqtt"], header % last, b"\n")
                assert said == b"mqtt 192.0.2.%d x\n" % last
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await _said(server.addresses["mqtt"], header % 7, b"\n")
            assert (await _said(server.addresses["mqtt"], b"PROXY UNKNOWN\r\nx\n", b"\n")).endswith(b"127.0.0.1 x\n")
            assert asked == ["192.0.2.7", "192.0.2.7", "192.0.2.8", "192.0.2.7"]
            assert works.gateway.events == ["refused: too many connections from this address"]

    run(scene())


def test_the_limit_of_connections_is_not_for_loopback(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(configured(tmp_path)) as (server, works):
            works.may = lambda peer: False
            assert await _said(server.addresses["mqtt"], b"x\n", b"\n")

    run(scene())


def test_beyond_loopback_the_limit_is_asked(tmp_path: Path) -> None:
    config = configured(tmp_path, "listeners.mqtt.host=0.0.0.0")

    async def scene() -> None:
        async with running(config) as (server, works):
            works.may = lambda peer: False
            address = "127.0.0.1", server.addresses["mqtt"][1]
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await _said(address, b"x\n", b"\n")

    run(scene())


def test_a_verified_certificate_is_a_login_unless_switched_off() -> None:
    tls = {"certificate": "c", "key": "k", "client_ca": "ca"}

    def facts(**more: object) -> bool:
        given = msgspec.json.encode({**tls, **more}).decode()
        config = configured(Path(), f"listeners.mqtts.tls={given}")
        assert config.listeners.mqtts is not None
        return facts_of("mqtts", config.listeners.mqtts).certificate_identity

    assert facts()
    assert not facts(certificate_identity=False)
    assert not facts(client_ca=None)


# Start


def test_each_listener_and_each_weakness_is_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = configured(tmp_path, "auth.development_mode=true")

    async def scene() -> None:
        async with running(config):
            pass

    with caplog.at_level(logging.INFO, "penstock.server"):
        run(scene())
    lines = _lines(caplog)
    assert sum(line.startswith("listening listener=mqtt") for line in lines) == 2
    assert any(line.startswith("insecure: development mode") for line in lines)


def test_what_fails_at_the_start_leaves_nothing_open(tmp_path: Path) -> None:
    async def refuse(config: Config) -> EchoWorks:
        raise DirectoryInUse("data", "process 1")

    async def scene() -> None:
        async with running(configured(tmp_path)) as (server, _):
            _, port = server.addresses["mqtt"]
            taken = configured(tmp_path / "other", f"listeners.mqtt.port={port}")
            with pytest.raises(CannotListen):
                await Server.start(taken, EchoWorks.open)
            assert not (tmp_path / "other").exists()
        free = configured(tmp_path, f"listeners.mqtt.port={port}")
        with pytest.raises(DirectoryInUse):
            await Server.start(free, refuse)
        async with running(free):
            pass

    run(scene())


def test_two_servers_on_one_directory_name_the_first(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(configured(tmp_path)):
            with pytest.raises(DirectoryInUse, match=f"process {os.getpid()}"):
                await Server.start(configured(tmp_path), EchoWorks.open)

    run(scene())


def test_stopping_drains_before_it_closes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(configured(tmp_path)) as (server, works):
            reader, writer = await asyncio.open_connection(*server.addresses["mqtt"])
            await reader.readuntil(b"127.0.0.1 ")
            works.gateway.drained.clear()
            stopping = asyncio.ensure_future(server.stop())
            await works.gateway.draining.wait()
            with pytest.raises(OSError):
                await asyncio.open_connection(*server.addresses["mqtt"])
            writer.write(b"still here\n")
            assert await reader.readuntil(b"\n") == b"still here\n"
            works.gateway.drained.set()
            await stopping
            assert works.gateway.events == ["drain", "close"]
            assert await reader.read() == b""
            writer.close()

    run(scene())


# Queues of the configuration


def test_queues_are_declared_once_and_changed_where_that_can_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def declared(*queues: dict[str, object]) -> dict[str, object]:
        text = json.dumps(queues)
        async with running(configured(tmp_path, f"queues={text}")) as (_, works):
            queue = works.broker.queue("orders")
            return {"partitions": queue.settings.partitions, "depth": queue.settings.limits.max_queue_depth}

    async def scene() -> None:
        first: dict[str, object] = {"name": "orders", "partitions": 2, "limits": {"max_queue_depth": 5}}
        assert await declared(first) == {"partitions": 2, "depth": 5}
        caplog.clear()
        assert await declared(first) == {"partitions": 2, "depth": 5}
        assert not any("queue" in line for line in _lines(caplog))
        fewer: dict[str, object] = {"name": "orders", "partitions": 1, "limits": {"max_queue_depth": 9}}
        assert await declared(fewer) == {"partitions": 2, "depth": 9}

    with caplog.at_level(logging.INFO, "penstock.server"):
        run(scene())
    assert any(line.startswith("queue not changed queue=orders setting=partitions") for line in _lines(caplog))


def test_durability_and_templates_are_for_queues_that_say_nothing_else(tmp_path: Path) -> None:
    templates = json.dumps([{"match": "fast-*", "settings": {"durability": "memory", "partitions": 1}}])
    config = configured(tmp_path, "durability=interval", f"broker.templates={templates}", 'queues=[{"name": "a"}]')

    async def scene() -> None:
        async with running(config) as (_, works):
            declaring = works.broker.declaring
            await declaring.put_template("stored-*", {"partitions": 3})
            assert works.broker.queue("a").settings.durability is Durability.INTERVAL
            assert (await declaring.subscribed("$queue/fast-1"))[0].settings.durability is Durability.MEMORY
        async with running(configured(tmp_path)) as (_, works):
            declaring = works.broker.declaring
            assert list(declaring.templates) == ["stored-*"]
            assert (await declaring.subscribed("$queue/fast-2"))[0].settings.durability is Durability.COMMIT

    run(scene())


# Reload


def test_what_can_change_does_and_the_rest_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wanted = configured(
        tmp_path,
        "log.level=debug",
        "rate_limit.max_messages_per_client=5",
        "listeners.mqtt.port=1",
        "listeners.mqtt_ws.path=/new",
        'queues=[{"name": "late"}]',
    )

    async def scene() -> None:
        async with running(configured(tmp_path)) as (server, works):
            await server.reload(wanted)
            assert works.applied[0].rate_limit.max_messages_per_client == 5
            assert works.broker.queue("late")
            assert server.config.listeners.mqtt == configured(tmp_path).listeners.mqtt
            await server.reload(wanted)

    with caplog.at_level(logging.INFO, "penstock.server"):
        run(scene())
    lines = _lines(caplog)
    assert lines.count("not reloaded, it needs a restart setting=listeners.mqtt.port before=0 after=1") == 2
    assert lines.count("reloaded setting=listeners.mqtt_ws.path before=/mqtt after=/new") == 1
    assert lines.count("reloaded setting=log.level before=info after=debug") == 1


def test_certificates_are_read_again(tmp_path: Path) -> None:
    authority = trustme.CA()

    def issue(name: str) -> None:
        issued = authority.issue_cert(name)
        issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))

    file = str(tmp_path / "server.pem")
    listener = json.dumps({"port": 0, "tls": {"certificate": file, "key": file}})
    config = configured(tmp_path / "data", f"listeners.mqtts={listener}")

    async def connect(server: Server, name: str) -> bytes:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        reader, writer = await asyncio.open_connection(*server.addresses["mqtts"], ssl=context, server_hostname=name)
        found = await reader.readuntil(b"127.0.0.1 ")
        writer.close()
        return found

    async def scene() -> None:
        issue("old.example")
        async with running(config) as (server, _):
            assert await connect(server, "old.example")
            issue("new.example")
            await server.reload(config)
            assert await connect(server, "new.example")
            (tmp_path / "server.pem").write_text("rubbish")
            with pytest.raises(BadConfiguration):
                await server.reload(config)
            assert await connect(server, "new.example")

    run(scene())


def test_development_mode_does_not_change_while_it_runs(tmp_path: Path) -> None:
    before, after = configured(tmp_path), configured(tmp_path, "auth.development_mode=true")
    kept = reloadable(before, after)
    assert not kept.auth.development_mode
    assert [change.path for change in changes_between(kept, after)] == ["auth.development_mode"]


# What is said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["listeners.mqtt.host=0.0.0.0"], "listener mqtt on 0.0.0.0 has no TLS"),
        (["auth.allow_anonymous=true"], "auth.allow_anonymous"),
        (['listeners.mqtt_ws.allowed_origins=["*"]'], "every origin"),
        (["listeners.mqtt.host=0.0.0.0", "rate_limit.max_messages_per_client=0"], "rate_limit"),
        (["listeners.mqtt.proxy_protocol=true"], "let only the proxy reach"),
        (["auth.jwt.secret=abcdefabcdefabcdefabcdefabcdefabcdef"], "auth.jwt.secret"),
    ],
)
def test_what_is_insecure_is_said(flags: list[str], said: str, tmp_path: Path) -> None:
    assert any(said in weakness for weakness in weaknesses(configured(tmp_path, *flags)))


def test_of_the_defaults_nothing_is_insecure(tmp_path: Path) -> None:
    assert weaknesses(configured(tmp_path)) == []


def test_the_ready_file_is_there_whole_and_an_old_one_is_gone_first(tmp_path: Path) -> None:
    file = tmp_path / "ready.json"
    file.write_text("old")
    ready = ReadyFile(file)
    assert not file.exists()
    ready.write({"mqtt": ("127.0.0.1", 1883)})
    expected = {"pid": os.getpid(), "version": VERSION, "listeners": {"mqtt": {"host": "127.0.0.1", "port": 1883}}}
    assert json.loads(file.read_text()) == expected
    assert list(tmp_path.iterdir()) == [file]
    ready.remove()
    ready.remove()
    assert not file.exists()


def test_commands_reach_the_first_listener_by_an_address_of_this_machine(tmp_path: Path) -> None:
    everywhere = configured(tmp_path, "listeners.mqtt.host=0.0.0.0")
    found = context_of(everywhere, {"mqtt": ("0.0.0.0", 1883)}, "secret")
    assert found == Context(mqtt="mqtt://127.0.0.1:1883", username="admin", password="secret", local=True)
    websocket = configured(tmp_path, "listeners.mqtt=null", "listeners.mqtt_ws.host=::")
    found = context_of(websocket, {"mqtt_ws": ("::", 8083)}, "secret")
    assert found == Context(mqtt="ws://[::1]:8083/mqtt", username="admin", password="secret", local=True)
    assert context_of(websocket, {"mqtt_ws": ("::", 1), "http": ("::1", 8080)}, "x").url == "http://[::1]:8080"
