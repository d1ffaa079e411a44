from __future__ import annotations

import signal
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.embedded.conftest import SMALL

import penstock
from penstock.core.errors import (
    Closed,
    InvalidArgument,
    InvalidSetting,
    NoSuchQueue,
    QueueExists,
    StaleSettlement,
    TooLarge,
)
from penstock.embedded.message import Message
from penstock.log.columns import Columns
from penstock.queues.deadletter import DETAIL, REASON


def drain(db: penstock.Database, queue: str, group: str = "default") -> list[bytes]:
    with db.consume(queue, group, idle_timeout=0.05) as messages:
        found = []
        for message in messages:
            found.append(message.value)
            message.ack()
        return found


def test_a_message_comes_with_all_that_it_was_put_with(db: penstock.Database) -> None:
    db.declare("orders", partitions=4)
    put = db.put(
        "orders",
        b"12.50",
        key=b"alice",
        headers={"currency": "EUR"},
        reply_to="$queue/answers",
        correlation_id=b"7",
        content_type="text/plain",
        expires_in="5m",
    )
    with db.consume("orders", group="billing") as messages:
        message = messages.get(timeout=5)
        assert message is not None
        assert (message.value, message.key, message.headers) == (b"12.50", b"alice", {"currency": "EUR"})
        assert (message.reply_to, message.correlation_id, message.content_type) == (
            "$queue/answers",
            b"7",
            "text/plain",
        )
        assert (message.id, message.queue, message.group, message.delivery_count) == (put, "orders", "billing", 1)
        assert put == f"orders@1:{message.partition}:{message.offset}"
        assert message.timestamp.tzinfo is not None and message.timestamp_ms > 1_700_000_000_000
        assert message.topic is None
        message.ack()
        assert messages.get(timeout=0) is None


def test_what_was_acknowledged_is_gone_after_reopening_and_the_rest_is_there(directory: Path) -> None:
    with penstock.open(directory, options=SMALL) as db:
        db.put_many("orders", [b"a", b"b", b"c"])
        with db.consume("orders") as messages:
            first = messages.get(timeout=5)
            assert first is not None
            first.ack()
    with penstock.open(directory, options=SMALL) as db:
        assert drain(db, "orders") == [b"b", b"c"]


def test_many_messages_are_taken_and_acknowledged_as_columns(db: penstock.Database) -> None:
    placed = db.put_many("orders", [f"{i}" for i in range(500)], keys=[b"%d" % (i % 7) for i in range(500)])
    assert sum(run.rows for run in placed) == 500
    taken: list[bytes] = []
    with db.consume("orders") as messages:
        while len(taken) < 500:
            batch = messages.get_many(200, timeout=5)
            assert batch.values() == [message.value for message in batch]
            assert batch[0].value == batch.values()[0] and batch[-1].value == batch.values()[-1]
            taken += batch.values()
            assert messages.ack_many(batch) == (len(batch), 0)
        assert messages.ack_many(batch) == (0, len(batch))
    assert sorted(taken, key=int) == [b"%d" % i for i in range(500)]


def test_some_messages_of_a_batch_can_be_acknowledged(db: penstock.Database) -> None:
    db.put_many("orders", [b"%d" % i for i in range(10)])
    with db.consume("orders") as messages:
        batch = messages.get_many(10, timeout=5)
        assert messages.ack_many(batch[::2]) == (5, 0)
        assert messages.ack_many([]) == (0, 0)
    assert drain(db, "orders") == [b"1", b"3", b"5", b"7", b"9"]


def test_one_and_many_can_be_taken_by_turns(db: penstock.Database) -> None:
    db.put_many("orders", [b"%d" % i for i in range(10)])
    with db.consume("orders") as messages:
        first, rest = messages.get(timeout=5), messages.get_many(4, timeout=5)
        last = messages.get(timeout=5)
        assert first is not None and last is not None
        assert [first.value, *rest.values(), last.value] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_columns_and_arrow_tables_are_taken_as_they_are(db: penstock.Database) -> None:
    db.declare("orders", partitions=1)
    db.put_many("orders", Columns.of([b"a", b"b"]))
    table = pa.table({"value": ["c", None, "e"], "key": [b"1", b"2", None]})
    db.put_many("orders", table)
    db.put_many("orders", table.slice(2).to_batches()[0])
    found = [(message.value, message.key) for message in db.browse("orders")]
    assert found == [(b"a", None), (b"b", None), (b"c", b"1"), (b"", b"2"), (b"e", None), (b"e", None)]


@pytest.mark.parametrize(
    "values", [pa.table({"amount": [1]}), pa.table({"value": [1.5]}), pa.table({"value": [b"x"], "more": [1]})]
)
def test_a_table_of_something_else_is_refused(db: penstock.Database, values: pa.Table) -> None:
    with pytest.raises(InvalidArgument, match="value"):
        db.put_many("orders", values)


