"""A server with as much MQTT as the load generator needs, for its tests: no session, no wildcard but '#'."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from penstock.codecs.mqtt.decode import Decoder, Need
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import (
    ConnAck,
    Connect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
)
from penstock.codecs.mqtt.reasons import ReasonCode


@dataclass(slots=True)
class _Client:
    socket: socket.socket
    decoder: Decoder = field(default_factory=Decoder)
    filter: str = ""
    qos: int = 0
    packet_id: int = 0

    def send(self, packet: Packet) -> None:
        """A client may be gone before it has its answers."""
        with suppress(ConnectionError):
            self.socket.sendall(encode(packet, self.decoder.version or Version.V5))


class TinyBroker:
    """Hands each message to all whose filter is its topic, or has '#' or '$queue' in it. Forgets the delivery with the
    number `forgets`, and sends the one with the number `repeats` twice, both counted from 1; answers the publish with
    the number `leaps` with another packet id."""

    def __init__(self, forgets: int = 0, repeats: int = 0, leaps: int = 0) -> None:
        self._forgets, self._repeats, self._deliveries = forgets, repeats, 0
        self._leaps, self._publishes = leaps, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._selector = selectors.DefaultSelector()
        self._clients: dict[socket.socket, _Client] = {}
        self._stop, self._stopped = socket.socketpair()
        self._selector.register(self._stopped, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._stopped:
                    return self._close()
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Client):
                    self._read(key.data)

    def stop(self) -> None:
        self._stop.send(b"x")

    def _accept(self) -> None:
        client = _Client(self._listener.accept()[0])
        self._clients[client.socket] = client
        self._selector.register(client.socket, selectors.EVENT_READ, client)

    def _read(self, client: _Client) -> None:
        try:
            data = client.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            self._selector.unregister(client.socket)
            del self._clients[client.socket]
            client.socket.close()
        client.decoder.receive(data)
        while (packet := client.decoder.next_packet()) is not Need.DATA:
            self._take(client, packet)

    def _take(self, client: _Client, packet: Packet) -> None:
        if isinstance(packet, Connect):
            client.send(ConnAck())
        elif isinstance(packet, Subscribe):
            [asked] = packet.subscriptions
            client.filter, client.qos = asked.filter, asked.qos
            client.send(SubAck(packet.packet_id, (ReasonCode(asked.qos),)))
        elif isinstance(packet, Publish):
            self._publishes += 1
            if packet.qos:
                client.send(PubAck(packet.packet_id + (self._publishes == self._leaps)))
            self._deliver(packet)
        elif isinstance(packet, PingReq):
            client.send(PingResp())

    def _deliver(self, packet: Publish) -> None:
        for client in self._clients.values():
            if client.filter == packet.topic or "#" in client.filter or client.filter.startswith("$queue"):
                self._deliveries += 1
                copies = 0 if self._deliveries == self._forgets else 1 + (self._deliveries == self._repeats)
                for _ in range(copies):
                    client.packet_id = client.packet_id % 65535 + 1
                    client.send(replace(packet, qos=client.qos, packet_id=client.packet_id if client.qos else 0))

    def _close(self) -> None:
        for client in self._clients.values():
            client.socket.close()
        for part in (self._listener, self._stop, self._stopped):
            part.close()
        self._selector.close()


@contextmanager
def tiny_broker(forgets: int = 0, repeats: int = 0, leaps: int = 0) -> Iterator[tuple[str, int]]:
    """Its address."""
    broker = TinyBroker(forgets, repeats, leaps)
    thread = threading.Thread(target=broker.serve)
    thread.start()
    try:
        yield broker.address
    finally:
        broker.stop()
        thread.join()
