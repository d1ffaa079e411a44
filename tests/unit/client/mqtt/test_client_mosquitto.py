"""The client against a server that is not ours: TCP, TLS, WebSocket, and a restart in between."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from tests.support import servers
from tests.support.loop import run

from penstock.client.errors import ConnectionLost
from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.errors import MqttRefused
from penstock.client.mqtt.options import MqttOptions, Reconnect
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Will
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode

pytestmark = pytest.mark.skipif(servers.mosquitto_command() is None, reason=servers.INSTALL_HINT)
both_versions = pytest.mark.parametrize("version", list(Version), ids=str)


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with servers.mosquitto(tmp_path) as server:
        yield server.port


async def echo(options: MqttOptions, count: int = 50) -> None:
    """Messages of each QoS come back to the client that published them, in order."""
    async with asyncio.timeout(20), AsyncMqttClient(options) as client:
        await client.subscribe("echo/#", qos=2)
        for qos in (0, 1, 2):
            for number in range(count):
                await client.publish(f"echo/{qos}", b"%d" % number, qos=qos)
            received = [await client.receive() for _ in range(count)]
            assert [int(message.payload) for message in received] == list(range(count))
            assert {(message.topic, message.qos) for message in received} == {(f"echo/{qos}", qos)}


@both_versions
def test_messages_of_every_qos_come_back(port: int, version: Version) -> None:
    run(echo(MqttOptions(port=port, version=version)))


def test_many_messages_at_a_time_all_arrive(port: int) -> None:
    async def main() -> None:
        options = MqttOptions(port=port)
        async with asyncio.timeout(20), AsyncMqttClient(options) as publisher, AsyncMqttClient(options) as subscriber:
            await subscriber.subscribe("many", qos=1)
            answers = [await publisher.begin_publish("many", b"%d" % number, qos=1) for number in range(2000)]
            await asyncio.gather(*answers)
            received = [int((await subscriber.receive()).payload) for _ in range(2000)]
            assert received == list(range(2000))

    run(main())


def test_properties_travel_with_a_message(port: int) -> None:
    sent = Properties(
        payload_format_indicator=1,
        message_expiry_interval_s=60,
        content_type="text/plain",
        response_topic="answers/1",
        correlation_data=b"\x00\x01",
        user_properties=(("a", "1"), ("a", "2")),
    )

    async def main() -> None:
        async with asyncio.timeout(10), AsyncMqttClient(MqttOptions(port=port)) as client:
            await client.subscribe("t")
            await client.publish("t", "text", properties=sent)
            message = await client.receive()
            assert message.properties == sent
            assert (message.header("a"), message.header("b")) == ("1", None)

    run(main())


def test_a_will_is_published_when_the_client_is_gone_without_a_word(port: int) -> None:
    async def main() -> None:
        options = MqttOptions(port=port)
        async with asyncio.timeout(10), AsyncMqttClient(options) as watcher:
            await watcher.subscribe("gone", qos=1)
            client = AsyncMqttClient(replace(options, reconnect=None, will=Will("gone", b"bye", 1)))
            await client.connect()
            assert client._connection is not None
            client._connection.abort()
            assert (await watcher.receive()).payload == b"bye"
            await client.close()

    run(main())


@both_versions
def test_a_session_collects_while_the_client_is_away(port: int, version: Version) -> None:
    options = MqttOptions(
        port=port,
        version=version,
        client_id="collector",
        clean_start=False,
        session_expiry_s=60 if version is Version.V5 else 0,
    )

    async def main() -> None:
        async with asyncio.timeout(10):
            async with AsyncMqttClient(options) as client:
                await client.subscribe("c", qos=1)
            async with AsyncMqttClient(MqttOptions(port=port)) as publisher:
                await publisher.publish("c", b"meanwhile", qos=1)
            client = AsyncMqttClient(options)
            assert (await client.connect()).session_present
            assert (await client.receive()).payload == b"meanwhile"
            await client.close()

    run(main())


@both_versions
def test_a_client_goes_on_when_its_server_was_restarted(tmp_path: Path, version: Version) -> None:
    async def main(port: int) -> None:
        options = MqttOptions(
            port=port,
            version=version,
            client_id="steady",
            session_expiry_s=60 if version is Version.V5 else 0,
            reconnect=Reconnect(0.02, 0.1),
        )
        async with asyncio.timeout(20), AsyncMqttClient(options) as client:
            await client.subscribe("r", qos=1)
            await client.publish("r", b"before", qos=1)
            assert (await client.receive()).payload == b"before"
            stop()
            publishing = asyncio.create_task(client.publish("r", b"after", qos=1))
            with servers.mosquitto(tmp_path, port=port):
                await publishing
                assert (await client.receive()).payload == b"after"

    first = servers.mosquitto(tmp_path)
    server = first.__enter__()

    def stop() -> None:
        first.__exit__(None, None, None)

    run(main(server.port))


def test_a_wrong_password_is_refused_and_the_right_one_is_not(tmp_path: Path) -> None:
    async def main(port: int) -> None:
        options = MqttOptions(port=port, username=servers.USERNAME, password=b"wrong")
        with pytest.raises(MqttRefused) as refused:
            await AsyncMqttClient(options).connect()
        assert refused.value.reason is ReasonCode.NOT_AUTHORIZED
        async with AsyncMqttClient(replace(options, password=servers.PASSWORD)) as client:
            await client.publish("t", b"x", qos=1)

    with servers.mosquitto(tmp_path, servers.Kind.LIMITED) as server:
        run(main(server.port))


@contextmanager
def mosquitto_with(directory: Path, *settings: str) -> Iterator[int]:
    """On one more listener, with these settings."""
    port = servers._free_port()
    original = servers._mosquitto_settings

    def extended(directory: Path, kind: servers.Kind, plain_port: int) -> list[str]:
        listener = [f"listener {port} 127.0.0.1", *settings]
        return [*original(directory, kind, plain_port), *listener]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, "_mosquitto_settings", extended)
        with servers.mosquitto(directory):
            # It opens its listeners one after the other.
            deadline_s = time.monotonic() + 10
            while not servers._accepts(port) and time.monotonic() < deadline_s:
                time.sleep(0.02)
            yield port


@both_versions
def test_a_websocket_carries_it_as_well(tmp_path: Path, version: Version) -> None:
    with mosquitto_with(tmp_path, "protocol websockets") as port:
        run(echo(MqttOptions(port=port, version=version, websocket_path="/mqtt")))


@pytest.mark.parametrize("websocket", [None, "/mqtt"], ids=["tcp", "websocket"])
def test_tls_is_trusted_only_when_its_authority_is(tmp_path: Path, websocket: str | None) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(tmp_path / "cert.pem", append=True)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    kind = ["protocol websockets"] if websocket else []
    with mosquitto_with(tmp_path, f"certfile {tmp_path}/cert.pem", f"keyfile {tmp_path}/key.pem", *kind) as port:
        options = MqttOptions(port=port, tls=trusting, tls_server_name="localhost", websocket_path=websocket)
        run(echo(options))
        with pytest.raises(ConnectionLost, match="is not trusted"):
            run(AsyncMqttClient(replace(options, tls=ssl.create_default_context())).connect())
        with pytest.raises(ConnectionLost, match="is not trusted"):
            run(AsyncMqttClient(replace(options, tls_server_name="other.example")).connect())
