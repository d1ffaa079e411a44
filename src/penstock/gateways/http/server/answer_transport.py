"""Answers that are known as a whole, in one write: a system call costs as much as the rest of a small answer."""

from __future__ import annotations

import asyncio

from penstock.core.ports import Buffer


class AnswerTransport(asyncio.Transport):
    """Of a connection, as uvicorn is given it to write answers to: a head that is held back leaves with what is written
    next. It writes, closes and tells whether it is closed; nothing else is asked of it."""

    __slots__ = ("_head", "_is_held", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._head: bytes = b""
        self._is_held = False

    def hold_head(self) -> None:
        """Of the answer that begins now. A body must follow."""
        self._is_held = True

    def write(self, data: Buffer) -> None:
        if self._is_held:
            self._is_held, self._head = False, bytes(data)
        elif self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()
