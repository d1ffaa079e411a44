"""The client for threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.support.loop import run
from tests.support.scripted_server import Peer, Script, scripted

from penstock.client.errors import ConnectionLost
from penstock.client.mqtt.client import MqttClient
from penstock.client.mqtt.options import MqttOptions
from penstock.codecs.mqtt.packets import Disconnect, PubAck, Publish, SubAck, Subscribe, UnsubAck, Unsubscribe
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import Closed

OPTIONS = MqttOptions(keep_alive_s=0, reconnect=None)


def against(work: Callable[[MqttOptions], None], script: Script, options: MqttOptions = OPTIONS) -> None:
    async def main() -> None:
        async with scripted(script) as port:
            await asyncio.to_thread(work, replace(options, port=port))

    run(main())


@contextmanager
def closing_soon(client: MqttClient) -> Iterator[None]:
    """Closed by another thread when the block waits."""
    closer = threading.Timer(0.05, client.close)
    closer.start()
    yield
    closer.join()


def test_a_thread_publishes_subscribes_and_receives() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        asked = await peer.expect(Subscribe)
        peer.send(SubAck(asked.packet_id, (ReasonCode.GRANTED_QOS_1,)))
        published = await peer.expect(Publish)
        peer.send(PubAck(published.packet_id), Publish("t", published.payload, 1, packet_id=9))
        assert (await peer.expect(PubAck)).packet_id == 9
        dropped = await peer.expect(Unsubscribe)
        peer.send(UnsubAck(dropped.packet_id, (ReasonCode.SUCCESS,)))
        await peer.expect(Disconnect)

    def work(options: MqttOptions) -> None:
        with MqttClient(options) as client:
            assert client.is_connected
            assert client.subscribe("t", qos=1) == (ReasonCode.GRANTED_QOS_1,)
            assert client.publish("t", b"x", qos=1) is ReasonCode.SUCCESS
            message = client.receive(timeout_s=5)
            assert message.payload == b"x"
            client.ack(message)
            client.unsubscribe("t")
        with pytest.raises(Closed):
            client.publish("t")
        client.close()

    against(work, script, replace(OPTIONS, manual_ack=True))


def test_waiting_ends_after_its_time_and_with_the_client() -> None:
    async def script(peer: Peer) -> None:
        await peer.accept()
        peer.send(Publish("t", b"x"))
        await peer.expect(Disconnect)

    def work(options: MqttOptions) -> None:
        with MqttClient(options) as client:
            assert client.receive().payload == b"x"
            with pytest.raises(TimeoutError):
                client.receive(timeout_s=0.01)
            with closing_soon(client):
                assert list(client.messages()) == []

    against(work, script)


def test_a_client_that_does_not_get_through_leaves_no_thread() -> None:
    async def script(peer: Peer) -> None:
        return

    def work(options: MqttOptions) -> None:
        client = MqttClient(options)
        with pytest.raises(ConnectionLost):
            client.connect()
        assert "penstock-client" not in {thread.name for thread in threading.enumerate()}
        with pytest.raises(Closed):
            client.connect()

    against(work, script)
