"""NATS JetStream over its text protocol: a stream in files, answers by reply subject, a push consumer that shares."""

from __future__ import annotations

import json
import re

from bench.mqtt.link import Link, PeerFailed
from bench.mqtt.ring import PAYLOAD_BYTES, Ring, payload
from bench.mqtt.speech import TOPICS, Acknowledged, ConsumerParts, Delivered, PublisherParts, first_place, slots

_STREAM, _CONSUMER = "BENCH", "bench"
_LINE_END = b"\r\n"
_PING, _PONG = b"PING\r\n", b"PONG\r\n"
_OPTIONS = {"verbose": False, "pedantic": False, "lang": "bench", "version": "1", "protocol": 1}
# The stream's answer to a publish; a refusal has "error" in it.
_ANSWERED, _REFUSED = b'"seq":', b'"error"'
_MESSAGE = re.compile(rb"MSG \S+ \S+ (\$JS\.ACK\.\S+) %d\r\n(?s:.{%d})\r\n" % (PAYLOAD_BYTES, PAYLOAD_BYTES))
_ACK = b"PUB %b 0\r\n\r\n"
# Messages taken and not settled, over all who share; the default of 1000 would be one consumer's window.
_ACK_WAIT_NS = 60_000_000_000


class JetStreamSpeech:
    """Declares the stream and the consumer; both are there for as long as the server runs."""

    def __init__(self, address: tuple[str, int], in_flight: int, topics: int = TOPICS) -> None:
        self._address, self._topics = address, topics
        self._control = _connected(address, "control")
        stream = {"name": _STREAM, "subjects": ["bench.*"], "storage": "file", "num_replicas": 1, "retention": "limits"}
        self._request(f"STREAM.CREATE.{_STREAM}", stream)
        asked = {
            "durable_name": _CONSUMER,
            "deliver_subject": "deliver.bench",
            "deliver_group": _CONSUMER,
            "ack_policy": "explicit",
            "deliver_policy": "all",
            "ack_wait": _ACK_WAIT_NS,
            "max_ack_pending": in_flight,
        }
        self._request(f"CONSUMER.DURABLE.CREATE.{_STREAM}.{_CONSUMER}", {"stream_name": _STREAM, "config": asked})

    def publisher(self, number: int, window: int, is_mixed: bool = False) -> PublisherParts:
        link, inbox, first = _connected(self._address, f"publisher-{number}"), f"_INBOX.p{number}", first_place(number)
        link.send(f"SUB {inbox} 1\r\n".encode())
        _fence(link)
        frames = []
        for place in range(slots(window, self._topics)):
            topic = (place if is_mixed else number) % self._topics
            head = f"PUB bench.{topic:05} {inbox} {PAYLOAD_BYTES}\r\n".encode()
            frames.append(head + payload(first + place) + _LINE_END)
        return PublisherParts(link, Ring(frames, first, len(_LINE_END)), JetStreamAcks(link))

    def consumer(self, number: int, in_flight: int) -> ConsumerParts:
        link = _connected(self._address, f"consumer-{number}")
        link.send(f"SUB deliver.bench {_CONSUMER} 1\r\n".encode())
        return ConsumerParts(link, JetStreamDeliveries(link))

    def stored(self) -> int:
        """How many messages the stream holds."""
        state = self._request(f"STREAM.INFO.{_STREAM}", {})["state"]
        assert isinstance(state, dict)
        return int(state["messages"])

    def purge(self) -> None:
        self._request(f"STREAM.PURGE.{_STREAM}", {})

    def _request(self, subject: str, body: dict[str, object]) -> dict[str, object]:
        data = json.dumps(body).encode()
        link = self._control
        link.send(
            b"SUB _INBOX.c 1\r\nUNSUB 1 1\r\nPUB $JS.API.%b _INBOX.c %d\r\n%b\r\n" % (subject.encode(), len(data), data)
        )
        while not (line := _line(link)).startswith(b"MSG "):
            _expect(link, line)
        size = int(line.split()[-1])
        answer: dict[str, object] = json.loads(link.exactly(size + 2))
        if "error" in answer:
            raise PeerFailed(f"JetStream refused {subject}: {answer['error']}")
        return answer


class JetStreamAcks:
    def __init__(self, link: Link) -> None:
        self._link = link

    def read(self, data: bytearray, stop: int) -> Acknowledged:
        """An answer is a line with its subject and a line of JSON: whole lines are counted, the rest is kept."""
        end = data.rfind(b"}\r\n", 0, stop) + 3
        if end < 3:
            end = 0
        if data.find(_REFUSED, 0, end) >= 0:
            raise PeerFailed(f"JetStream refused a message: {bytes(data[:200])!r}")
        _answer_ping(self._link, data, stop)
        return Acknowledged(data.count(_ANSWERED, 0, end), end)


class JetStreamDeliveries:
    def __init__(self, link: Link) -> None:
        self._link = link

    def read(self, data: bytearray, stop: int) -> Delivered:
        payloads_at, acks, end = [], [], 0
        for match in _MESSAGE.finditer(data, 0, stop):
            acks.append(_ACK % match[1])
            end = match.end()
            payloads_at.append(end - len(_LINE_END) - PAYLOAD_BYTES)
        _answer_ping(self._link, data[end:stop], stop - end)
        return Delivered(payloads_at, end, b"".join(acks))

    def fence(self, link: Link) -> None:
        _fence(link)


def _answer_ping(link: Link, data: bytearray, stop: int) -> None:
    """Some bytes at the end may be looked at twice: a PONG too many is nothing to the server."""
    if data.find(_PING, 0, stop) >= 0:
        link.send(_PONG)


def _connected(address: tuple[str, int], name: str) -> Link:
    link = Link(address, name)
    _line(link)
    link.send(f"CONNECT {json.dumps({**_OPTIONS, 'name': name})}\r\n".encode())
    _fence(link)
    return link


def _fence(link: Link) -> None:
    link.send(_PING)
    while (line := _line(link)) != _PONG:
        _expect(link, line)


def _expect(link: Link, line: bytes) -> None:
    """What the server may say at any time; anything else is none of it."""
    if line == _PING:
        link.send(_PONG)
    elif line not in (_PONG, b"+OK\r\n"):
        raise PeerFailed(f"{link.name} got {line[:200]!r}")


def _line(link: Link) -> bytes:
    line = b""
    while not line.endswith(_LINE_END):
        line += link.exactly(1)
    return line
