"""Server-sent events of a queue."""

from __future__ import annotations

from http.client import HTTPException
from pathlib import Path

import pytest
from tests.support.event_reader import EventReader
from tests.support.http_gateway import HttpSetup, RunningHttp, running_http

from penstock.codecs.http.messages import Message
from penstock.gateways.http.events import slices
from penstock.gateways.http.messages.message_rows import message_of
from penstock.gateways.http.options import HttpOptions
from penstock.log.batch import Row


def texts(reader: EventReader, count: int) -> list[str]:
    return [event.json["text"] for event in reader.take(count)]


def followers(http: RunningHttp, queue: str = "q") -> int:
    """Those at the live end."""
    return sum(len(feed._live) for (each, _), feed in http.gateway.app.state.feeds._feeds.items() if each.name == queue)


def live(http: RunningHttp, count: int = 1) -> None:
    http.until(lambda: followers(http) == count)


def test_history_comes_first_and_then_what_is_published(http: RunningHttp) -> None:
    http.declare()
    http.put("q", b"0", b"1")
    reader = http.events("/queues/q/events?from=earliest")
    assert reader.headers["content-type"].startswith("text/event-stream")
    assert texts(reader, 2) == ["0", "1"]
    http.put("q", b"2")
    [event] = reader.take(1)
    assert (event.kind, event.id, event.json["text"], event.json["id"]) == ("message", "0:3", "2", "q@1:0:2")
    assert reader.retry_ms == 2000


def test_without_from_only_what_comes_is_told(http: RunningHttp) -> None:
    http.declare()
    http.put("q", b"old")
    reader = http.events("/queues/q/events")
    http.put("q", b"new")
    assert texts(reader, 1) == ["new"]


@pytest.mark.parametrize("old", [(), (b"old",)])
def test_who_was_cut_off_before_the_first_event_loses_nothing(http: RunningHttp, old: tuple[bytes, ...]) -> None:
    http.declare()
    for message in old:
        http.put("q", message)
    reader = http.events("/queues/q/events")
    live(http)
    http.restart()
    assert reader.next() is None
    http.put("q", b"meanwhile")
    assert reader.last_id
    again = http.events("/queues/q/events", {"Last-Event-ID": reader.last_id})
    assert texts(again, 1) == ["meanwhile"]


def test_last_event_id_goes_on_in_every_partition_after_a_restart(http: RunningHttp) -> None:
    http.declare(partitions=4)
    sent = [b"%d" % number for number in range(200)]
    http.put("q", *sent[:100], keys=sent[:100])
    reader = http.events("/queues/q/events?from=earliest")
    seen = texts(reader, 37)
    reader.close()
    http.restart()
    http.put("q", *sent[100:], keys=sent[100:])
    reader = http.events(f"/queues/q/events?last_event_id={reader.last_id}")
    seen += texts(reader, 163)
    assert sorted(seen, key=int) == [each.decode() for each in sent]


def test_each_partition_is_told_in_order(http: RunningHttp) -> None:
    http.declare(partitions=3)
    reader = http.events("/queues/q/events")
    for batch in range(20):
        http.put("q", *(b"%d" % (10 * batch + i) for i in range(10)), keys=[b"k%d" % i for i in range(10)])
    found: dict[int, list[int]] = {}
    for event in reader.take(200):
        found.setdefault(event.json["partition"], []).append(event.json["offset"])
    assert len(found) > 1
    assert all(offsets == list(range(len(offsets))) for offsets in found.values())


def test_a_slow_reader_is_behind_and_holds_little(http: RunningHttp) -> None:
    http.declare()
    slow = http.events("/queues/q/events", receive_buffer_bytes=4096)
    live(http)
    for number in range(300):
        http.put("q", b"%d " % number + b"x" * 30_000)
    http.until(lambda: followers(http) == 0)
    [stream] = http.gateway.app.state.streams._open
    assert http.call(lambda: stream.outlet.waiting_bytes) <= 64 << 10
    seen = [int(event.json["text"].split()[0]) for event in slow.take(300)]
    assert seen == list(range(300))
    live(http)
    http.put("q", b"300 caught up")
    assert texts(slow, 1) == ["300 caught up"]


def test_a_message_longer_than_any_buffer_arrives_whole(http: RunningHttp) -> None:
    http.declare()
    readers = [http.events("/queues/q/events", receive_buffer_bytes=4096) for _ in range(3)]
    live(http, 3)
    long = b"l" * 100_000
    http.put("q", long)
    http.put("q", b"short")
    for reader in readers:
        assert texts(reader, 2) == [long.decode(), "short"]


