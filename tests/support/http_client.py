"""A small blocking HTTP client, and a raw one for what no client would send."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_PATIENCE_S = 30.0
JSON = "application/json"
PROBLEM = "application/problem+json"

Address = tuple[str, int]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    """names in small letters"""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]

    @property
    def code(self) -> str:
        """Of a problem."""
        assert self.content_type == PROBLEM, self
        said = self.json
        assert said["status"] == self.status and said["type"] == f"urn:penstock:error:{said['code']}", said
        return str(said["code"])


class HttpClient:
    """One connection, opened again where the server has closed it. `api` stands before paths that do not begin with a
    slash."""

    def __init__(
        self, address: Address, headers: Mapping[str, str] | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        self.headers = dict(headers or {})
        self._connection: http.client.HTTPConnection
        if context is None:
            self._connection = http.client.HTTPConnection(*address, timeout=_PATIENCE_S)
        else:
            self._connection = http.client.HTTPSConnection(
                "localhost", address[1], timeout=_PATIENCE_S, context=context
            )

    def request(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """`body`: bytes as they are, anything else as JSON. In headers underscores stand for hyphens."""
        sent = self.headers | {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None and "content-type" not in {name.lower() for name in sent}:
            sent["Content-Type"] = JSON
        target = path if path.startswith("/") else f"/api/v1/{path}"
        self._connection.request(method, target, data, sent)
        with self._connection.getresponse() as response:
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())

    def status(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> int:
        """For answers that may never end: no more than the first line is looked at."""
        data = None if body is None else json.dumps(body).encode()
        self._connection.request(method, path, data, self.headers | dict(headers or {}))
        with self._connection.getresponse() as response:
            has_length = response.getheader("content-length") is not None or response.status == 204
            if has_length:
                response.read()
        if not has_length:
            self._connection.close()
        return response.status

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, None, headers)

    def post(self, path: str, body: object = None, **headers: str) -> Answer:
        return self.request("POST", path, body, headers)

    def put(self, path: str, body: object = None, **headers: str) -> Answer:
        return self.request("PUT", path, body, headers)

    def patch(self, path: str, body: object = None) -> Answer:
        return self.request("PATCH", path, body)

    def delete(self, path: str, body: object = None, **headers: str) -> Answer:
        return self.request("DELETE", path, body, headers)

    def publish(self, queue: str, *texts: str, **fields: object) -> list[dict[str, Any]]:
        """The results."""
        answer = self.post(f"queues/{queue}/messages", {"messages": [{"text": text, **fields} for text in texts]})
        assert answer.status == 200, answer
        results: list[dict[str, Any]] = answer.json["results"]
        return results

    def receive(self, queue: str, **wanted: object) -> list[dict[str, Any]]:
        answer = self.post(f"queues/{queue}/receive", wanted)
        assert answer.status == 200, answer
        messages: list[dict[str, Any]] = answer.json["messages"]
        return messages

    @property
    def socket(self) -> socket.socket:
        """Of the connection that is open."""
        found = self._connection.sock
        assert isinstance(found, socket.socket)
        return found

    def close(self) -> None:
        self._connection.close()


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


class RawClient:
    """Bytes as they are."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, _PATIENCE_S)
        self._reader = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def try_send(self, data: bytes) -> bool:
        """Whether the server still took it."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def head(self, method: str, path: str, *lines: str) -> None:
        """A request line and headers, Host among them."""
        host = f"Host: 127.0.0.1:{self._socket.getpeername()[1]}"
        self.send("\r\n".join((f"{method} {path} HTTP/1.1", host, *lines, "", "")).encode("latin-1"))

    def answer(self, *, is_bodiless: bool = False) -> Answer:
        """The next one. Interim ones, such as 100 Continue, are answers too."""
        line = self._reader.readline()
        assert line.startswith(b"HTTP/1.1 "), line
        status, headers = int(line.split()[1]), dict[str, str]()
        while (line := self._reader.readline()).strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        length = 0 if is_bodiless else int(headers.get("content-length", 0))
        return Answer(status, headers, self._reader.read(length))

    def line(self) -> bytes:
        """The next one, of a body that is chunked."""
        return self._reader.readline()

    def read(self, size: int) -> bytes:
        return self._reader.read(size)

    def is_ended(self) -> bool:
        """Waits until the server says something more, which is False, or ends the connection."""
        try:
            return not self._reader.read(1)
        except ConnectionError:
            return True

    def close(self) -> None:
        with suppress(OSError):
            self._reader.close()
        self._socket.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
