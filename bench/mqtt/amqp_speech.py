"""RabbitMQ over AMQP 0.9.1: durable queues, persistent messages, publisher confirms, consumers that acknowledge.

A frame of one load has one size, so that a buffer of them is unpacked as a table."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from bench.mqtt.link import Link, PeerFailed
from bench.mqtt.ring import PAYLOAD_BYTES, Ring, payload
from bench.mqtt.speech import TOPICS, Acknowledged, ConsumerParts, Delivered, PublisherParts, first_place, slots

_METHOD, _HEADER, _BODY, _END = 1, 2, 3, b"\xce"
_CONNECTION, _CHANNEL, _QUEUE, _BASIC, _CONFIRM = 10, 20, 50, 60, 85
_START, _START_OK, _TUNE, _TUNE_OK, _OPEN, _OPEN_OK = 10, 11, 30, 31, 40, 41
_FRAME = struct.Struct(">BHI")
_METHOD_ID = struct.Struct(">HH")
# basic.ack, from the server as a confirm and to it as a settlement: frame, method, tag, "all up to it", end.
_ACK = struct.Struct(">BHIHHQ?c")
_ACK_HEAD = (_METHOD, 1, 13, _BASIC, 80)
_PERSISTENT = struct.pack(">HHQHB", _BASIC, 0, PAYLOAD_BYTES, 0x1000, 2)
_TAG = b"c"


def queue(number: int) -> bytes:
    """Names of one length: the frames of a ring have one size."""
    return b"bench.%05d" % number


class AmqpSpeech:
    """A queue for each topic, which suits RabbitMQ best: a queue is one of its processes."""

    def __init__(self, address: tuple[str, int], kind: str = "classic", queues: int = TOPICS) -> None:
        self._address, self._queues = address, queues
        control = _connected(address, "control")
        kind_table = _short(b"x-queue-type") + b"S" + _long(kind.encode())
        for number in range(queues):
            asked = b"\x00\x00" + _short(queue(number)) + b"\x02" + _long(kind_table)
            _call(control, (_QUEUE, 10), asked, (_QUEUE, 11))
        control.close()

    def publisher(self, number: int, window: int, is_mixed: bool = False) -> PublisherParts:
        link, first = _connected(self._address, f"publisher-{number}"), first_place(number)
        _call(link, (_CONFIRM, 10), b"\x00", (_CONFIRM, 11))
        frames = []
        for place in range(slots(window, self._queues)):
            name = queue((place if is_mixed else number) % self._queues)
            method = _method((_BASIC, 40), b"\x00\x00" + _short(b"") + _short(name) + b"\x00")
            content = _frame(_HEADER, _PERSISTENT) + _frame(_BODY, payload(first + place))
            frames.append(method + content)
        return PublisherParts(link, Ring(frames, first, len(_END)), AmqpAcks())

    def consumer(self, number: int, in_flight: int) -> ConsumerParts:
        link, name = _connected(self._address, f"consumer-{number}"), queue(number % self._queues)
        _qos(link, in_flight)
        asked = b"\x00\x00" + _short(name) + _short(_TAG) + b"\x00" + _long(b"")
        _call(link, (_BASIC, 20), asked, (_BASIC, 21))
        return ConsumerParts(link, AmqpDeliveries(name, in_flight))


class Life:
    """A connection on which exclusive queues are made, bound, consumed and deleted."""

    def __init__(self, address: tuple[str, int], name: str) -> None:
        self._link = _connected(address, name)
        queue, exchange = _short(name.encode()), _short(b"amq.direct")
        empty = _long(b"")
        self._steps = (
            ((_QUEUE, 10), b"\x00\x00" + queue + b"\x04" + empty, (_QUEUE, 11)),
            ((_QUEUE, 20), b"\x00\x00" + queue + exchange + queue + b"\x00" + empty, (_QUEUE, 21)),
            ((_BASIC, 20), b"\x00\x00" + queue + _short(_TAG) + b"\x00" + empty, (_BASIC, 21)),
            ((_BASIC, 30), _short(_TAG) + b"\x00", (_BASIC, 31)),
            ((_QUEUE, 40), b"\x00\x00" + queue + b"\x00", (_QUEUE, 41)),
        )

    def live(self, lives: int) -> None:
        for _ in range(lives):
            for step in self._steps:
                _call(self._link, *step)

    def consume_shared(self) -> None:
        """A queue that all of them have in common."""
        name = _short(b"bench.shared")
        _call(self._link, (_QUEUE, 10), b"\x00\x00" + name + b"\x02" + _long(b""), (_QUEUE, 11))
        _call(self._link, (_BASIC, 20), b"\x00\x00" + name + _short(_TAG) + b"\x00" + _long(b""), (_BASIC, 21))

    def close(self) -> None:
        self._link.close()


def delete_queues(address: tuple[str, int], names: Iterable[bytes]) -> None:
    """With what they hold; those that are not there are no fault."""
    control = _connected(address, "control")
    for name in names:
        _call(control, (_QUEUE, 40), b"\x00\x00" + _short(name) + b"\x00", (_QUEUE, 41))
    control.close()


class AmqpAcks:
    """Confirms: of single messages in any order, or of all up to one."""

    def __init__(self) -> None:
        self._floor = 0
        self._above: set[int] = set()

    def read(self, data: bytearray, stop: int) -> Acknowledged:
        end, before = stop - stop % _ACK.size, self._floor + len(self._above)
        for *head, tag, is_multiple, _ in _ACK.iter_unpack(data[:end]):
            if tuple(head) != _ACK_HEAD:
                raise PeerFailed(f"RabbitMQ refused a message or said something else: {bytes(data[:200])!r}")
            self._take(tag, is_multiple)
        return Acknowledged(self._floor + len(self._above) - before, end)

    def _take(self, tag: int, is_multiple: bool) -> None:
        if is_multiple:
            self._floor = max(self._floor, tag)
            self._above = {above for above in self._above if above > tag}
        else:
            self._above.add(tag)
        while self._floor + 1 in self._above:
            self._floor += 1
            self._above.discard(self._floor)


class AmqpDeliveries:
    """basic.deliver, header and body, always of the same size for one queue; the last of a buffer settles all."""

    def __init__(self, name: bytes, in_flight: int) -> None:
        self._in_flight = in_flight
        head = _METHOD_ID.pack(_BASIC, 60) + _short(_TAG)
        tail = b"\x00" + _short(b"") + _short(name)
        self._tag_at = _FRAME.size + len(head)
        self._start = _FRAME.pack(_METHOD, 1, len(head) + 8 + len(tail)) + head
        content = len(_frame(_HEADER, _PERSISTENT)) + _FRAME.size
        self._payload_at = self._tag_at + 8 + len(tail) + len(_END) + content
        self._size = self._payload_at + PAYLOAD_BYTES + len(_END)

    def read(self, data: bytearray, stop: int) -> Delivered:
        count = stop // self._size
        end = count * self._size
        if not count:
            return Delivered((), 0, b"")
        starts = range(0, end, self._size)
        if any(not data.startswith(self._start, at) for at in starts):
            raise PeerFailed(f"RabbitMQ said something else than a message: {bytes(data[:200])!r}")
        [tag] = struct.unpack_from(">Q", data, end - self._size + self._tag_at)
        answer = _ACK.pack(*_ACK_HEAD, tag, True, _END)
        return Delivered(range(self._payload_at, end, self._size), end, answer)

    def fence(self, link: Link) -> None:
        """A channel does one thing after the other: what it answers was read behind the acknowledgements."""
        _qos(link, self._in_flight)


def _qos(link: Link, in_flight: int) -> None:
    _call(link, (_BASIC, 10), struct.pack(">IHB", 0, in_flight, 0), (_BASIC, 11))


def _connected(address: tuple[str, int], name: str) -> Link:
    link = Link(address, name)
    link.send(b"AMQP\x00\x00\x09\x01")
    _answer(link, (_CONNECTION, _START))
    login = _long(b"") + _short(b"PLAIN") + _long(b"\x00guest\x00guest") + _short(b"en_US")
    link.send(_method((_CONNECTION, _START_OK), login, channel=0))
    channels, frame_bytes, _ = struct.unpack(">HIH", _answer(link, (_CONNECTION, _TUNE)))
    # No heartbeat: nothing but the load is sent.
    link.send(_method((_CONNECTION, _TUNE_OK), struct.pack(">HIH", channels, frame_bytes, 0), channel=0))
    link.send(_method((_CONNECTION, _OPEN), _short(b"/") + b"\x00\x00", channel=0))
    _answer(link, (_CONNECTION, _OPEN_OK))
    _call(link, (_CHANNEL, 10), b"\x00", (_CHANNEL, 11))
    return link


def _call(link: Link, method: tuple[int, int], arguments: bytes, expected: tuple[int, int]) -> bytes:
    link.send(_method(method, arguments))
    return _answer(link, expected)


def _answer(link: Link, expected: tuple[int, int]) -> bytes:
    """The arguments of the next method, which must be that one."""
    kind, _, size = _FRAME.unpack(link.exactly(_FRAME.size))
    body = link.exactly(size + 1)[:-1]
    if kind != _METHOD or _METHOD_ID.unpack_from(body) != expected:
        raise PeerFailed(f"{link.name} got {body[:200]!r} instead of method {expected}")
    return body[_METHOD_ID.size :]


def _frame(kind: int, body: bytes, channel: int = 1) -> bytes:
    return _FRAME.pack(kind, channel, len(body)) + body + _END


def _method(method: tuple[int, int], arguments: bytes, channel: int = 1) -> bytes:
    return _frame(_METHOD, _METHOD_ID.pack(*method) + arguments, channel)


def _short(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def _long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data
