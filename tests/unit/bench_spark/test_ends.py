"""What the ends of a stream from queue to queue send, and that it comes out at the other end."""

from __future__ import annotations

import queue
import threading
import time
from pathlib import Path

from bench.spark.ends import Packets, consume, produce
from bench.spark.yardsticks import VALUE_BYTES
from tests.support.live_server import live_server

from penstock.codecs.mqtt.decode import decode
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Publish


def test_each_packet_has_its_key_its_number_and_when_it_was_due() -> None:
    packets = Packets("due", rate=1000, begun_ns=5_000_000_000)
    assert packets.due(5_250_000_000) == 250
    data = packets.encoded(248, 251)
    size = len(data) // 3
    for place, number in enumerate((248, 249, 250)):
        packet = decode(bytes(data[place * size : (place + 1) * size]), Version.V5)
        assert isinstance(packet, Publish)
        assert (packet.topic, packet.qos, packet.packet_id) == ("$queue/due", 1, number + 1)
        assert packet.properties.user_properties == (("partition-key", f"key-{number % 100:02d}"),)
        assert len(packet.payload) == VALUE_BYTES
        assert int(packet.payload[:20]) == 5_000_000_000 + number * 1_000_000


def test_what_is_produced_is_consumed_with_the_time_at_which_it_was_due(tmp_path: Path) -> None:
    over: threading.Event = threading.Event()
    results: queue.Queue[list[tuple[int, int]]] = queue.Queue()
    with live_server(tmp_path / "server") as server:
        address = ("127.0.0.1", server.ports["mqtt"])
        ends = [
            threading.Thread(target=consume, args=(address, "q", "g", over, results)),
            threading.Thread(target=produce, args=(address, "q", 1000, over)),
        ]
        begun_ns = time.time_ns()
        for end in ends:
            end.start()
            time.sleep(0.5)
        time.sleep(1.0)
        over.set()
        for end in ends:
            end.join(30)
    taken = results.get(timeout=10)
    assert len(taken) > 100
    assert all(begun_ns <= due < came for due, came in taken)
    assert len({due for due, _ in taken}) == len(taken)
