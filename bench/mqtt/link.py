"""One connection of the generator: what could not be sent yet, and what was received of an unfinished packet."""

from __future__ import annotations

import socket

from penstock.core.ports import Buffer

# As much as a server's socket hands over at once on loopback.
ROOM_BYTES = 512 << 10
_ANSWER_TIMEOUT_S = 20.0
# Of Linux: take the port when connecting. To look for one that is free towards everybody takes milliseconds.
_IP_BIND_ADDRESS_NO_PORT = 24


class PeerFailed(Exception):
    """A server refused, closed a connection, or did not answer in time."""


class Room:
    """The receive buffer of all connections: a packet is looked at before the next receive."""

    def __init__(self) -> None:
        self.data = bytearray(ROOM_BYTES)
        self.view = memoryview(self.data)


class Link:
    """Blocking while it is set up, then without waiting. Sends at once: no Nagle."""

    __slots__ = ("_pending", "_tail", "name", "socket")

    def __init__(self, address: tuple[str, int], name: str, source: str = "") -> None:
        self.name = name
        self.socket = socket.socket()
        if source:
            self.socket.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
            self.socket.bind((source, 0))
        self.socket.settimeout(_ANSWER_TIMEOUT_S)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pending: Buffer = b""
        self._tail = b""

    def fileno(self) -> int:
        return self.socket.fileno()

    @property
    def is_blocked(self) -> bool:
        return bool(len(self._pending))

    def send(self, data: Buffer) -> bool:
        """Whether all of it went out; if not, the rest goes with flush(), and `data` must not change until then."""
        if len(self._pending):
            self._pending = bytes(self._pending) + bytes(data)
            return False
        try:
            sent = self.socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return True
        self._pending = memoryview(data)[sent:]
        return False

    def flush(self) -> bool:
        data, self._pending = self._pending, b""
        return self.send(data)

    def receive(self, room: Room) -> int:
        """So many bytes are in the room now, what was kept first."""
        kept = len(self._tail)
        room.data[:kept] = self._tail
        try:
            received = self.socket.recv_into(room.view[kept:])
        except BlockingIOError:
            return kept
        if not received:
            raise PeerFailed(f"the server closed {self.name}")
        return kept + received

    def exactly(self, count: int) -> bytes:
        """So many bytes, or PeerFailed or TimeoutError; what follows them stays in the socket. For setting up."""
        self.socket.settimeout(_ANSWER_TIMEOUT_S)
        data = b""
        while len(data) < count:
            if not (part := self.socket.recv(count - len(data))):
                raise PeerFailed(f"the server closed {self.name}")
            data += part
        return data

    def keep(self, room: Room, start: int, stop: int) -> None:
        """What receive() begins with next time."""
        self._tail = bytes(room.view[start:stop]) if stop > start else b""

    def close(self) -> None:
        self.socket.close()
