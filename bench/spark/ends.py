"""Both ends of a stream from queue to queue, each in a process of its own: what is due is published to the first queue,
and when it comes out of the second is noted.

Over MQTT and in bulk, so that what is measured is the way between them: a consumer that makes an object of each message
took longer for it than the stream did, and a processor of the two."""

from __future__ import annotations

import multiprocessing
import select
import time
from array import array
from multiprocessing.synchronize import Event
from struct import Struct

from bench.mqtt.link import Link, Room
from bench.mqtt.mqtt_speech import MqttAcks, MqttDeliveries, connected, subscribe
from bench.spark.yardsticks import VALUE_BYTES
from penstock.codecs.mqtt.encode import encode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Publish
from penstock.codecs.mqtt.properties import Properties

_NS = 1_000_000_000
_STEP_S = 0.01
_KEYS, _PACKET_IDS, _TIME_BYTES = 100, 60_000, 20
_ID = Struct(">H")
_MARK = 0x7A7A
_IN_FLIGHT = 20_000


class Packets:
    """PUBLISHes of so many a second, from a moment on. A value begins with the time, in ns, at which it was due."""

    def __init__(self, queue: str, rate: int, begun_ns: int) -> None:
        self._rate, self._begun_ns = rate, begun_ns
        self._forms = [_form(queue, b"key-%02d" % key) for key in range(_KEYS)]
        [self._size] = {len(form) for form in self._forms}
        self._id_at = self._forms[0].index(_ID.pack(_MARK))

    def due(self, now_ns: int) -> int:
        """How many by then."""
        return (now_ns - self._begun_ns) * self._rate // _NS

    def encoded(self, first: int, stop: int) -> bytearray:
        """Those of these numbers."""
        data = bytearray().join([self._forms[number % _KEYS] for number in range(first, stop)])
        for place, number in enumerate(range(first, stop)):
            at, due_ns = place * self._size, self._begun_ns + number * _NS // self._rate
            _ID.pack_into(data, at + self._id_at, number % _PACKET_IDS + 1)
            value_at = at + self._size - VALUE_BYTES
            data[value_at : value_at + _TIME_BYTES] = b"%020d" % due_ns
        return data


def _form(queue: str, key: bytes) -> bytes:
    named = Properties(user_properties=(("partition-key", key.decode()),))
    return encode(Publish(f"$queue/{queue}", bytes(VALUE_BYTES), 1, packet_id=_MARK, properties=named), Version.V5)


def produce(address: tuple[str, int], queue: str, rate: int, over: Event) -> None:
    """What is due, every hundredth of a second, acknowledged when it is durable."""
    link, room, acks = connected(address, f"produce-{queue}", window=rate // 10), Room(), MqttAcks(_PACKET_IDS)
    packets, sent = Packets(queue, rate, time.time_ns()), 0
    while not over.wait(_STEP_S):
        due = packets.due(time.time_ns())
        link.socket.settimeout(None)
        link.socket.sendall(packets.encoded(sent, due))
        sent = due
        while _arrives(link, 0):
            stop = link.receive(room)
            link.keep(room, acks.read(room.data, stop).read_bytes, stop)
    link.close()


def consume(
    address: tuple[str, int], queue: str, group: str, over: Event, results: multiprocessing.Queue[list[tuple[int, int]]]
) -> None:
    """When each was due, and when it came. A group of its own: one that was there before has what it left."""
    taken = array("q")
    link, room, deliveries = connected(address, f"consume-{group}", _IN_FLIGHT), Room(), MqttDeliveries(qos=1)
    asked = ("consumer-group", group), ("start", "latest"), ("ack-mode", "puback"), ("prefetch", str(_IN_FLIGHT))
    subscribe([link], f"$queue/{queue}", 1, Properties(user_properties=asked))
    link.socket.settimeout(None)
    while not over.is_set():
        if not _arrives(link, 0.1):
            continue
        stop, now_ns = link.receive(room), time.time_ns()
        found = deliveries.read(room.data, stop)
        for start in found.payloads_at:
            taken.extend((int(room.data[start : start + _TIME_BYTES]), now_ns))
        link.socket.sendall(found.answer)
        link.keep(room, found.read_bytes, stop)
    link.close()
    results.put(list(zip(taken[::2], taken[1::2], strict=True)))


def _arrives(link: Link, wait_s: float) -> bool:
    return bool(select.select([link], [], [], wait_s)[0])
