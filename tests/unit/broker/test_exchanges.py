from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.broker import Stage, stage
from tests.support.loop import run

from penstock.broker.queues.queue import Queue
from penstock.core.errors import (
    DefaultExchange,
    ExchangeDiffers,
    ExchangeInUse,
    ExchangeReserved,
    InvalidArgument,
    NoSuchBinding,
    NoSuchExchange,
    NoSuchQueue,
    PenstockError,
    QueueFull,
)
from penstock.log.columns import Columns
from penstock.queues.exchange_topics import exchange_topic
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import Exchange
from penstock.queues.properties import encode_user_properties


def to(queue: str) -> Destination:
    return Destination("queue", queue)


async def sent(s: Stage, exchange: str, key: str, *messages: bytes, headers: Sequence[dict[str, str]] = ()) -> set[str]:
    """The queues that got some of it."""
    topics = [exchange_topic(exchange, key.encode())] * len(messages)
    properties = [encode_user_properties(each.items()) for each in headers] or None
    columns = Columns.of(messages, topics=topics, properties=properties)
    return {each.queue.name for each in await s.broker.publishing.publish(columns, s.publisher)}


async def taken(s: Stage, queue: Queue) -> list[bytes]:
    """What is in it, for the first time."""
    consumer = await s.consumer(queue, "look")
    return [message.value for message in await s.receive(consumer)]


def test_exchanges_and_bindings_outlive_a_restart_and_what_went_does_not_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            for name in ("a", "b"):
                await s.queue(name)
            book, ns = s.broker.exchanges, "default"
            rich = Exchange("rich", "x-delayed-message", True, False, True, "amq.fanout", {"x-delayed-type": "topic"})
            for exchange in (
                rich,
                Exchange("x", "topic"),
                Exchange("gone", "fanout"),
                Exchange("light", "fanout", False),
            ):
                assert await book.declare(ns, exchange)
            assert await book.bind(ns, "x", to("a"), "k.#.v", {"n": 1})
            assert await book.bind(ns, "x", to("b"), "k.*")
            assert await book.bind(ns, "x", Destination("exchange", "rich"), "#")
            assert await book.bind(ns, "gone", to("a"))
            assert await book.bind(ns, "light", to("a"))
            await book.unbind(ns, "x", to("b"), "k.*")
            await book.delete(ns, "gone")
            before = book.bindings(ns)
            await s.restart()
            book = s.broker.exchanges
            assert {each.name for each in book.of(ns)} >= {"rich", "x"}
            assert book.of(ns).find("rich") == rich
            assert "gone" not in book.of(ns)
            assert "light" not in book.of(ns)
            assert set(map(str, book.bindings(ns))) == {str(each) for each in before if each.source != "light"}
            assert await sent(s, "x", "k.1.2.v", b"m") == {"a"}
            # Numbers of bindings go on behind those that are there.
            assert await book.bind(ns, "x", to("b"), "new")
            await s.restart()
            assert len(s.broker.exchanges.bindings(ns)) == 3

    run(main())


def test_a_crash_between_binding_and_publishing_loses_neither(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "first") as s:
            await s.queue("a")
            await s.broker.exchanges.declare("default", Exchange("x", "direct"))
            await s.broker.exchanges.bind("default", "x", to("a"), "k")
            await s.crash(tmp_path / "second")
            assert await sent(s, "x", "k", b"one") == {"a"}
            await s.crash(tmp_path / "third")
            assert await taken(s, s.broker.queue("a")) == [b"one"]
            assert await sent(s, "x", "k", b"two") == {"a"}

    run(main())