def test_an_event_is_encoded_once_for_all_who_follow(http: RunningHttp, monkeypatch: pytest.MonkeyPatch) -> None:
    http.declare()
    readers = [http.events("/queues/q/events") for _ in range(10)]
    live(http, 10)
    encoded: list[int] = []

    def counted(prefix: str, queue: str, partition: int, row: Row, is_base64: bool) -> Message:
        encoded.append(row.offset)
        return message_of(prefix, queue, partition, row, is_base64)

    monkeypatch.setattr(slices, "message_of", counted)
    http.put("q", b"a")
    assert [texts(reader, 1) for reader in readers] == [["a"]] * 10
    assert encoded == [0]


def test_what_retention_took_is_told_as_a_gap(http: RunningHttp) -> None:
    queue = http.declare()
    http.put("q", b"0", b"1", b"2")
    assert http.request("POST", "/queues/q/purge").status == 200
    http.put("q", b"3")
    reader = http.events("/queues/q/events", {"Last-Event-ID": "0:1"})
    gap, message = reader.take(2)
    assert (gap.kind, gap.json, gap.id) == ("gap", {"partition": 0, "from": 1, "to": queue.units[0].start}, "0:3")
    assert message.json["text"] == "3"


def test_a_place_in_an_earlier_queue_of_that_name_is_told_as_a_gap(http: RunningHttp) -> None:
    http.declare()
    http.put("q", b"0")
    reader = http.events("/queues/q/events", {"Last-Event-ID": "0:500,7:3"})
    gap, message = reader.take(2)
    assert (gap.kind, gap.json) == ("gap", {"partition": 0, "from": 500, "to": 0})
    assert (message.json["text"], message.id) == ("0", "0:1")


def test_a_partition_that_comes_later_is_told_from_its_beginning(http: RunningHttp) -> None:
    http.declare(partitions=2)
    http.put("q", b"0", partition=0)
    reader = http.events("/queues/q/events")
    live(http)
    http.put("q", b"1", partition=1)
    [event] = reader.take(1)
    assert (event.json["text"], event.id) == ("1", "0:1,1:1")


def test_the_end_of_a_queue_is_told(http: RunningHttp) -> None:
    http.declare()
    reader = http.events("/queues/q/events")
    live(http)
    http.request("DELETE", "/queues/q")
    [event] = reader.take(1)
    assert event.kind == "end"
    assert reader.next() is None


def test_streams_end_when_the_server_drains(http: RunningHttp) -> None:
    http.declare()
    reader = http.events("/queues/q/events")
    live(http)
    http.wait(http.gateway.drain())
    assert reader.next() is None
    assert http.gateway.app.state.streams.count == 0


def test_an_event_that_was_cut_by_the_end_of_the_server_is_no_event(http: RunningHttp) -> None:
    http.declare()
    reader = http.events("/queues/q/events", receive_buffer_bytes=4096)
    live(http)
    for _ in range(20):
        http.put("q", b"l" * 1_000_000)
    [stream] = http.gateway.app.state.streams._open
    http.until(lambda: stream._rest is not None and stream.outlet.is_full)
    http.wait(http.gateway.drain())
    seen = 0
    with pytest.raises((HTTPException, OSError)):
        while True:
            assert len(texts(reader, 1)[0]) == 1_000_000
            seen += 1
    assert reader.last_id == f"0:{seen}"


def test_who_leaves_leaves_nothing_behind(http: RunningHttp) -> None:
    queue = http.declare()
    reader = http.events("/queues/q/events")
    live(http)
    reader.close()
    http.until(lambda: http.gateway.app.state.streams.count == 0)
    assert not queue.listening


def test_streams_beyond_the_bound_are_refused(tmp_path: Path) -> None:
    with running_http(tmp_path, HttpSetup(HttpOptions(max_streams=1))) as http:
        http.declare()
        http.events("/queues/q/events")
        refused = http.get("/queues/q/events")
        assert (refused.status, refused.json["code"]) == (503, "too-many-streams")


def test_silence_is_broken_by_comments(tmp_path: Path) -> None:
    with running_http(tmp_path, HttpSetup(heartbeat_s=0.02)) as http:
        http.declare()
        reader = http.events("/queues/q/events")
        while not reader.comments:
            http.put("q", b"x")
            reader.take(1)
        assert reader.comments


def test_what_cannot_be_meant_is_refused_before_the_stream(http: RunningHttp) -> None:
    http.declare()
    assert http.get("/queues/q/events", {"Last-Event-ID": "?"}).json["code"] == "invalid-argument"
    assert http.get("/queues/q/events?from=yesterdayish").json["code"] == "invalid-argument"
    assert http.get("/queues/none/events").json["code"] == "no-such-queue"
    assert http.request("HEAD", "/queues/q/events").status == 200
