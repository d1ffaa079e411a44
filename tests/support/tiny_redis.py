"""A server with as much of Redis' streams as the load generator needs, for its tests."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Streams:
    """Answers byte by byte if it is slow. `refuses` is the number of an XADD that is answered with an error, counted
    from 1."""

    is_slow: bool = False
    refuses: int = 0
    entries: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    added: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def answer(self, words: list[bytes], is_gone: Callable[[], bool] = lambda: False) -> bytes:
        """Nothing to a client that is gone before there is something to read."""
        with self.changed:
            if words[0] == b"XREADGROUP":
                return self._read(words, is_gone)
            calls = {b"XADD": self._add, b"XACK": self._ack, b"XLEN": self._length}
            return calls.get(words[0], self._done)(words)

    def _done(self, words: list[bytes]) -> bytes:
        if words[0] == b"FLUSHALL":
            self.entries.clear()
            self.taken.clear()
        return b"+OK\r\n"

    def _length(self, words: list[bytes]) -> bytes:
        return b":%d\r\n" % len(self.entries.get(words[1].decode(), []))

    def _add(self, words: list[bytes]) -> bytes:
        self.added += 1
        if self.added == self.refuses:
            return b"-ERR no more\r\n"
        number = f"1700000000000-{self.added}"
        self.entries.setdefault(words[1].decode(), []).append((number, words[4]))
        self.changed.notify_all()
        return bulk(number.encode())

    def _read(self, words: list[bytes], is_gone: Callable[[], bool]) -> bytes:
        """XREADGROUP GROUP group name COUNT count BLOCK 0 STREAMS name… >…"""
        names = [word.decode() for word in words[9 : 9 + (len(words) - 9) // 2]]
        while not (found := [name for name in names if self._left(name)]):
            self.changed.wait(0.01)
            if is_gone():
                return b""
        out = b"*%d\r\n" % len(found)
        for name in found:
            entries = self._left(name)[: int(words[5])]
            self.taken[name] = self.taken.get(name, 0) + len(entries)
            out += b"*2\r\n" + bulk(name.encode()) + b"*%d\r\n" % len(entries)
            out += b"".join(b"*2\r\n" + bulk(at.encode()) + b"*2\r\n" + bulk(b"d") + bulk(data) for at, data in entries)
        return out

    def _left(self, name: str) -> list[tuple[str, bytes]]:
        return self.entries.get(name, [])[self.taken.get(name, 0) :]

    def _ack(self, words: list[bytes]) -> bytes:
        self.acknowledged += len(words) - 3
        return b":%d\r\n" % (len(words) - 3)


def bulk(data: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(data), data)


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        streams = self.server.streams
        while line := self.rfile.readline():
            words = []
            for _ in range(int(line[1:])):
                size = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(size + 2)[:-2])
            answer = streams.answer(words, self._is_gone)
            step = 1 if streams.is_slow else len(answer)
            for at in range(0, len(answer), step):
                self.wfile.write(answer[at : at + step])

    def _is_gone(self) -> bool:
        try:
            return not len(self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False
        except ConnectionError:
            return True


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, block_on_close = True, True, False
    streams: Streams

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that is gone is none."""


@contextmanager
def tiny_redis(streams: Streams) -> Iterator[tuple[str, int]]:
    """Its address."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.streams = streams
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield "127.0.0.1", server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
