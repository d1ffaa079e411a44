"""A server of HTTP that answers what a test says, request after request: for clients whose server misbehaves."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from penstock.client.http.options import Retries

FAST = Retries(attempts=3, first_delay_s=0.001, longest_delay_s=0.002)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is written for one request, and whether the connection ends then."""

    data: bytes
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass(slots=True)
class ScriptedHttp:
    url: str
    requests: list[Request] = field(default_factory=list)
    connections: int = 0


def answer(status: int, said: object, *headers: str, ends: bool = False) -> Answer:
    body = json.dumps(said).encode()
    kind = "application/problem+json" if status >= 400 else "application/json"
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers, "", ""]
    return Answer("\r\n".join(lines).encode() + body, ends)


def problem(status: int, code: str, detail: str = "no", *headers: str, **more: object) -> Answer:
    return answer(status, {"status": status, "code": code, "detail": detail, "instance": "r1", **more}, *headers)


@asynccontextmanager
async def scripted_http(answers: Sequence[Answer], tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedHttp]:
    """Whatever connection they come by, requests get the answers in this order; the last one again and again."""
    left, seen, tasks = list(answers), ScriptedHttp(""), set[asyncio.Task[None]]()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(serve(reader, writer)))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        number = seen.connections
        try:
            while (request := await _read(reader, number)) is not None:
                seen.requests.append(request)
                said = left.pop(0) if len(left) > 1 else left[0]
                writer.write(said.data)
                await writer.drain()
                if said.ends:
                    return
        except ConnectionError:
            return
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    scheme = "http" if tls is None else "https"
    seen.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield seen
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader, connection: int) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(line, headers, body, connection)
