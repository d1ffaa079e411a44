"""Both reactors, peers on real sockets or on a transport that is none, and a door with a protocol of its own: packets
of four bytes of length and then as many."""

from __future__ import annotations

import contextlib
import select
import socket
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from penstock.gateways.wire.reactor import Reactor, ReactorOptions
from penstock.gateways.wire.sockets import SocketReactor

HEAD_BYTES = 4
MakeReactor = Callable[[ReactorOptions], Reactor]


def compiled() -> MakeReactor | None:
    try:
        from penstock.gateways.wire.epoll import EpollReactor
    except ImportError:
        return None
    return EpollReactor


def makers() -> list[MakeReactor]:
    """The one in Python always, the compiled one where it is."""
    found = compiled()
    return [SocketReactor] if found is None else [SocketReactor, found]


def reactors() -> list[object]:
    """Parameters for a test."""
    return [pytest.param(make, id=getattr(make, "__name__", "")) for make in makers()]


def packet(body: bytes) -> bytes:
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def whole_packets(data: bytes) -> int:
    """How many bytes of it are whole packets."""
    at = 0
    while len(data) - at >= HEAD_BYTES:
        size = HEAD_BYTES + int.from_bytes(data[at : at + HEAD_BYTES], "big")
        if at + size > len(data):
            break
        at += size
    return at


class SocketPeer:
    """The other end of a connection of the reactor."""

    is_foreign = False

    def __init__(self, reactor: Reactor, received: bytes = b"", buffer_bytes: int = 0) -> None:
        self.sock, ours = socket.socketpair()
        if buffer_bytes:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        self.sock.setblocking(False)
        self.slot = reactor.add(ours.detach(), 7, received)
        self.generation = reactor.generation[self.slot]
        self.sent, self.received, self._waiting = bytearray(received), bytearray(), bytearray()
        self.is_ended = False
        """the reactor has closed its side"""

    def send(self, data: bytes) -> None:
        """What the socket does not take waits for push()."""
        self._waiting += data
        self.push()

    def push(self) -> None:
        try:
            size = self.sock.send(self._waiting) if self._waiting else 0
        except OSError:
            return
        self.sent += self._waiting[:size]
        del self._waiting[:size]

    def read(self) -> None:
        while not self.is_ended and self.sock.fileno() >= 0:
            try:
                data = self.sock.recv(1 << 16)
            except BlockingIOError:
                return
            except ConnectionResetError:
                data = b""
            self.received += data
            self.is_ended = not data

    def finish(self) -> None:
        """It sends no more, and still reads."""
        self._waiting.clear()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()


@dataclass
class FakeTransport:
    """For a connection that has no socket here."""

    received: bytearray = field(default_factory=bytearray)
    is_paused: bool = False
    is_closed: bool = False
    held_bytes: int = 0
    """said to be not sent yet"""
    fails: bool = False

    def write(self, data: bytes) -> None:
        if self.fails:
            raise OSError("the transport fails, as the test wants")
        self.received += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def get_write_buffer_size(self) -> int:
        return self.held_bytes


class ForeignPeer:
    is_foreign = True

    def __init__(self, reactor: Reactor) -> None:
        self.transport = FakeTransport()
        self._reactor = reactor
        self.slot = reactor.add_foreign(self.transport, 8)
        self.generation = reactor.generation[self.slot]
        self.sent, self._waiting = bytearray(), bytearray()
        self._is_finished = False

    @property
    def received(self) -> bytearray:
        return self.transport.received

    @property
    def is_ended(self) -> bool:
        return self.transport.is_closed

    def send(self, data: bytes) -> None:
        self._waiting += data
        self.push()

    def push(self) -> None:
        if self._waiting and not self.transport.is_paused and not self.transport.is_closed and not self._is_finished:
            self._reactor.feed(self.slot, self.generation, self._waiting)
            self.sent += self._waiting
            self._waiting = bytearray()

    def read(self) -> None:
        pass

    def finish(self) -> None:
        self._is_finished = True
        self._reactor.foreign_ended(self.slot, self.generation)

    close = finish


Peer = SocketPeer | ForeignPeer


@dataclass
class Seen:
    taken: bytearray = field(default_factory=bytearray)
    packets: list[bytes] = field(default_factory=list)
    lost: int = 0


@dataclass
class Door:
    """Takes whole packets, at most `limit` of a region, and has a longer one that has begun expected."""

    reactor: Reactor
    limit: int = 1 << 30
    seen: dict[tuple[int, int], Seen] = field(default_factory=dict)

    def of(self, peer: Peer) -> Seen:
        return self.seen.setdefault((peer.slot, peer.generation), Seen())

    def turn(self, takes: bool = True) -> bool:
        """Whether it brought anything. `takes`: if not, it ends as if the door had failed."""
        reactor = self.reactor
        if not reactor.turn():
            return False
        positions, again = array("i"), bytearray()
        for region, (slot, start, stop) in enumerate(zip(reactor.slots, reactor.starts, reactor.stops, strict=True)):
            assert reactor.generations[region] == reactor.generation[slot]
            position, is_full = self._take(slot, bytes(reactor.arena[start:stop]), takes)
            positions.append(start + position)
            again.append(is_full)
        if takes:
            reactor.taken(positions, again)
        for slot in reactor.lost:
            self._of(slot).lost += 1
        return True

    def _of(self, slot: int) -> Seen:
        return self.seen.setdefault((slot, self.reactor.generation[slot]), Seen())

    def _take(self, slot: int, data: bytes, takes: bool) -> tuple[int, bool]:
        at, seen = 0, self._of(slot)
        assert not seen.lost, "bytes behind the end"
        for count in range(self.limit + 1):
            head = data[at : at + HEAD_BYTES]
            size = HEAD_BYTES + int.from_bytes(head, "big")
            if len(head) < HEAD_BYTES or at + size > len(data):
                if takes and len(head) == HEAD_BYTES:
                    self.reactor.expect(slot, self.reactor.generation[slot], size)
                break
            if count == self.limit:
                return at, True
            if takes:
                seen.packets.append(data[at + HEAD_BYTES : at + size])
                seen.taken += data[at : at + size]
            at += size
        return at, False

    def settle(self) -> None:
        """Turns until there is nothing to do."""
        for _ in range(10_000):
            if not is_ready(self.reactor):
                return
            self.turn()
        raise AssertionError("the reactor never comes to rest")


def is_ready(reactor: Reactor) -> bool:
    """Whether a loop that watches it would call it."""
    poll = select.poll()
    poll.register(reactor.fileno(), select.POLLIN)
    return bool(poll.poll(0))