def test_a_queue_takes_its_bindings_along_and_one_of_its_name_is_not_bound(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue("a")
            await s.broker.exchanges.declare("default", Exchange("x", "fanout", auto_delete=True))
            await s.broker.exchanges.declare("default", Exchange("y", "fanout"))
            for source in ("x", "y"):
                await s.broker.exchanges.bind("default", source, to("a"))
            await s.broker.declaring.delete(queue)
            await s.queue("a")
            for _ in range(2):
                assert s.broker.exchanges.bindings("default") == []
                assert "x" not in s.broker.exchanges.of("default")
                assert await sent(s, "y", "", b"m") == set()
                await s.restart()

    run(main())


def test_declaring_and_binding_again_is_fine_and_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.queue("a")
            book = s.broker.exchanges
            assert await book.declare("default", Exchange("x", "direct"))
            assert await book.bind("default", "x", to("a"), "k")
            assert await book.bind("default", "amq.topic", to("a"), "k.*")
            version, end = book.version("default"), s.broker.declaring._configuration.log.end
            assert not await book.declare("default", Exchange("x", "direct"))
            assert not await book.bind("default", "x", to("a"), "k")
            assert not await book.bind("default", "amq.topic", to("a"), "k.*")
            with pytest.raises(ExchangeDiffers):
                await book.declare("default", Exchange("x", "topic"))
            assert (book.version("default"), s.broker.declaring._configuration.log.end) == (version, end)

    run(main())


def test_what_cannot_be_done_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.queue("a")
            book, ns = s.broker.exchanges, "default"
            await book.declare(ns, Exchange("x", "direct"))
            await book.bind(ns, "x", to("a"), "k")
            end = s.broker.declaring._configuration.log.end
            refused: list[tuple[type[PenstockError], object]] = [
                (NoSuchExchange, book.bind(ns, "nowhere", to("a"))),
                (NoSuchQueue, book.bind(ns, "x", to("nobody"))),
                (NoSuchExchange, book.bind(ns, "x", Destination("exchange", "nowhere"))),
                (DefaultExchange, book.bind(ns, "", to("a"))),
                (DefaultExchange, book.unbind(ns, "", to("a"))),
                (NoSuchBinding, book.unbind(ns, "x", to("a"), "other")),
                (NoSuchBinding, book.unbind(ns, "amq.topic", to("a"), "other")),
                (NoSuchQueue, book.unbind(ns, "x", to("nobody"), "k")),
                (NoSuchExchange, book.delete(ns, "nowhere")),
                (ExchangeInUse, book.delete(ns, "x", if_unused=True)),
                (ExchangeReserved, book.delete(ns, "amq.fanout")),
                (ExchangeReserved, book.delete(ns, "")),
                (InvalidArgument, book.bind(ns, "amq.headers", to("a"), "", {"x-match": "some"})),
            ]
            for error, doing in refused:
                with pytest.raises(error):
                    await doing  # type: ignore[misc]
            assert s.broker.declaring._configuration.log.end == end
            await book.unbind(ns, "x", to("a"), "k")
            await book.delete(ns, "x", if_unused=True)

    run(main())


def test_a_binding_of_the_topic_exchange_and_a_topic_of_a_queue_are_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue("a", topics=["x/+", "$queue/b/#"])
            book = s.broker.exchanges
            assert [each.key for each in book.bindings("default", destination=to("a"))] == ["x.*"]
            await book.bind("default", "amq.topic", to("a"), "a.*.b")
            assert list(queue.settings.topics) == ["x/+", "$queue/b/#", "a/+/b"]
            await book.unbind("default", "amq.topic", to("a"), "x.*")
            await book.bind("default", "amq.topic", to("a"), "#.end")
            assert list(queue.settings.topics) == ["$queue/b/#", "a/+/b"]
            await s.restart()
            told = s.broker.exchanges.bindings("default", "amq.topic")
            assert {each.key for each in told} == {"a.*.b", "#.end"}
            for topic in (b"a/1/b", b"$exchange/amq.topic/a/1/b", b"any/where/end", b"$exchange/amq.topic/end"):
                assert [each.queue.name for each in await s.publish(topic, b"m")] == ["a"]
            assert await s.publish(b"other", b"m") == []
            with pytest.raises(NoSuchBinding):
                await s.broker.exchanges.unbind("default", "amq.topic", to("a"), "#.start")
            await s.broker.exchanges.unbind("default", "amq.topic", to("a"), "#.end")
            assert await s.publish(b"any/where/end", b"m") == []

    run(main())


def test_each_message_of_a_call_goes_where_its_headers_say_in_one_frame_and_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queues = {name: await s.queue(name) for name in ("red", "blue", "all", "rest")}
            book = s.broker.exchanges
            await book.declare("default", Exchange("h", "headers", alternate="amq.fanout"))
            for colour in ("red", "blue"):
                await book.bind("default", "h", to(colour), "", {"colour": colour})
            await book.bind("default", "h", to("all"), "", {"x-match": "any", "colour": "red", "size": 1})
            await book.bind("default", "amq.fanout", to("rest"))
            said = [{"colour": "red"}, {"colour": "blue"}, {"size": "1"}, {"colour": "red", "size": "2"}, {"size": "9"}]
            assert await sent(s, "h", "k", b"0", b"1", b"2", b"3", b"4", headers=said) == set(queues)
            assert {name: await taken(s, queue) for name, queue in queues.items()} == {
                "red": [b"0", b"3"],
                "blue": [b"1"],
                "all": [b"0", b"2", b"3"],
                "rest": [b"4"],
            }

    run(main())


def test_a_message_for_several_queues_is_taken_by_all_or_none(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            full = await s.queue("full", limits={"max_queue_depth": 1})
            other = await s.queue("other")
            await s.broker.group(full, "g")
            for name in ("full", "other"):
                await s.broker.exchanges.bind("default", "amq.fanout", to(name))
            assert await sent(s, "amq.fanout", "", b"fits") == {"full", "other"}
            with pytest.raises(QueueFull):
                await sent(s, "amq.fanout", "", b"too much")
            assert await taken(s, other) == [b"fits"]

    run(main())


def test_a_hundred_queues_are_one_frame(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            for number in range(100):
                await s.queue(f"q{number}")
                await s.broker.exchanges.bind("default", "amq.fanout", to(f"q{number}"))
            await sent(s, "amq.fanout", "", b"makes the logs")
            before = s.broker.shard.metrics.frames
            assert len(await sent(s, "amq.fanout", "", b"m")) == 100
            assert s.broker.shard.metrics.frames - before == 1

    run(main())


def test_unknown_exchanges_and_queues_refuse_and_the_default_exchange_makes_no_queue(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.queue("orders")
            assert await sent(s, "", "orders", b"m") == {"orders"}
            assert await sent(s, "", "nobody", b"m") == set()
            assert [queue.name for queue in s.broker.queues] == ["orders"]
            with pytest.raises(NoSuchExchange):
                await sent(s, "nowhere", "k", b"m")

    run(main())


def test_namespaces_have_exchanges_of_their_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await s.queue("a")
            await s.queue("a2", namespace="other")
            await s.broker.exchanges.declare("other", Exchange("x", "direct"))
            with pytest.raises(NoSuchQueue):
                await s.broker.exchanges.bind("other", "x", to("a"))
            await s.broker.exchanges.bind("other", "x", to("a2"), "k")
            with pytest.raises(NoSuchExchange):
                await sent(s, "x", "k", b"m")
            await s.restart()
            assert "x" in s.broker.exchanges.of("other")
            assert "x" not in s.broker.exchanges.of("default")

    run(main())


def test_bindings_that_come_while_their_exchange_or_queue_goes_leave_nothing_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            book = s.broker.exchanges
            for round in range(10):
                first, second = await s.queue(f"a{round}"), await s.queue(f"b{round}")
                await book.declare("default", Exchange("x", "fanout", auto_delete=True))
                await book.bind("default", "x", to(first.name))
                outcomes = await asyncio.gather(
                    book.bind("default", "x", to(second.name)),
                    s.broker.declaring.delete(first),
                    book.bind("default", "x", to(first.name), "again"),
                    book.bind("default", "amq.topic", to(first.name), "a.b"),
                    return_exceptions=True,
                )
                assert all(
                    outcome is True or outcome is None or isinstance(outcome, PenstockError) for outcome in outcomes
                )
                wanted = await sent(s, "x", "", b"m")
                assert wanted == {second.name}
                await book.delete("default", "x")
            await s.restart()
            assert s.broker.exchanges.bindings("default") == []

    run(main())


def test_topics_too_long_to_be_remembered_go_the_same_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await s.queue("a", topics=["long/#"])
            await s.queue("b")
            await s.broker.exchanges.bind("default", "amq.headers", to("b"), "", {"k": "v"})
            for _ in range(2):
                assert await sent(s, "amq.topic", "long." + "x" * 600, b"m") == {"a"}
                assert await sent(s, "amq.headers", "x" * 600, b"m", headers=[{"k": "v"}]) == {"b"}
                assert await sent(s, "amq.direct", "x" * 600, b"m") == set()
            batch = (await queue.units[0].stored(0)).batch  # type: ignore[union-attr]
            assert (batch.topic(0) or b"").startswith(b"long/x")

    run(main())
