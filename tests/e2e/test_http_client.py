"""The client over HTTP against a real server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest
from tests.support.cli import penstock as run_command
from tests.support.live_server import live_server
from tests.support.loop import run

import penstock
from penstock.aio import Client as AsyncClient
from penstock.client.http.errors import HttpRefused
from penstock.client.http.options import Retries
from penstock.core.errors import Closed, ErrorCode, TooLarge

_numbers = count()
_PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live_server(tmp_path_factory.mktemp("server")) as server:
        yield f"http://127.0.0.1:{server.ports['http']}"


@pytest.fixture
def queue() -> str:
    return f"shop/q{next(_numbers)}"


@pytest.fixture
def client(url: str) -> Iterator[penstock.Client]:
    with penstock.Client(url) as client:
        yield client


def test_values_of_every_kind_come_back_as_they_were_sent(client: penstock.Client, queue: str) -> None:
    client.create_queue(queue, {"partitions": 1})
    headers = [("a", "1"), ("a", "2")]
    sent = client.publish(queue, b"\x00\xff", key=b"\xfe", headers=headers, content_type="x/y", correlation_id="c")
    client.publish(queue, "żółw", key="k")
    client.publish(queue, {"n": [1, None]})
    first, second, third = islice(client.consume(queue, "g"), 3)
    assert (first.value, first.key, first.key_bytes, first.headers) == (b"\x00\xff", None, b"\xfe", headers)
    assert (first.id, first.partition, first.offset, first.deliveries) == (sent.id, sent.partition, sent.offset, 1)
    assert (first.stored.content_type, first.stored.correlation_id, first.header("a")) == ("x/y", "c", "1")
    assert (second.text, second.key) == ("żółw", "k")
    assert third.json() == {"n": [1, None]}
    assert third.timestamp.year >= 2024


def test_many_values_are_stored_in_one_request_and_once(client: penstock.Client, queue: str) -> None:
    sent = client.publish_many(queue, ["a", b"b", 3], idempotency_key="k")
    again = client.publish_many(queue, ["a", b"b", 3], idempotency_key="k")
    assert [each.offset for each in sent] == [each.offset for each in again] == [0, 1, 2]
    assert all(each.duplicate for each in again)
    assert client.queue(queue).messages == 3


@pytest.mark.parametrize("acks", ["none", "leader", "all"])
@pytest.mark.parametrize("linger_s", [0, 0.005])
def test_a_producer_stores_all_in_order(client: penstock.Client, queue: str, acks: str, linger_s: float) -> None:
    client.create_queue(queue, {"partitions": 1})
    with client.producer(queue, batch_messages=7, linger_s=linger_s, acks=acks) as producer:  # type: ignore[arg-type]  # one of them
        futures = [producer.send(str(number)) for number in range(50)]
    assert [future.result().offset for future in futures] == list(range(50))
    with pytest.raises(Closed):
        producer.send("late")
    with client.consume(queue, "g", auto_commit=0) as messages:
        assert [message.text for message in islice(messages, 50)] == list(map(str, range(50)))


def test_threads_share_a_producer_that_has_little_room(client: penstock.Client, queue: str) -> None:
    with client.producer(queue, batch_messages=10, max_unsent_bytes=200) as producer:
        threads = [threading.Thread(target=lambda: [producer.send("x" * 50) for _ in range(40)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with pytest.raises(TooLarge):
            producer.send("x" * 300)
    assert client.queue(queue).messages == 160


def test_messages_that_the_server_refuses_fail_alone(client: penstock.Client, queue: str) -> None:
    client.create_queue(queue, {"partitions": 2})
    producer = client.producer(queue, batch_messages=100, linger_s=1)
    good = [producer.send(number) for number in range(3)]
    bad = producer.send("x", partition=9)
    bad_header = producer.send("x", headers={"": "no name"})
    more = [producer.send(number) for number in range(3)]
    with pytest.raises(HttpRefused) as failed:
        producer.flush()
    assert "were not sent or not stored" in failed.value.__notes__[0]
    assert isinstance(bad.exception(), HttpRefused)
    assert bad_header.done()
    assert all(future.result().partition in (0, 1) for future in good + more)
    producer.close()


def test_a_refused_request_says_what_and_why(client: penstock.Client) -> None:
    with pytest.raises(HttpRefused) as refused:
        client.queue("none/such")
    assert (refused.value.status, refused.value.code) == (404, ErrorCode.NO_SUCH_QUEUE)
    assert "none/such" in str(refused.value)


def test_messages_are_settled_each_in_its_way(client: penstock.Client, queue: str) -> None:
    client.publish_many(queue, ["done", "again", "never", "kept"])
    with client.consume(queue, "g", max=10, wait_s=5) as messages:
        for message in messages:
            if message.deliveries > 1:
                assert message.text == "again"
                assert message.ack().result(10)
                break
            match message.text:
                case "done":
                    message.ack()
                case "again":
                    message.retry(delay_s=0)
                case "never":
                    message.dead_letter("broken")
                case "kept":
                    assert message.extend(600).result(10)
    assert client.group(queue, "g").lag == 1
    [letter] = client.dead_letters(queue).items
    assert (letter.message.text, letter.detail) == ("never", "broken")
    assert client.redrive(queue).retried == 1


def test_a_second_settlement_is_told_to_be_late(client: penstock.Client, queue: str) -> None:
    client.publish(queue, "x")
    with client.consume(queue) as messages:
        message = next(messages)
        assert message.ack().result(10)
        assert not message.ack().result(10)


def test_auto_commit_acknowledges_what_was_handled_before_more_was_asked(client: penstock.Client, queue: str) -> None:
    client.publish_many(queue, range(5))
    with client.consume(queue, "g", auto_commit=3600) as messages:
        assert [next(messages).json() for _ in range(3)] == [0, 1, 2]
    with client.consume(queue, "g", wait_s=5) as messages:
        assert next(messages).json() in (2, 3, 4)
    assert client.group(queue, "g").lag == 3


def test_a_consumer_that_stops_gives_back_what_it_did_not_hand_out(client: penstock.Client, queue: str) -> None:
    client.publish_many(queue, range(10))
    with client.consume(queue, "g", visibility_s=3600) as messages:
        next(messages).ack()
    with client.consume(queue, "g", max=9, wait_s=10) as messages:
        assert sorted(next(messages).json() for _ in range(9)) == list(range(1, 10))


def test_a_waiting_consumer_is_stopped_by_another_thread_and_by_closing(
    url: str, client: penstock.Client, queue: str
) -> None:
    client.create_queue(queue)
    stopped, closing = client.consume(queue), penstock.Client(url)
    threading.Timer(0.2, stopped.stop).start()
    assert list(stopped) == []
    threading.Timer(0.2, closing.close).start()
    assert list(closing.consume(queue)) == []


def test_tasks_produce_and_consume(url: str, queue: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:
            producer = client.producer(queue, batch_messages=10, max_unsent_bytes=300)
            sent = [await producer.send({"n": number}, key=str(number)) for number in range(100)]
            await producer.flush()
            assert all(future.done() for future in sent)
            found: set[int] = set()
            async with client.consume(queue, "g", max=30) as messages:
                async for message in messages:
                    found.add(message.json()["n"])
                    message.ack()
                    if len(found) == 100:
                        break
            assert (await client.group(queue, "g")).lag == 0
            waiting = client.consume(queue, "g")
            asyncio.get_running_loop().call_later(0.1, waiting.stop)
            assert [message async for message in waiting] == []

    run(main())


def test_closing_a_client_flushes_its_producers(url: str, queue: str) -> None:
    with penstock.Client(url) as client:
        future = client.producer(queue, linger_s=3600).send("x")
    assert future.result().offset == 0

    async def main() -> None:
        async with AsyncClient(url) as client:
            producer = client.producer(queue, linger_s=3600)
            future = await producer.send("y")
        assert future.result().id

    run(main())


def test_messages_reach_topics(client: penstock.Client, queue: str) -> None:
    client.create_queue(queue, {"topics": ["sensors/#"]})
    assert client.publish_topic("sensors/1", 21.5).matched == 1
    assert client.publish_topic("nobody/listens", b"x", qos=0, retain=True).accepted == 1
    client.delete_retained("nobody/listens")


def test_a_queue_is_browsed_page_by_page_without_consuming(client: penstock.Client, url: str, queue: str) -> None:
    client.create_queue(queue, {"partitions": 1})
    client.publish_many(queue, range(10))
    assert [message.json() for message in client.browse(queue, page=3)] == list(range(10))
    some = client.browse(queue, from_="offset:2", until="offset:5", partition=0)
    assert [message.offset for message in some] == [2, 3, 4]
    assert client.queue(queue).messages == 10

    async def main() -> list[int]:
        async with AsyncClient(url) as client:
            return [message.json() async for message in client.browse(queue, page=4)]

    assert run(main()) == list(range(10))


def test_events_of_a_queue_come_as_they_are_published_and_go_on_where_they_were(
    client: penstock.Client, queue: str
) -> None:
    client.create_queue(queue, {"partitions": 1})
    client.publish_many(queue, ["old", "older"])
    events = client.events(queue, from_="earliest")
    first = next(events)
    assert (first.kind, first.message.text) == ("message", "old")
    assert next(events).message.text == "older"
    client.publish(queue, "new")
    assert next(events).message.text == "new"
    events.close()
    resumed = client.events(queue, last_event_id=first.id)
    assert next(resumed).message.text == "older"
    client.delete_queue(queue)
    assert [event.kind for event in resumed][-1] == "end"


def test_events_of_topics_are_live(client: penstock.Client) -> None:
    found: list[str] = []
    events = client.topic_events("live/#")
    reading = threading.Thread(target=lambda: found.append(next(events).message.text))
    reading.start()
    while reading.is_alive():
        client.publish_topic("live/1", "x")
        reading.join(0.05)
    assert found == ["x"]
    events.close()


def test_an_admin_works_in_another_namespace(client: penstock.Client, url: str, queue: str) -> None:
    with penstock.Client(url, namespace="other") as other:
        other.publish(queue, "x")
        with other.consume(queue, auto_commit=0) as messages:
            assert next(messages).text == "x"
        assert other.queue(queue).namespace == "other"
    assert queue not in [each.name for each in client.queues()]


def test_queues_and_groups_are_looked_after(client: penstock.Client, queue: str) -> None:
    assert client.create_queue(queue, {"partitions": 2}).settings["partitions"] == 2
    assert queue in [each.name for each in client.queues()]
    client.publish_many(queue, range(4))
    client.create_group(queue, "g", "latest")
    assert [group.name for group in client.groups(queue)] == ["g"]
    assert client.group(queue, "g").lag == 0
    assert client.reset_group(queue, "g", "earliest", dry_run=True).dry_run
    client.reset_group(queue, "g", "earliest")
    assert client.group(queue, "g").lag == 4
    client.pause(queue, "g")
    assert client.group(queue, "g").is_paused
    client.resume(queue, "g")
    assert client.update_queue(queue, {"retry_policy": {"max_retries": 3}})
    assert client.purge(queue, dry_run=True).purged == 4
    assert client.purge(queue).purged == 4
    client.delete_group(queue, "g")
    client.delete_queue(queue)
    with pytest.raises(HttpRefused):
        client.queue(queue)


def test_the_server_tells_about_itself(client: penstock.Client) -> None:
    assert client.health() == {"status": "ok"}
    assert client.ready()["status"] == "ready"
    assert client.version()
    assert client.overview()["is_ready"]
    assert client.config()
    assert client.log_level()
    assert client.clients() == []
    assert client.cluster_status()


def test_more_queues_than_a_page_are_all_listed(
    client: penstock.Client, monkeypatch: pytest.MonkeyPatch, queue: str
) -> None:
    monkeypatch.setattr("penstock.client.http.admin._PAGE", 2)
    names = [f"{queue}/{number}" for number in range(5)]
    for name in names:
        client.create_queue(name)
    assert set(names) <= {each.name for each in client.queues()}


def test_acknowledged_messages_outlive_the_server(tmp_path: Path) -> None:
    with live_server(tmp_path) as server, penstock.Client(f"http://127.0.0.1:{server.ports['http']}") as client:
        assert client.publish("orders", "kept").offset == 0
    (tmp_path / "ready.json").unlink(missing_ok=True)
    with live_server(tmp_path) as server, penstock.Client(f"http://127.0.0.1:{server.ports['http']}") as client:
        assert next(client.consume("orders")).text == "kept"


def test_what_a_killed_server_had_or_had_not_stored_is_there_once_when_it_is_back(tmp_path: Path) -> None:
    retries = Retries(attempts=100, first_delay_s=0.05, longest_delay_s=0.2)
    with live_server(tmp_path) as server:
        port = server.ports["http"]
        client = penstock.Client(f"http://127.0.0.1:{port}", retries=retries)
        client.create_queue("orders", {"partitions": 1})
        producer = client.producer("orders", batch_messages=10)
        futures = [producer.send(number) for number in range(2000)]
        futures[100].result(30)
        server.process.kill()
    (tmp_path / "ready.json").unlink(missing_ok=True)
    with live_server(tmp_path, [f"listeners.http.port={port}"]), client:
        producer.close()
        assert [future.result().offset for future in futures] == list(range(2000))
        assert [message.json() for message in client.browse("orders", page=1000)] == list(range(2000))


def test_logins_by_name_and_by_key_do_what_their_roles_may(tmp_path: Path) -> None:
    said = f"{_PASSWORD}\n".encode()
    run_command("user", "add", "root", "--role", "admin", "--data", tmp_path / "data", given=said)
    with live_server(tmp_path, is_dev=False) as server:
        url = f"http://127.0.0.1:{server.ports['http']}"
        with penstock.Client(url, username="root", password=_PASSWORD) as admin:
            admin.create_user("ann", _PASSWORD, roles=["producer"])
            key = admin.create_key(roles=["read-only"], description="dashboard").key
            assert [user.name for user in admin.users()] == ["ann", "root"]
            [known] = admin.keys()
            assert known.description == "dashboard"
            assert admin.check_rule("ann", "publish", "$queue/orders")
            assert admin.rules() == []
        with penstock.Client(url, username="ann", password=_PASSWORD) as ann:
            ann.publish("orders", "x")
            with pytest.raises(HttpRefused, match="403"):
                next(ann.consume("orders"))
        with penstock.Client(url, api_key=key) as dashboard:
            assert [queue.name for queue in dashboard.queues()] == ["orders"]
            with pytest.raises(HttpRefused, match="403"):
                dashboard.purge("orders")
        with penstock.Client(url, token="psk_no_such") as nobody, pytest.raises(HttpRefused, match="401"):
            nobody.queues()
