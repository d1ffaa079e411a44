"""The API of a server under load, a request at a time: to set a round up and to count what came of it."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import TypeVar

import msgspec

from bench.mqtt.link import PeerFailed
from penstock.codecs.http.administration import Purged, Queues, QueueSummary
from penstock.gateways.http.admin.queues import QueueStats

_TIMEOUT_S = 60.0
_MESSAGES_A_REQUEST = 1000
VALUE = "x" * 256
Answer = TypeVar("Answer")


class Accepted(msgspec.Struct):
    accepted: int


class Api:
    """A connection a call. PeerFailed for every answer that is not 2xx."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._connection = HTTPConnection(*address, timeout=_TIMEOUT_S)

    def close(self) -> None:
        self._connection.close()

    def queues(self) -> list[QueueSummary]:
        found: list[QueueSummary] = []
        path = "/queues?limit=1000"
        while True:
            part = self._call("GET", path, b"", Queues)
            found += part.items
            if part.next is None:
                return found
            path = f"/queues?limit=1000&cursor={part.next}"

    def stats(self, queue: str) -> QueueStats:
        return self._call("GET", f"/queues/{queue}/stats", b"", QueueStats)

    def purge(self, queue: str) -> int:
        return self._call("POST", f"/queues/{queue}/purge", b"", Purged).purged

    def fill(self, queue: str, messages: int) -> None:
        for first in range(0, messages, _MESSAGES_A_REQUEST):
            self.publish(queue, min(_MESSAGES_A_REQUEST, messages - first))

    def publish(self, queue: str, messages: int) -> None:
        said = self._call("POST", f"/queues/{queue}/messages", body(messages), Accepted)
        if said.accepted != messages:
            raise PeerFailed(f"{said.accepted} messages of {messages} were accepted")

    def _call(self, method: str, path: str, body: bytes, kind: type[Answer]) -> Answer:
        self._connection.request(method, f"/api/v1{path}", body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        said = answer.read()
        # The next call may be minutes away, and a server ends connections that are idle.
        self._connection.close()
        if not 200 <= answer.status < 300:
            raise PeerFailed(f"{method} {path} was answered with {answer.status}: {said[:300]!r}")
        return msgspec.json.decode(said, type=kind)


def body(messages: int) -> bytes:
    """A request that publishes so many."""
    one = {"text": VALUE}
    return msgspec.json.encode(one if messages == 1 else {"messages": [one] * messages})
