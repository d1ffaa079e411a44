"""Lines from standard input, as many as are ready, without holding up the event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import deque

from penstock.core.errors import TooLarge
from penstock.log.header import MAX_BODY_BYTES

_READ_BYTES = 1 << 18
# Read ahead enough that a commit finds the next lines ready, and no more: what is not committed is in no log.
_READ_AHEAD_BYTES = 8 << 20


class LineReader:
    """Reads a descriptor in a thread of its own: regular files, terminals and pipes alike. Use from one event loop."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: deque[bytes] = deque()
        self._ready_bytes = 0
        self._rest = bytearray()
        self._is_at_end = False
        self._error: Exception | None = None
        self._arrived = asyncio.Event()
        self._wanted = threading.Event()
        self._wanted.set()
        # A daemon, since nothing wakes a thread that waits for a terminal when the command is to end.
        threading.Thread(target=self._read, name="penstock-stdin", daemon=True).start()

    def stop(self) -> None:
        """The lines that were read and not taken are given up; take() returns nothing from now on."""
        self._lines.clear()
        self._is_at_end = True
        self._arrived.set()

    async def take(self, max_lines: int, max_bytes: int) -> list[bytes]:
        """Wait for a line, then return what is ready, within the limits; empty at the end of the input."""
        while not self._lines and not self._is_at_end:
            self._arrived.clear()
            await self._arrived.wait()
        if not self._lines and self._error is not None:
            raise self._error
        return self._take_ready(max_lines, max_bytes)

    def _take_ready(self, max_lines: int, max_bytes: int) -> list[bytes]:
        taken: list[bytes] = []
        size = 0
        while self._lines and len(taken) < max_lines and (not taken or size + len(self._lines[0]) <= max_bytes):
            taken.append(self._lines.popleft())
            size += len(taken[-1])
        self._ready_bytes -= size
        if self._ready_bytes <= _READ_AHEAD_BYTES:
            self._wanted.set()
        return taken

    def _read(self) -> None:
        try:
            while chunk := os.read(self._descriptor, _READ_BYTES):
                self._post_chunk(chunk)
                self._wanted.wait()
            self._post_end(None)
        except OSError as error:
            self._post_end(error)

    def _post_chunk(self, chunk: bytes) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take_in, chunk)

    def _post_end(self, error: OSError | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end, error)

    def _take_in(self, chunk: bytes) -> None:
        if self._is_at_end:
            return
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > MAX_BODY_BYTES:
            self._end(TooLarge("a line", len(self._rest), MAX_BODY_BYTES))
        self._lines.extend(lines)
        self._ready_bytes += sum(map(len, lines))
        if self._ready_bytes > _READ_AHEAD_BYTES:
            self._wanted.clear()
        self._arrived.set()

    def _end(self, error: Exception | None) -> None:
        if self._is_at_end:
            return
        if self._rest and error is None:
            self._lines.append(bytes(self._rest))
        self._is_at_end, self._error = True, error
        self._arrived.set()


def stop_on_signal(lines: LineReader | None) -> list[signal.Signals]:
    """The signals that came, as they come: what is under way is finished first."""
    came: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)
        if lines is not None:
            lines.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    return came
