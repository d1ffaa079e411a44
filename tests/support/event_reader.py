"""Server-sent events over a blocking socket: as much as is asked for and no more."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    kind: str
    """`message` unless it was named"""
    id: str
    """the last that was said, as browsers keep it"""
    data: str

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class EventReader:
    def __init__(
        self,
        address: tuple[str, int],
        path: str,
        headers: Mapping[str, str],
        deadline_s: float,
        receive_buffer_bytes: int | None = None,
    ) -> None:
        """`receive_buffer_bytes` makes a reader that is soon behind when it does not read."""
        self._socket = socket.socket()
        if receive_buffer_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.settimeout(deadline_s)
        self._socket.connect(address)
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {address[0]}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._response = HTTPResponse(self._socket)
        self._response.begin()
        self.status = self._response.status
        self.headers = {name.lower(): value for name, value in self._response.getheaders()}
        self.last_id = ""
        self.comments = 0
        self.retry_ms: int | None = None

    def next(self) -> ServerSentEvent | None:
        """The event that comes next; None when the stream has ended."""
        kind, data = "message", list[str]()
        while line := self._response.readline():
            text = line.decode().rstrip("\n")
            name, _, value = text.partition(": ")
            if not text and data:
                return ServerSentEvent(kind, self.last_id, "\n".join(data))
            if text.startswith(":"):
                self.comments += 1
            elif name == "id":
                self.last_id = value
            elif name == "retry":
                self.retry_ms = int(value)
            elif name == "event":
                kind = value
            elif name == "data":
                data.append(value)
        return None

    def take(self, count: int) -> list[ServerSentEvent]:
        found = [self.next() for _ in range(count)]
        return [event for event in found if event is not None]

    def rest(self) -> bytes:
        """Of an answer that is no stream."""
        return self._response.read()

    def close(self) -> None:
        self._response.close()
        self._socket.close()
