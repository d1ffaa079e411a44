"""A transport in front of another one, for layers between the socket and MQTT: they change what they must."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from penstock.core.ports import Buffer


class WrappedTransport(asyncio.Transport):
    """Passes everything on to the transport below."""

    __slots__ = ("_below",)

    def __init__(self, below: asyncio.Transport) -> None:
        super().__init__()
        self._below = below

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._below.get_extra_info(name, default)

    def write(self, data: Buffer) -> None:
        self._below.write(data)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self._below.close()

    def abort(self) -> None:
        self._below.abort()

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def is_reading(self) -> bool:
        return self._below.is_reading()

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def can_write_eof(self) -> bool:
        return self._below.can_write_eof()

    def write_eof(self) -> None:
        self._below.write_eof()
