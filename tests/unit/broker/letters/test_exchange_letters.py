"""Dead letters that are published to an exchange: where they go, and what they say."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.broker import Stage, retries, stage
from tests.support.letter_queues import DEFAULT, PROFILE, classic, deaths, group_of, read_all, send
from tests.support.loop import run

from penstock.broker.feed.held import Held
from penstock.broker.queues.queue import Queue
from penstock.codecs.amqp091.wire import table_of
from penstock.log.columns import Columns
from penstock.queues.deadletter import from_properties
from penstock.queues.exchange_topics import exchange_topic
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import Exchange
from penstock.queues.properties import encode_user_properties
from penstock.queues.rabbit_arguments import Declared
from penstock.queues.rabbit_settings import queue_settings
from penstock.queues.settings import Expiry, Overflow


async def dlx(
    s: Stage, name: str = "dlx", type: str = "fanout", *, to: tuple[str, ...] = ("dead",), key: str = ""
) -> None:
    await s.broker.exchanges.declare("default", Exchange(name, type))
    for queue in to:
        await s.broker.exchanges.bind("default", name, Destination("queue", queue), key, {})


async def taken(s: Stage, queue: Queue, count: int) -> list[Held]:
    found = await s.broker.pull(group_of(queue), s.broker.session(), count)
    return [Held(delivery) for delivery in found]


def test_a_rejected_message_is_published_to_the_exchange_with_its_death(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead, queue = await classic(s, "dead"), await classic(s, exchange="dlx")
            await dlx(s)
            await send(s, "", "q", b"a", b"b", headers={"n": 1, "CC": ["more"]}, correlation_id="c", expiration="60000")
            for held in await taken(s, queue, 10):
                await s.broker.settling.reject(held, "no")
            found = await read_all(s, dead)
            assert [value for value, _, _ in found] == [b"a", b"b"]
            _, properties, topic = found[0]
            assert topic == "$exchange/dlx/q"
            assert (properties.correlation_id, properties.expiration) == ("c", None)
            [death] = deaths(properties)
            assert death == {
                "count": 1,
                "exchange": "",
                "original-expiration": "60000",
                "queue": "q",
                "reason": "rejected",
                "routing-keys": ["q", "more"],
                "time": s.clock.now_ms() // 1000,
            }
            assert group_of(queue).depth() == 0
            tally = group_of(queue).cursor(queue.units[0]).tally
            assert (tally.dead_lettered, tally.dropped) == (2, 0)

    run(main())


def test_the_brokers_own_facts_stand_beside_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead, queue = await classic(s, "dead"), await classic(s, exchange="dlx")
            await dlx(s)
            await send(s, "", "q", b"a")
            [held] = await taken(s, queue, 1)
            await s.broker.settling.reject(held, "no")
            stored = await dead.units[0].stored(0)
            assert stored is not None
            facts = from_properties(stored.batch.properties(0) or b"")
            assert facts is not None
            assert (str(facts.source), facts.detail) == (f"q@{queue.incarnation}:0:0", "no")

    run(main())


def test_a_message_of_another_protocol_dies_with_the_properties_it_had(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead, queue = await classic(s, "dead"), await classic(s, exchange="dlx", topics=["orders/#"])
            await dlx(s)
            properties = [encode_user_properties([("colour", "red"), ("message-id-of-sender", "m")])]
            columns = Columns.of([b"v"], topics=[b"orders/eu.west"], properties=properties, keys=[b"k"])
            await s.broker.publishing.publish(columns, s.publisher)
            [held] = await taken(s, queue, 1)
            await s.broker.settling.reject(held)
            [(_, found, topic)] = await read_all(s, dead)
            assert found.message_id == "m"
            assert (found.headers or {})["colour"].value == "red"
            [death] = deaths(found)
            assert (death["exchange"], death["routing-keys"]) == ("amq.topic", ["orders.eu/west"])
            assert topic == "$exchange/dlx/orders/eu.west"

    run(main())


def test_a_routing_key_of_the_queue_is_used_instead_of_the_messages_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead, queue = await classic(s, "dead"), await classic(s, exchange="", key="dead")
            await send(s, "", "q", b"a", headers={"CC": ["q", "dead"]})
            [held] = await taken(s, queue, 1)
            await s.broker.settling.reject(held)
            [(_, properties, topic)] = await read_all(s, dead)
            assert topic == exchange_topic("", b"dead").decode()
            assert "CC" not in (properties.headers or {})

    run(main())


def test_the_keys_that_a_publisher_named_beside_are_followed(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            one, two = await classic(s, "one"), await classic(s, "two")
            queue = await classic(s, exchange="dlx")
            await dlx(s, type="direct", to=("one",), key="q")
            await s.broker.exchanges.bind("default", "dlx", Destination("queue", "two"), "copy", {})
            await send(s, "", "q", b"a", headers={"CC": ["copy", "nowhere"]})
            await send(s, "", "q", b"b")
            for held in await taken(s, queue, 2):
                await s.broker.settling.reject(held)
            assert [value for value, _, _ in await read_all(s, one)] == [b"a", b"b"]
            assert [value for value, _, _ in await read_all(s, two)] == [b"a"]

    run(main())


def test_letters_that_nobody_gets_are_dropped_and_counted(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await classic(s, exchange="not-there")
            await send(s, "", "q", b"a", b"b")
            for held in await taken(s, queue, 2):
                await s.broker.settling.reject(held)
            tally = group_of(queue).cursor(queue.units[0]).tally
            assert (group_of(queue).depth(), tally.dead_lettered, tally.dropped) == (0, 0, 2)

    run(main())


def test_a_second_death_of_the_same_kind_counts_and_others_come_in_front(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            queue = await classic(s, exchange="", key="other")
            other = await classic(s, "other", exchange="", key="q")
            await send(s, "", "q", b"a")
            for at in (queue, other, queue):
                [held] = await taken(s, at, 1)
                await s.broker.settling.reject(held)
            [held] = await taken(s, other, 1)
            [_, (_, properties, _)] = await read_all(s, other)
            found = [(death["queue"], death["count"]) for death in deaths(properties)]
            assert found == [("q", 2), ("other", 1)]
            headers = properties.headers or {}
            assert headers["x-first-death-queue"].value == "q"

    run(main())


def test_letters_of_an_internal_exchange_and_of_headers(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            red, blue = await classic(s, "red"), await classic(s, "blue")
            queue = await classic(s, exchange="inner")
            await s.broker.exchanges.declare("default", Exchange("inner", "headers", internal=True))
            for name in ("red", "blue"):
                await s.broker.exchanges.bind(
                    "default", "inner", Destination("queue", name), "", {"x-match": "all", "colour": name}
                )
            await send(s, "", "q", b"r", headers={"colour": "red"})
            await send(s, "", "q", b"b", headers={"colour": "blue"})
            for held in await taken(s, queue, 2):
                await s.broker.settling.reject(held)
            assert [value for value, _, _ in await read_all(s, red)] == [b"r"]
            assert [value for value, _, _ in await read_all(s, blue)] == [b"b"]

    run(main())


def test_a_move_to_an_exchange_is_whole_or_not_at_all(tmp_path: Path) -> None:
    """Copies of the disk at many moments: the message is in the one queue or in the others."""

    async def main() -> None:
        async with stage(tmp_path / "a") as s:
            for name in ("one", "two"):
                await classic(s, name)
            queue = await classic(s, exchange="dlx")
            await dlx(s, to=("one", "two"))
            copies = []
            for number in range(6):
                await send(s, "", "q", bytes([number]))
                [held] = await taken(s, queue, 1)
                moving = s.broker.settling.reject(held)
                if number % 2:
                    await moving
                await s.broker.shard.checkpoint()
                copies.append(tmp_path / f"copy{number}")
                shutil.copytree(s.directory, copies[-1])
                await moving
        for copy in copies:
            async with stage(copy) as s:
                await s.quiet()
                q, one, two = (s.broker.queue(name) for name in ("q", "one", "two"))
                dead = [value for value, _, _ in await read_all(s, one)]
                assert dead == [value for value, _, _ in await read_all(s, two)]
                published = q.units[0].end
                assert group_of(q).depth() == published - len(dead)

    run(main())


def test_one_that_fails_for_good_goes_to_the_exchange_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead = await classic(s, "dead")
            queue = await classic(s, exchange="dlx", retry_policy=retries(0))
            await dlx(s)
            await send(s, "", "q", b"a")
            [held] = await taken(s, queue, 1)
            await s.broker.settling.fail(held)
            [(_, properties, _)] = await read_all(s, dead)
            assert deaths(properties)[0]["reason"] == "delivery_limit"

    run(main())


def test_queues_in_memory_alone_have_dead_letters_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            dead = await classic(s, "dead")
            for name, letters, limits in (
                ("q", {"exchange": "", "routing_key": "beside"}, {"message_ttl": "1s", "expiry": "at-head"}),
                ("beside", {"exchange": "", "routing_key": "dead"}, {"expiry": "at-head"}),
            ):
                settings = s.broker.declaring.settings_for(
                    name, {**PROFILE, "name": name, "dlq_config": letters, "limits": limits}
                )
                s.broker.declaring.declare_volatile(settings, [DEFAULT])
            queue, beside = s.broker.queue("q"), s.broker.queue("beside")
            await send(s, "", "q", b"a")
            await s.advance(1)
            assert (group_of(queue).depth(), group_of(beside).ready()) == (0, 1)
            [held] = await taken(s, beside, 1)
            await s.broker.settling.reject(held)
            [(value, properties, _)] = await read_all(s, dead)
            assert value == b"a"
            assert [(each["queue"], each["reason"]) for each in deaths(properties)] == [
                ("beside", "rejected"),
                ("q", "expired"),
            ]

    run(main())


def test_arguments_of_amqp_are_these_settings(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            arguments = {
                "x-message-ttl": 5000,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "dead",
                "x-max-length": 7,
                "x-max-length-bytes": 1000,
                "x-overflow": "reject-publish-dlx",
                "x-expires": 60_000,
            }
            declared = Declared(arguments=table_of(arguments))
            made = s.broker.declaring.settings_for("q", {"name": "q", **queue_settings(declared)})
            assert (made.dead_letter_exchange, made.dlq_config.routing_key) == ("", "dead")
            assert (made.limits.max_ready, made.limits.max_ready_bytes_) == (7, 1000)
            assert (made.limits.expiry, made.limits.message_ttl_ms) == (Expiry.AT_HEAD, 5000)
            assert (made.overflow, made.expires_after_ms) == (Overflow.REJECT_DEAD_LETTER, 60_000)
            assert (made.performance.delivery_timeout_ms, made.retry_policy.max_retries) == (None, None)

    run(main())
