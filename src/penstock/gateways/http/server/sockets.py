"""One WebSocket, as handlers see it: the request that opened it, then messages both ways."""

from __future__ import annotations

from penstock.gateways.http.server.exchange import Disconnected, Exchange
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import Headers, Reply
from penstock.gateways.http.server.routes import WEBSOCKET

NORMAL, GOING_AWAY, POLICY = 1000, 1001, 1008


class WebSocketExchange(Exchange):
    """A handler calls accept(), then receive_text() and send_text(); it returns when it is over."""

    __slots__ = ()

    @property
    def method(self) -> str:
        return WEBSOCKET

    async def accept(self) -> None:
        message = await self._receive()
        if message["type"] != "websocket.connect":
            raise Disconnected
        self.is_started = True
        headers = [(b"penstock-request-id", self.request_id.encode()), *self.extra_headers]
        await self._send({"type": "websocket.accept", "headers": headers})

    async def receive_text(self) -> str:
        """Disconnected when the client is gone; Refusal for binary messages."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise Disconnected
        text = message.get("text")
        if text is None:
            raise Refusal(400, "malformed-body", "messages must be JSON in text frames")
        return str(text)

    async def send_text(self, text: str) -> None:
        """Waits while the client does not read. Disconnected when it is gone."""
        try:
            await self._send({"type": "websocket.send", "text": text})
        except OSError:
            raise Disconnected from None

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        await self._send({"type": "websocket.close", "code": code, "reason": reason[:120]})

    async def reply(self, reply: Reply) -> None:
        """Of a request that is refused before it was accepted."""
        headers = [(b"content-length", b"%d" % len(reply.body)), (b"content-type", reply.content_type), *reply.headers]
        await self.start(reply.status, headers)
        await self._send({"type": "websocket.http.response.body", "body": reply.body, "more_body": False})

    async def start(self, status: int, headers: Headers) -> None:
        own = (b"penstock-request-id", self.request_id.encode())
        await self._send({"type": "websocket.http.response.start", "status": status, "headers": [own, *headers]})

    async def abort(self) -> None:
        await self.close(1011, "the server gave up: its log has why")
