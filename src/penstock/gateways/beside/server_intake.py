"""The socket pair on which requests go to the server, in the process of a door: of many threads, answered in any
order."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future

import msgspec

from penstock.core.errors import Closed, ErrorCode
from penstock.core.ports import Buffer
from penstock.gateways.beside.frames import LENGTH, Reply, head_bytes
from penstock.gateways.beside.server_line import Refused

# Linux takes 1024 at a time.
_PIECES_AT_ONCE = 256


class ServerIntake:
    """Any thread. `listen` runs in one of its own until the server is gone."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile("rb")
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Reply]] = {}

    def next_id(self) -> int:
        return next(self._numbers)

    def send(self, head: msgspec.Struct, pieces: Sequence[Buffer] = ()) -> Future[Reply]:
        """Returns when all of it is on its way, which takes as long as the server lets others wait. A head without an
        id is not answered. Closed if the server is gone."""
        future: Future[Reply] = Future()
        if (id := getattr(head, "id", None)) is not None:
            self._waiting[id] = future
        try:
            with self._sending:
                self._send_all([head_bytes(head), *pieces])
        except OSError:
            raise Closed("the server does not answer: try again in a moment") from None
        return future

    def ask(self, head: msgspec.Struct, pieces: Sequence[Buffer] = ()) -> Reply:
        """Refused as the server says."""
        return answered(self.send(head, pieces))

    def listen(self) -> None:
        while len(length := self._answers.read(LENGTH.size)) == LENGTH.size:
            data = self._answers.read(LENGTH.unpack(length)[0])
            reply = msgspec.json.decode(data, type=Reply)
            if (future := self._waiting.pop(reply.id, None)) is not None:
                future.set_result(reply)

    def _send_all(self, pieces: Sequence[Buffer]) -> None:
        waiting = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
        at = 0
        while at < len(waiting):
            sent = self._connection.sendmsg(waiting[at : at + _PIECES_AT_ONCE])
            while at < len(waiting) and sent >= len(waiting[at]):
                sent -= len(waiting[at])
                at += 1
            if sent:
                waiting[at] = waiting[at][sent:]


def answered(future: Future[Reply]) -> Reply:
    """Waits as long as it takes: a server that is gone ends this process. Refused."""
    reply = future.result()
    if reply.error is not None:
        raise Refused(ErrorCode(reply.error), reply.reason)
    return reply
