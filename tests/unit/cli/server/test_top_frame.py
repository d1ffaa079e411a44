"""What `penstock top` makes of two looks at a server."""

from __future__ import annotations

from penstock.cli.server.top_frame import QUEUE_COLUMNS, Frame, GroupLook, Look, QueueLook
from penstock.codecs.http.administration import QueueSummary


def queue_look(published: int, acked: int, lag: int = 3) -> QueueLook:
    summary = QueueSummary("orders", "default", 4, 1234, lag, 1, 2, False, False)
    return QueueLook(summary, published, (GroupLook(lag, 75.0, 5, acked + 5, acked),))


def look_at(second: float, published: int, syncs: int, queue: QueueLook | None) -> Look:
    overview: dict[str, object] = {
        "version": "1",
        "uptime_s": 61.0,
        "is_ready": True,
        "problems": [],
        "published": published,
        "journal_syncs": syncs,
    }
    return Look(second, overview, {} if queue is None else {"orders": queue}, 3)


def row(frame: Frame) -> dict[str, object]:
    [only] = frame.rows()
    return dict(zip(QUEUE_COLUMNS, only, strict=True))


def test_rates_are_what_happened_between_two_looks() -> None:
    frame = Frame(look_at(10, 100, 5, queue_look(100, 50)), look_at(12, 300, 25, queue_look(300, 150)))
    found = row(frame)
    assert (found["in/s"], found["acks/s"], found["in flight"]) == ("100", "50", 5)
    assert (found["lag"], found["oldest"], found["messages"]) == ("3", "1m 15s", "1,234")
    head = "\n".join(frame.head())
    assert "in 100/s" in head
    assert "syncs 10/s" in head
    assert "up 1m 1s, ready" in head
    assert frame.hidden == 2


def test_a_queue_that_was_not_there_has_no_rates_and_a_restart_none_below_zero() -> None:
    assert row(Frame(look_at(1, 0, 0, None), look_at(2, 9, 9, queue_look(9, 9))))["in/s"] == "-"
    assert row(Frame(look_at(1, 900, 900, queue_look(900, 900)), look_at(2, 9, 9, queue_look(9, 9))))["in/s"] == "0"


def test_a_server_that_is_not_ready_says_why() -> None:
    look = look_at(1, 0, 0, None)
    broken = Look(2, look.overview | {"is_ready": False, "problems": ["the disk is full"]}, {}, 0)
    assert "not ready: the disk is full" in Frame(look, broken).head()[0]
