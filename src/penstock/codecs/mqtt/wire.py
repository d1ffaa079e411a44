"""Numbers, strings and blobs as MQTT writes them."""

from __future__ import annotations

from penstock.codecs.mqtt.errors import MalformedPacket
from penstock.codecs.mqtt.kinds import MAX_REMAINING_BYTES, MAX_STRING_BYTES
from penstock.codecs.mqtt.text import bytes_of, text_of
from penstock.core.errors import InvalidArgument, TooLarge

_MAX_VARINT_BYTES = 4


class Reader:
    """Walks over one packet, or a section of it; MalformedPacket where it would leave it."""

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data, self._at, self._end = data, start, end

    @property
    def remaining_bytes(self) -> int:
        return self._end - self._at

    def take(self, size: int, what: str) -> bytes:
        if size > self._end - self._at:
            raise MalformedPacket(f"{what} needs {size} bytes, and {self._end - self._at} are left")
        self._at += size
        return self._data[self._at - size : self._at]

    def unsigned(self, size: int, what: str) -> int:
        return int.from_bytes(self.take(size, what), "big")

    def varint(self, what: str) -> int:
        """In as few bytes as can be, or it is malformed."""
        value = 0
        for i in range(_MAX_VARINT_BYTES):
            byte = self.unsigned(1, what)
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                if i and not byte:
                    raise MalformedPacket(f"{what} takes more bytes than it needs")
                return value
        raise MalformedPacket(f"{what} takes more than {_MAX_VARINT_BYTES} bytes")

    def binary(self, what: str) -> bytes:
        return self.take(self.unsigned(2, what), what)

    def text(self, what: str) -> str:
        return text_of(self.binary(what), what)

    def section(self, size: int, what: str) -> Reader:
        """The next bytes, to be read on their own; this one goes on behind them."""
        if size > self._end - self._at:
            raise MalformedPacket(f"{what} needs {size} bytes, and {self._end - self._at} are left")
        self._at += size
        return Reader(self._data, self._at - size, self._at)

    def rest(self) -> bytes:
        return self.take(self._end - self._at, "the rest")

    def finish(self) -> None:
        if self._at != self._end:
            raise MalformedPacket(f"{self._end - self._at} bytes are left over at the end of the packet")


def varint_bytes(value: int) -> bytes:
    if not 0 <= value <= MAX_REMAINING_BYTES:
        raise InvalidArgument(f"{value} is outside 0..{MAX_REMAINING_BYTES}, which a variable byte integer can say")
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def unsigned_bytes(value: int, size: int, what: str) -> bytes:
    if not 0 <= value < 1 << 8 * size:
        raise InvalidArgument(f"{what} is {value}: give 0 to {(1 << 8 * size) - 1}")
    return value.to_bytes(size, "big")


def text_bytes(text: str, what: str) -> bytes:
    return binary_bytes(bytes_of(text, what), what)


def binary_bytes(data: bytes, what: str) -> bytes:
    if len(data) > MAX_STRING_BYTES:
        raise TooLarge(what, len(data), MAX_STRING_BYTES)
    return len(data).to_bytes(2, "big") + data
