"""The PROXY protocol, versions 1 and 2: a load balancer says before all else whose connection it passes on.

Only bytes of the header are read, never one behind it: what follows is read by whoever comes next, TLS included."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
from collections.abc import Callable
from typing import cast

from penstock.core.ports import Buffer
from penstock.gateways.wire.listener import Inner
from penstock.gateways.wire.reactor import Address
from penstock.gateways.wire.secure import ShakeHands
from penstock.gateways.wire.wrapped import WrappedTransport

logger = logging.getLogger("penstock.gateways.wire.proxy")

SIGNATURE_2 = b"\r\n\r\n\0\r\nQUIT\n"
SIGNATURE_1 = b"PROXY "
MAX_BYTES_1 = 107
"""as the specification has it"""
# The addresses take 216 at most. The rest are facts about TLS, the host asked for and the like: nobody looks at them.
MAX_BYTES_2 = 2048
_FIXED_BYTES_2 = 16
_LOCAL, _PROXY = 0x20, 0x21
_UNSPECIFIED, _TCP_4, _TCP_6, _UNIX = 0x00, 0x11, 0x21, 0x31


class BadHeader(Exception):
    """Bytes that are no header of the PROXY protocol. The connection is closed; it never leaves this module."""


class Header:
    """Feed it as many bytes as it needs, until it needs none: then `address` is the announced one, or None if there is
    none and the connection's own counts."""

    def __init__(self) -> None:
        self.address: Address | None = None
        self._data = bytearray()

    def need_bytes(self) -> int:
        """How many bytes there are at least to come."""
        size = len(self._data)
        if size < len(SIGNATURE_2):
            return len(SIGNATURE_2) - size
        if self._data.startswith(SIGNATURE_2):
            return (_FIXED_BYTES_2 if size < _FIXED_BYTES_2 else self._size_2()) - size
        # A line ends with CR LF, and its length is not known.
        return 0 if self._data.endswith(b"\r\n") else 1 if self._data.endswith(b"\r") else 2

    def receive(self, data: Buffer) -> None:
        """BadHeader as soon as it can be none."""
        self._data += data
        if self._data.startswith(SIGNATURE_2):
            if len(self._data) == _FIXED_BYTES_2:
                self._check_2()
            if len(self._data) >= _FIXED_BYTES_2 and not self.need_bytes():
                self.address = self._address_2()
        elif SIGNATURE_2.startswith(self._data):
            return
        elif not (SIGNATURE_1.startswith(self._data) or self._data.startswith(SIGNATURE_1)):
            raise BadHeader("it does not begin like a header")
        elif len(self._data) > MAX_BYTES_1 or (self._data[-1:] == b"\n") != (self._data[-2:] == b"\r\n"):
            raise BadHeader("its line is too long or has no end")
        elif not self.need_bytes():
            self.address = _address_1(bytes(self._data[:-2]))

    def _size_2(self) -> int:
        return _FIXED_BYTES_2 + int.from_bytes(self._data[14:16], "big")

    def _check_2(self) -> None:
        if self._data[12] not in (_LOCAL, _PROXY):
            raise BadHeader(f"it is of version and command 0x{self._data[12]:02X}")
        if self._size_2() > MAX_BYTES_2:
            raise BadHeader(f"it is {self._size_2()} bytes long")

    def _address_2(self) -> Address | None:
        command, family, body = self._data[12], self._data[13], self._data[_FIXED_BYTES_2:]
        if command == _LOCAL or family in (_UNSPECIFIED, _UNIX):
            return None
        if family == _TCP_4 and len(body) >= 12:
            return str(ipaddress.IPv4Address(bytes(body[:4]))), int.from_bytes(body[8:10], "big")
        if family == _TCP_6 and len(body) >= 36:
            return str(ipaddress.IPv6Address(bytes(body[:16]))), int.from_bytes(body[32:34], "big"), 0, 0
        raise BadHeader(f"it has {len(body)} bytes of address family 0x{family:02X}")


