"""A client of AMQP 0.9.1 that says what it is told to, right or wrong, and tells what came back: on the codec, over a
blocking socket."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.codecs.amqp091.decode import Decoder, Frame, Need, decode_header, decode_method
from penstock.codecs.amqp091.encode import HEARTBEAT, content_frames, method_frame
from penstock.codecs.amqp091.kinds import PROTOCOL_HEADER, FrameType
from penstock.codecs.amqp091.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from penstock.codecs.amqp091.wire import table_of

DEADLINE_S = 20.0
FRAME_MAX = 131_072
CAPABILITIES: Mapping[str, object] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class Said(NamedTuple):
    """By the server: a method, with its content if it has one."""

    channel: int
    method: Method
    properties: bytes = b""
    body: bytes = b""


class Gone(Exception):
    """The server has closed the socket."""


class Silent(Exception):
    """What was waited for has not come."""


class Refused(Exception):
    """The server has said connection.close."""


@dataclass
class Content:
    method: Method
    size: int = -1
    properties: bytes = b""
    body: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True)
class Login:
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    mechanism: str = "PLAIN"
    response: bytes | None = None
    capabilities: Mapping[str, object] = field(default_factory=lambda: CAPABILITIES)
    channel_max: int = 0
    frame_max: int = FRAME_MAX
    heartbeat: int = 0

    def start_ok(self) -> ConnectionStartOk:
        response = self.response
        if response is None:
            response = f"\0{self.user}\0{self.password}".encode()
        properties = table_of({"product": "differential", "capabilities": self.capabilities})
        return ConnectionStartOk(properties, self.mechanism, response, "en_US")


GUEST = Login()


class Peer:
    """Not logged in yet. `answers_closes` says close-ok by itself; what came is told all the same."""

    def __init__(self, address: tuple[str, int], *, answers_closes: bool = True) -> None:
        self.socket = socket.create_connection(address, DEADLINE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers_closes = answers_closes
        self.is_gone = False
        self.heartbeats = 0
        self.versions: list[bytes] = []
        """protocol headers: the answer to a wrong one"""
        self._decoder = Decoder(1 << 24)
        self._contents: dict[int, Content] = {}

    @classmethod
    def logged_in(cls, address: tuple[str, int], login: Login = GUEST) -> Peer:
        peer = cls(address)
        peer.log_in(login)
        return peer

    def log_in(self, login: Login = GUEST) -> ConnectionTune:
        """Refused, with what came, if the server does not let it in."""
        tune = self.tuned(login)
        self.send(0, ConnectionTuneOk(login.channel_max or tune.channel_max, login.frame_max, login.heartbeat))
        came = self.call(0, ConnectionOpen(login.vhost))
        if isinstance(came[-1].method, ConnectionClose):
            raise Refused(came)
        return tune

    def tuned(self, login: Login = GUEST) -> ConnectionTune:
        """Up to connection.tune."""
        self.raw(PROTOCOL_HEADER)
        self.wait(lambda said: isinstance(said.method, ConnectionStart))
        self.send(0, login.start_ok())
        came = self.wait(lambda said: isinstance(said.method, ConnectionTune))
        if not isinstance(tune := came[-1].method, ConnectionTune):
            raise Refused(came)
        return tune

    def open(self, channel: int) -> None:
        self.call(channel, ChannelOpen())

    def raw(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            self.is_gone = True

    def send(self, channel: int, method: Method, properties: bytes = b"\0\0", body: bytes = b"") -> None:
        if method.has_content:
            self.raw(content_frames(channel, method, properties, body, FRAME_MAX))
        else:
            self.raw(method_frame(channel, method))

    def beat(self) -> None:
        self.raw(HEARTBEAT)

    def call(self, channel: int, method: Method) -> list[Said]:
        """All that came until it was answered, or its channel or the connection was closed: the answer is the last."""
        self.send(channel, method)
        return self.wait(lambda said: is_answer(said, channel, method))

    def wait(self, is_it: Callable[[Said], bool], seconds: float = DEADLINE_S) -> list[Said]:
        came: list[Said] = []
        for said in self.coming(seconds):
            came.append(said)
            if is_it(said) or isinstance(said.method, ConnectionClose):
                return came
        raise Gone(came) if self.is_gone else Silent(came)

    def coming(self, seconds: float) -> Iterator[Said]:
        """What comes within this time, and no more when the socket is closed."""
        end = time.monotonic() + seconds
        while True:
            yield from self._complete()
            left = end - time.monotonic()
            if self.is_gone or left <= 0:
                return
            self._read(left)

    def close(self) -> None:
        self.socket.close()
        self.is_gone = True

    def leave(self) -> None:
        if not self.is_gone:
            with suppress(Gone, Silent):
                self.call(0, ConnectionClose(200, "bye"))
        self.close()

    def _read(self, seconds: float) -> None:
        self.socket.settimeout(max(seconds, 0.0001))
        try:
            data = self.socket.recv(1 << 18)
        except TimeoutError:
            return
        except OSError:
            data = b""
        if not data:
            self.is_gone = True
        if data.startswith(b"AMQP"):
            self.versions.append(data[:8])
            data = data[8:]
        self._decoder.receive(data)

    def _complete(self) -> Iterator[Said]:
        while not isinstance(frame := self._decoder.next_frame(), Need):
            if frame.type is FrameType.HEARTBEAT:
                self.heartbeats += 1
                continue
            if (said := self._taken(frame)) is not None:
                self._answer(said)
                yield said

    def _taken(self, frame: Frame) -> Said | None:
        if frame.type is FrameType.METHOD:
            method = decode_method(frame.payload, frame.channel)
            if not method.has_content:
                return Said(frame.channel, method)
            self._contents[frame.channel] = Content(method)
            return None
        content = self._contents[frame.channel]
        if frame.type is FrameType.HEADER:
            header = decode_header(frame.payload, frame.channel)
            content.size, content.properties = header.body_bytes, header.properties
        else:
            content.body += frame.payload
        if len(content.body) < content.size:
            return None
        del self._contents[frame.channel]
        return Said(frame.channel, content.method, content.properties, bytes(content.body))

    def _answer(self, said: Said) -> None:
        if not self.answers_closes:
            return
        if isinstance(said.method, ChannelClose):
            self.send(said.channel, ChannelCloseOk())
        elif isinstance(said.method, ConnectionClose):
            self.send(0, ConnectionCloseOk())


def is_answer(said: Said, channel: int, method: Method) -> bool:
    if isinstance(said.method, ConnectionClose):
        return True
    return said.channel == channel and (said.method.name in method.replies or isinstance(said.method, ChannelClose))