def test_what_is_neither_bytes_nor_text_is_refused(db: penstock.Database) -> None:
    with pytest.raises(InvalidArgument, match="bytes or str, not int"):
        db.put("orders", 5)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(InvalidArgument, match="differ in length"):
        db.put_many("orders", [b"a", b"b"], keys=[b"k"])
    with pytest.raises(InvalidArgument, match="never delivered"):
        db.put("orders", b"a", expires_in=0)


def test_declaring_twice_is_fine_unless_the_settings_differ(db: penstock.Database) -> None:
    assert db.declare("orders", partitions=4).name == "orders"
    db.declare("orders", partitions=4)
    db.declare({"name": "orders"})
    with pytest.raises(QueueExists):
        db.declare("orders", partitions=2)
    with pytest.raises(QueueExists):
        db.declare("orders", ordering="none")
    assert db.queue("orders").describe().settings["partitions"] == 4


def test_a_durability_that_there_is_not_is_refused_before_anything_is_opened(directory: Path) -> None:
    with pytest.raises(InvalidSetting, match="durability"):
        penstock.open(directory, durability="some")
    assert not directory.exists()


def test_a_get_that_a_signal_handler_broke_off_leaves_nothing_held(db: penstock.Database) -> None:
    class Enough(Exception):
        pass

    def raise_enough(*_: object) -> None:
        raise Enough

    before = signal.signal(signal.SIGALRM, raise_enough)
    try:
        with db.consume("orders", "billing") as messages:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(Enough):
                messages.get()
            db.put("orders", b"x")
            assert db.groups("orders")[0].in_flight == 0
            assert messages.get(timeout=5) is not None
    finally:
        signal.signal(signal.SIGALRM, before)


def test_queues_are_made_by_use_unless_that_is_off(directory: Path) -> None:
    with penstock.open(directory, durability="memory", auto_create=False) as db:
        with pytest.raises(NoSuchQueue):
            db.put("orders", b"x")
        with pytest.raises(NoSuchQueue):
            db.consume("orders")
        with pytest.raises(NoSuchQueue):
            db.queue("orders")
        assert db.declare("orders").describe().settings["durability"] == "memory"
        assert db.queues() == ["orders"]


def test_what_is_refused_makes_no_queue(db: penstock.Database) -> None:
    too_large = bytes((1 << 20) + 1)
    with pytest.raises(TooLarge):
        db.put("new", too_large)
    with pytest.raises(TooLarge):
        db.put_many("new", [b"v", too_large])
    with pytest.raises(InvalidArgument, match="no partition 99"):
        db.put("new", b"v", partition=99)
    with pytest.raises(TooLarge):
        db.request("new", too_large, timeout=1)
    with pytest.raises(TooLarge), db.transaction() as transaction:
        transaction.put("new", b"v")
        transaction.put("another", too_large)
    assert not {"new", "another"} & set(db.queues())
    db.put("new", b"v")
    assert "new" in db.queues()


def test_a_queue_can_be_changed_paused_purged_and_deleted(db: penstock.Database) -> None:
    orders = db.declare("orders", partitions=1)
    db.change("orders", limits={"max_message_size": "10B"})
    with pytest.raises(TooLarge):
        orders.put(b"x" * 11)
    with orders.consume("billing") as messages:
        db.pause("orders")
        orders.put_many([b"a", b"b"])
        assert messages.get(timeout=0.02) is None
        db.resume("orders")
        db.pause("orders", "billing")
        assert db.groups("orders")[0].is_paused
        db.resume("orders", "billing")
        assert messages.get(timeout=5) is not None
        assert (orders.describe().depth, db.groups("orders")[0].in_flight) == (2, 2)
    assert db.purge("orders") == 2
    assert list(orders.browse()) == []
    db.delete("orders", "billing")
    assert db.groups("orders") == []
    db.delete("orders")
    assert db.queues() == []


def test_a_failed_message_comes_again_and_ends_as_a_dead_letter(db: penstock.Database) -> None:
    db.declare("orders", retry_policy={"max_retries": 1, "initial_backoff": "1ms"})
    db.put("orders", b"poison", headers={"till": "7"})
    with db.consume("orders", group="billing") as messages:
        for expected in (1, 2):
            message = messages.get(timeout=5)
            assert message is not None and message.delivery_count == expected
            message.retry(delay=0, reason=f"attempt {expected}")
        assert messages.get(timeout=0.05) is None
    [letter] = db.browse("$dlq/orders")
    assert (letter.value, letter.headers["till"]) == (b"poison", "7")
    assert (letter.headers[REASON], letter.headers[DETAIL]) == ("max-retries", "attempt 2")
    assert db.describe("orders").depth == 0


