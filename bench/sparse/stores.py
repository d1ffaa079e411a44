"""What a broker holds, so that what it acknowledged can be counted; emptied between rounds."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import IO, Protocol

from bench.http.api import Api
from bench.mqtt.link import PeerFailed
from bench.mqtt.peers import Broker

GROUP = "bench"
_TIMEOUT_S = 60.0


class Store(Protocol):
    topic: str
    """of a queue, without its number"""
    speech: str
    keeps: bool

    def prepare(self, queues: int, is_consumed: bool) -> None:
        """Before the first round."""
        ...

    def held(self) -> int: ...

    def empty(self) -> None: ...

    def close(self) -> None: ...


def store_of(broker: Broker) -> Store | None:
    """None for brokers that the generator cannot speak to."""
    if broker.name == "Redis":
        return RedisStore(broker.address)
    if broker.http is not None:
        return HttpStore(broker.http)
    return Nothing() if broker.name == "mosquitto" else None


def queue_name(number: int, prefix: str = "sparse-") -> str:
    """As the generator has it."""
    return f"{prefix}{number:05}"


def queues_text(count: int) -> str:
    return f"{count:,} {'queue' if count == 1 else 'queues'}"


class HttpStore:
    """Penstock, asked over HTTP. Queues come to be when they are written to."""

    topic, speech, keeps = "$queue/sparse-", "mqtt", True

    def __init__(self, address: tuple[str, int]) -> None:
        self._api = Api(address)

    def prepare(self, queues: int, is_consumed: bool) -> None:
        pass

    def held(self) -> int:
        return sum(queue.messages for queue in self._api.queues())

    def empty(self) -> None:
        for queue in self._api.queues():
            self._api.purge(queue.name)

    def close(self) -> None:
        self._api.close()


class RedisStore:
    """Streams; one that is consumed has its group before the first message."""

    topic, speech, keeps = "sparse-", "redis", True

    def __init__(self, address: tuple[str, int]) -> None:
        self._redis = Redis(address)
        self._queues, self._is_consumed = 0, False

    def prepare(self, queues: int, is_consumed: bool) -> None:
        self._queues, self._is_consumed = queues, is_consumed
        if is_consumed:
            for number in range(queues):
                self._redis.call("XGROUP", "CREATE", queue_name(number), GROUP, "$", "MKSTREAM")

    def held(self) -> int:
        return sum(int(self._redis.call("XLEN", queue_name(number))) for number in range(self._queues))

    def empty(self) -> None:
        self._redis.call("FLUSHALL", "SYNC")
        self.prepare(self._queues, self._is_consumed)

    def close(self) -> None:
        self._redis.close()


class Nothing:
    """A broker that keeps nothing."""

    topic, speech, keeps = "sparse-", "mqtt", False

    def prepare(self, queues: int, is_consumed: bool) -> None:
        pass

    def held(self) -> int:
        return 0

    def empty(self) -> None:
        pass

    def close(self) -> None:
        pass


class Redis:
    """One connection, a command at a time, for answers of one line."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, _TIMEOUT_S)
        self._answers: IO[bytes] = self._socket.makefile("rb")

    def call(self, *words: str) -> str:
        self._socket.sendall(_command(words))
        line = self._answers.readline().decode().rstrip()
        if not line or line[0] not in "+:":
            raise PeerFailed(f"Redis answered {' '.join(words)} with {line!r}")
        return line[1:]

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def _command(words: Sequence[str]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word.encode()) for word in words)