def _address_1(line: bytes) -> Address | None:
    parts = line.decode("ascii", "replace").split(" ")
    if parts[1] == "UNKNOWN":
        return None
    try:
        _, family, source, destination, source_port, destination_port = parts
        kind = {"TCP4": ipaddress.IPv4Address, "TCP6": ipaddress.IPv6Address}[family]
        host, _ = str(kind(source)), kind(destination)
        port, _ = _port(source_port), _port(destination_port)
    except (ValueError, KeyError) as error:
        raise BadHeader("its line has no two addresses and ports of TCP4 or TCP6") from error
    return (host, port) if family == "TCP4" else (host, port, 0, 0)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 65_535):
        raise ValueError(text)
    return int(text)


def log_refusal(peer: str, reason: str) -> None:
    logger.debug("proxy header refused peer=%s reason=%s", peer, reason)


class ProxyProtocol(asyncio.BufferedProtocol):
    """One connection of a load balancer. When the header is there, the protocol that `make_inner` makes takes over,
    behind TLS if hands are to be shaken, on a transport whose `peername` is the announced address. Who sends anything
    else, or nothing in time, is cut off. Listen with it without TLS: the header comes first, in clear."""

    def __init__(
        self,
        make_inner: Callable[[], Inner],
        deadline_s: float = 5.0,
        shake_hands: ShakeHands | None = None,
        refused: Callable[[str, str], None] = log_refusal,
        may_connect: Callable[[str], bool] | None = None,
    ) -> None:
        """`may_connect` is asked with the announced address, before anything else is done for it. A load balancer that
        speaks for itself announces none, and is not asked for."""
        self._make_inner, self._deadline_s, self._refused = make_inner, deadline_s, refused
        self._may_connect = may_connect
        self._shake_hands = shake_hands
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle
        self._header = Header()
        self._buffer = bytearray(MAX_BYTES_2)
        self._encrypting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._timer = asyncio.get_running_loop().call_later(self._deadline_s, self._refuse, "no header in time")

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[: self._header.need_bytes()]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._header.receive(memoryview(self._buffer)[:nbytes])
        except BadHeader as error:
            self._refuse(str(error))
            return
        if not self._header.need_bytes():
            self._timer.cancel()
            address = self._header.address
            if self._may_connect is not None and address is not None and not self._may_connect(address[0]):
                self._refuse("too many connections from this address", address[0])
                return
            self._hand_over()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()

    def _refuse(self, reason: str, announced: str = "") -> None:
        peer = self._transport.get_extra_info("peername")
        self._refused(announced or (str(peer[0]) if peer else ""), reason)
        self._transport.abort()

    def _hand_over(self) -> None:
        # A transport that reads goes on as it began, into a buffer or not, whatever its new protocol is.
        self._transport.pause_reading()
        if self._shake_hands is not None:
            self._encrypting = asyncio.get_running_loop().create_task(self._encrypt(self._shake_hands))
            return
        inner = self._make_inner()
        self._transport.set_protocol(inner)
        inner.connection_made(AnnouncedTransport(self._transport, self._header.address))
        self._transport.resume_reading()

    async def _encrypt(self, shake_hands: ShakeHands) -> None:
        """Nothing behind the header was read: the socket is as if it had just connected."""
        try:
            descriptor = os.dup(self._transport.get_extra_info("socket").fileno())
            self._transport.abort()
            await shake_hands(socket.socket(fileno=descriptor), self._make_inner, self._header.address)
        except OSError as error:
            self._refuse(f"no TLS: {error}")


class AnnouncedTransport(WrappedTransport):
    """The transport of the load balancer, with the address of whom it speaks for."""

    __slots__ = ("_address",)

    def __init__(self, below: asyncio.Transport, address: Address | None) -> None:
        super().__init__(below)
        self._address = address

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "peername" and self._address is not None:
            return self._address
        return super().get_extra_info(name, default)