def test_a_rejected_message_is_a_dead_letter_at_once(db: penstock.Database) -> None:
    db.put("orders", b"poison")
    with db.consume("orders") as messages:
        message = messages.get(timeout=5)
        assert message is not None
        message.dead_letter(reason="no such customer")
        with pytest.raises(StaleSettlement):
            message.ack()
    [letter] = db.browse("orders.dlq")
    assert (letter.headers[REASON], letter.headers[DETAIL]) == ("rejected", "no such customer")


def test_later_messages_of_a_key_are_not_seen_before_the_one_that_failed(db: penstock.Database) -> None:
    db.declare("orders", partitions=1)
    db.put_many("orders", [b"a1", b"b1", b"a2", b"b2", b"a3"], keys=[b"a", b"b", b"a", b"b", b"a"])
    seen: list[bytes] = []
    with db.consume("orders", idle_timeout=0.1) as messages:
        for message in messages:
            seen.append(message.value)
            if len(seen) == 1:
                message.retry(delay=0.02)
            else:
                message.ack()
    assert seen[0] == b"a1" and sorted(seen[1:3]) == [b"b1", b"b2"] and seen[3:] == [b"a1", b"a2", b"a3"]


def test_a_batch_that_was_handed_out_again_is_not_settled_by_its_first_delivery(db: penstock.Database) -> None:
    db.declare("jobs", partitions=1)
    db.put_many("jobs", [b"a", b"b", b"c"])
    with db.consume("jobs") as consumer:
        first = consumer.get_many(3, 5)
        next(iter(first)).retry(delay=0)
        assert consumer.ack_many(first) == (2, 1)
        [again] = consumer.get_many(3, 5)
        assert (again.value, again.delivery_count) == (b"a", 2)
        assert consumer.ack_many([again]) == (1, 0)


def test_what_all_groups_are_done_with_is_not_kept_in_memory(db: penstock.Database) -> None:
    db.declare("jobs", partitions=1)
    with db.consume("jobs") as consumer:
        db.put_many("jobs", [b"a", b"b"])
        consumer.ack_many(consumer.get_many(2, 5))
        db.put_many("jobs", [b"c"])
        db._runtime.run(db._runtime.broker.shard.checkpoint())
        log = db._runtime.broker.queue("jobs").units[0].data
        while log.tail:
            db.queues()
        assert log.recent.find(0) is None
        kept = log.recent.find(2)
        assert kept is not None and (kept.first, kept.end) == (2, 3)
        assert [message.value for message in db.browse("jobs")] == [b"a", b"b", b"c"]


def test_a_settlement_of_an_earlier_delivery_is_stale(db: penstock.Database) -> None:
    db.put("orders", b"x")
    with db.consume("orders") as messages:
        first = messages.get(timeout=5)
        assert first is not None
        first.retry(delay=0)
        again = messages.get(timeout=5)
        assert again is not None and again.delivery_count == 2
        with pytest.raises(StaleSettlement, match=first.id):
            first.ack()
        again.ack()


def test_a_transaction_is_all_or_nothing(db: penstock.Database) -> None:
    db.put("orders", b"order")
    with db.consume("orders") as messages:
        order = messages.get(timeout=5)
        assert order is not None
        with pytest.raises(ZeroDivisionError), db.transaction() as failing:
            failing.put("invoices", b"never")
            failing.ack(order)
            raise ZeroDivisionError
        assert db.queues() == ["orders"]
        with db.transaction() as transaction:
            transaction.put("invoices", b"invoice", headers={"a": "b"})
            transaction.put_many("audit", [b"1", b"2"])
            transaction.ack(order)
        assert [sum(run.rows for run in placed) for placed in transaction.placed] == [1, 2]
        with pytest.raises(InvalidArgument, match="over"):
            transaction.put("invoices", b"late")
        with pytest.raises(StaleSettlement), db.transaction() as too_late:
            too_late.put("invoices", b"twice")
            too_late.ack(order)
    assert drain(db, "invoices") == [b"invoice"]
    assert sorted(drain(db, "audit")) == [b"1", b"2"]
    assert drain(db, "orders") == []


def test_browsing_goes_by_time_over_all_partitions_and_consumes_nothing(db: penstock.Database) -> None:
    db.declare("orders", partitions=3)
    for i in range(9):
        db.put("orders", b"%d" % i, partition=i % 3)
    db.put_many("orders", [b"%d" % i for i in range(9, 300)], partition=1)
    found = list(db.browse("orders"))
    assert sorted(int(message.value) for message in found) == list(range(300))
    places = [(message.timestamp_ms, message.partition, message.offset) for message in found]
    assert places == sorted(places)
    assert [message.value for message in db.browse("orders", partition=2)] == [b"2", b"5", b"8"]
    assert [message.value for message in db.browse("orders", start="2", partition=0)] == [b"6"]
    assert len(list(db.browse("orders", limit=4))) == 4 and len(list(db.browse("orders", limit=150))) == 150
    assert list(db.browse("orders", start="latest")) == []
    assert len(drain(db, "orders")) == 300
    with pytest.raises(InvalidArgument, match="no partition 3"):
        list(db.browse("orders", partition=3))


