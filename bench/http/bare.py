"""What Penstock over HTTP is held against: a Starlette handler in uvicorn, which parses what Penstock parses, stores
nothing and answers as much. Started as a program of its own: `python bare.py PORT`."""

from __future__ import annotations

import sys

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

MESSAGES = 100
_TEXT = "x" * 256
_JSON = "application/json"


class Message(msgspec.Struct):
    text: str


class Body(msgspec.Struct):
    """One message or many."""

    text: str | None = None
    messages: list[Message] | None = None


class Receipts(msgspec.Struct):
    receipts: list[str]


class Accepted(msgspec.Struct):
    accepted: int


def _message(number: int) -> dict[str, str | int]:
    """With ids as long as those of a queue with some hundred thousand messages."""
    where = f"bench:5:3:{100_000 + number}"
    facts: dict[str, str | int] = {"id": where, "queue": "bench", "partition": 3, "offset": 100_000 + number}
    return facts | {
        "timestamp_ms": 1_790_000_000_000,
        "text": _TEXT,
        "receipt": f"{where}~1~{0:08x}-7",
        "deliveries": 1,
    }


def _settled(number: int) -> dict[str, str | int]:
    return {"receipt": f"bench:5:3:{100_000 + number}~1~{0:08x}-7", "status": "settled"}


_RECEIVED = msgspec.json.encode({"messages": [_message(number) for number in range(MESSAGES)]})
_ACKED = msgspec.json.encode(
    {"settled": MESSAGES, "stale": 0, "results": [_settled(number) for number in range(MESSAGES)]}
)


async def publish(request: Request) -> Response:
    body = msgspec.json.decode(await request.body(), type=Body)
    count = 1 if body.messages is None else len(body.messages)
    return Response(msgspec.json.encode(Accepted(count)), media_type=_JSON)


async def receive(request: Request) -> Response:
    msgspec.json.decode(await request.body())
    return Response(_RECEIVED, media_type=_JSON)


async def ack(request: Request) -> Response:
    msgspec.json.decode(await request.body(), type=Receipts)
    return Response(_ACKED, media_type=_JSON)


app = Starlette(
    routes=[
        Route("/api/v1/queues/{queue}/messages", publish, methods=["POST"]),
        Route("/api/v1/queues/{queue}/receive", receive, methods=["POST"]),
        Route("/api/v1/messages/ack", ack, methods=["POST"]),
    ]
)


if __name__ == "__main__":
    uvicorn.run(
        app, host="127.0.0.1", port=int(sys.argv[1]), http="httptools", loop="asyncio", access_log=False, lifespan="off"
    )
