"""HTTP/1.1: requests one behind the other, without waiting for answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from tests.judge import reference as said
from tests.judge.doors import PASSWORD, Held
from tests.judge.reference import Sent
from tests.judge.requests import Door, Message, Publish, PublishMany, Put, Receive, Request, Settle
from tests.judge.words import HTTP, Wire, named
from tests.support.http_client import Answer, RawClient, basic
from tests.support.http_server import RunningServer


@dataclass
class HttpConnection:
    server: RunningServer
    door: Door
    name: str
    prefix: str
    answers: dict[int, Wire] = field(default_factory=dict)
    got: dict[int, list[Held]] = field(default_factory=dict)
    is_ended: bool = False
    delivered: list[Sent] = field(default_factory=list)
    ends_on_refusal: bool = False
    settles_deliveries: bool = True
    has_headers: bool = True

    def __post_init__(self) -> None:
        self._client = RawClient(self.server.address)
        self._login = basic(self.door.principal, PASSWORD)["Authorization"]
        self._awaited: list[tuple[int, Request]] = []

    def fitting(self, request: Request) -> Request | None:
        if isinstance(request, Publish):
            return None if request.is_again else request._replace(partition=None, producer=None)
        return request if isinstance(request, PublishMany | Put | Receive | Settle) else None

    def as_stored(self, request: Request) -> Request:
        if isinstance(request, Put) and (producer := request.producer) is not None and producer.is_key:
            return request._replace(producer=producer._replace(id=f"{self.door.principal}/{producer.id}"))
        return request

    def encode(self, number: int, request: Request, held: Held | None) -> bytes:
        self._awaited.append((number, request))
        match request:
            case Put():
                return self._put(request)
            case Publish(topic, message, qos, retain):
                body = {**_json(message), "qos": qos, "retain": retain}
                return self.request("POST", f"topics/{self._quoted(topic)}/messages", body)
            case PublishMany(messages, qos, retain):
                several = [
                    {**_json(message), "topic": named(topic, self.prefix), "qos": qos, "retain": retain}
                    for topic, message in messages
                ]
                return self.request("POST", "publish", {"messages": several})
            case Receive(queue, group, most):
                body = {"group": group, "max": most, "encoding": "base64", "consumer": "judge"}
                return self.request("POST", f"queues/{self._quoted(queue)}/receive", body)
            case Settle(verb):
                assert held is not None
                body = {"receipts": [held.receipt]} | ({"delay": 0} if verb == "nack" else {})
                return self.request("POST", f"messages/{verb}", body)
        raise AssertionError(f"no such request over HTTP: {request}")

    def _put(self, request: Put) -> bytes:
        path = f"queues/{self._quoted(request.queue)}/messages"
        headers: list[tuple[str, str]] = []
        body: dict[str, object] = {"messages": [_json(message) for message in request.messages]}
        if request.form == "raw":
            message = request.messages[0]
            headers += [(f"Penstock-Header-{name}", value) for name, value in message.headers]
            headers += [] if message.key is None else [("Penstock-Key", message.key)]
            headers += [] if request.partition is None else [("Penstock-Partition", str(request.partition))]
        elif len(request.messages) == 1 and request.form == "json":
            body = _json(request.messages[0])
            body |= {} if request.partition is None else {"partition": request.partition}
        elif request.partition is not None:
            several = [_json(message) | {"partition": request.partition} for message in request.messages]
            body = {"messages": several}
        if (producer := request.producer) is not None:
            if producer.is_key:
                headers.append(("Idempotency-Key", producer.id))
            else:
                body["producer"] = {"id": producer.id, "epoch": producer.epoch, "sequence": producer.sequence}
        if request.form == "raw":
            return self.request("POST", path, request.messages[0].value, headers)
        return self.request("POST", path, body, headers)

    def _quoted(self, name: str) -> str:
        return quote(named(name, self.prefix), safe="")

    def request(self, method: str, path: str, body: object = None, headers: Sequence[tuple[str, str]] = ()) -> bytes:
        """Bytes as they are, anything else as JSON without spaces, as the broker's shortest ways want it."""
        kind, data = "application/octet-stream", body
        if not isinstance(data, bytes):
            kind, data = "application/json", b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        own = [("Host", "localhost"), ("Authorization", self._login), ("Content-Type", kind)]
        lines = [*own, ("Content-Length", str(len(data))), *headers]
        head = [f"{method} /api/v1/{path} HTTP/1.1", *(f"{name}: {value}" for name, value in lines)]
        return "\r\n".join([*head, "", ""]).encode() + data

    def releases(self) -> bytes:
        return b""

    def fence(self) -> bytes:
        return b""

    def write(self, data: bytes) -> None:
        self._client.send(data)

    def finish(self) -> None:
        awaited, self._awaited = self._awaited, []
        for number, request in awaited:
            answer = self._client.answer()
            self.answers[number] = self._wire(request, answer)
            if isinstance(request, Receive) and answer.status == 200:
                self.got[number] = _held(request, answer)

    def ask(self, *paths: str) -> list[Answer]:
        """For a judge: several at once."""
        self.write(b"".join([self.request("GET", path) for path in paths]))
        return self.answers_of(len(paths))

    def answers_of(self, count: int) -> list[Answer]:
        return [self._client.answer() for _ in range(count)]

    def drain(self) -> None:
        pass

    def _wire(self, request: Request, answer: Answer) -> Wire:
        if answer.content_type == "application/problem+json":
            return answer.status, answer.code
        if isinstance(request, Settle):
            return answer.status, said.OK if answer.status == 200 else said.STALE
        if isinstance(request, Put):
            return answer.status, said.OK, answer.json["accepted"], answer.json["duplicates"]
        return answer.status, said.OK

    def told(self, code: str, request: Request) -> Wire | None:
        if isinstance(request, Put) and code.startswith(said.OK):
            return (*HTTP[said.OK], len(request.messages), int(code.partition(" ")[2]))
        return HTTP[code]

    def close(self) -> None:
        self._client.close()


def _json(message: Message) -> dict[str, object]:
    found: dict[str, object] = {"text": message.value.decode()}
    if message.key is not None:
        found["key"] = message.key
    if message.headers:
        found["headers"] = [list(pair) for pair in message.headers]
    return found


def _held(request: Receive, answer: Answer) -> list[Held]:
    return [
        Held(
            request.queue,
            request.group,
            base64.b64decode(each.get("base64", "")),
            each["deliveries"],
            each["receipt"],
            each["id"],
        )
        for each in answer.json["messages"]
    ]