def test_a_group_replays_and_commits(db: penstock.Database) -> None:
    db.declare("orders", partitions=1)
    db.put_many("orders", [b"a", b"b", b"c"])
    assert drain(db, "orders", "billing") == [b"a", b"b", b"c"]
    db.replay("orders", group="billing", start="2020-01-01T00:00Z")
    assert db.commit("orders", "billing", 0, 2) == 2
    assert drain(db, "orders", "billing") == [b"c"]
    db.replay("orders", "billing", start="1")
    assert drain(db, "orders", "billing") == [b"b", b"c"]
    with pytest.raises(InvalidArgument, match="no partition 9"):
        db.commit("orders", "billing", 9, 1)


def test_a_message_published_by_topic_reaches_bound_queues_and_filters(db: penstock.Database) -> None:
    db.declare("readings", topics=["sensors/#"])
    assert db.publish("sensors/1/temp", b"21") == ["readings"]
    assert db.publish("nobody/listens", b"x") == []
    assert db.publish("$queue/readings/eu", b"22") == ["readings"]
    with db.consume("readings", filter="eu", idle_timeout=0.05) as messages:
        assert [(message.value, message.topic) for message in messages] == [(b"22", "$queue/readings/eu")]


def test_a_request_gets_its_reply(db: penstock.Database) -> None:
    served: list[Message] = []

    def serve() -> None:
        with db.consume("rpc", idle_timeout=5) as requests:
            for request in requests:
                request.reply(request.value.upper(), headers={"by": "server"})
                request.ack()
                served.append(request)
                if len(served) == 9:
                    return

    server = threading.Thread(target=serve)
    server.start()
    reply = db.request("rpc", b"ping", timeout=5)
    assert (reply.value, reply.headers) == (b"PING", {"by": "server"})
    answers: dict[int, bytes] = {}

    def ask(number: int) -> None:
        answers[number] = db.request("rpc", b"q%d" % number, timeout=5).value

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for client in clients:
        client.start()
    for client in [*clients, server]:
        client.join()
    assert answers == {number: b"Q%d" % number for number in range(8)}


def test_a_request_without_a_reply_runs_out_of_time(directory: Path) -> None:
    with penstock.open(directory, options=SMALL) as db:
        with pytest.raises(TimeoutError, match="'rpc' gave no reply"):
            db.request("rpc", b"ping", timeout=0.02)
        with db.consume("rpc", idle_timeout=0.02) as requests:
            assert list(requests) == []  # it has expired
        db.put("rpc", b"no reply wanted")
        with db.consume("rpc") as requests:
            request = requests.get(timeout=5)
            assert request is not None
            with pytest.raises(InvalidArgument, match="no reply_to"):
                request.reply(b"x")
    with penstock.open(directory, options=SMALL) as db:
        assert db.queues() == ["rpc"]


def test_after_closing_every_call_says_so(directory: Path) -> None:
    db = penstock.open(directory, options=SMALL)
    db.put("orders", b"x")
    messages = db.consume("orders")
    message = messages.get(timeout=5)
    assert message is not None
    db.close()
    db.close()
    for call in (lambda: db.put("orders", b"x"), message.ack, lambda: messages.get(timeout=1), db.queues):
        with pytest.raises(Closed, match="open it again"):
            call()
    messages.close()
    assert message.value == b"x"


def test_a_thread_that_waits_for_messages_is_told_when_the_directory_is_closed(directory: Path) -> None:
    db = penstock.open(directory, options=SMALL)
    messages, told = db.consume("orders"), list[Exception]()

    def wait() -> None:
        try:
            messages.get()
        except Closed as error:
            told.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    db.close()
    thread.join()
    assert len(told) == 1


def test_a_stopped_consumer_wakes_whoever_waits_and_gives_back_the_rest(db: penstock.Database) -> None:
    messages = db.consume("orders")
    got: list[Message | None] = []
    threads = [threading.Thread(target=lambda: got.append(messages.get())) for _ in range(3)]
    for thread in threads:
        thread.start()
    messages.stop()
    for thread in threads:
        thread.join()
    assert got == [None, None, None]
    messages.close()
    db.put_many("orders", [b"a", b"b"])
    with db.consume("orders") as others:
        first = others.get(timeout=5)
        assert first is not None
        others.stop()
        first.ack()
        assert others.get() is None and not others.get_many(5)
    with db.consume("orders") as others:
        again = others.get(timeout=5)
        assert again is not None and again.value == b"b"
