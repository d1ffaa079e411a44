"""Stored and volatile queues together, against lists of messages: whatever is published to any of them at once, taken,
settled, put back, purged or deleted, each message is at one place; a refusal has no effect on any; after a restart the
stored ones have all they had, and of the volatile ones and their bindings nothing is left."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.support.broker import Stage, got, retries
from tests.support.volatile import used

from penstock.broker.browsing import browse
from penstock.broker.catalogue.volatile import VolatileOptions
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.held import Held
from penstock.broker.queues.queue import Queue
from penstock.core.errors import QueueExists, QueueFull
from penstock.log.columns import Columns
from penstock.queues.exchange_topics import exchange_topic
from penstock.queues.exchange_types import Destination
from penstock.queues.names import GroupName

DURABLE, VOLATILE = ("d0", "d1"), ("v0", "v1", "v2")
DEFAULT = GroupName("default")
KEY, TOPIC = "k", exchange_topic("amq.direct", b"k")
DEPTH, QUEUE_BYTES = 12, 4000
SETTINGS = {
    "partitions": 1,
    "ordering": "none",
    "max_deliveries": 0,
    "retry_policy": retries(1000, total_timeout=0),
    "dlq_config": {"enabled": False},
    "retention": {"settled": "delete"},
}
T = TypeVar("T")


@dataclass
class Model:
    """What of a queue nobody has settled, in order; None is who holds it while nobody does."""

    messages: dict[int, bytes] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    end: int = 0
    is_bound: bool = False

    @property
    def ready(self) -> list[int]:
        return [offset for offset in self.messages if offset not in self.held]

    def add(self, *values: bytes) -> None:
        for value in values:
            self.messages[self.end] = value
            self.end += 1

    def settle(self, *offsets: int) -> None:
        for offset in offsets:
            del self.messages[offset], self.held[offset]


class Together(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = tempfile.TemporaryDirectory()
        self.stage = Stage(Path(self.directory.name) / "data")
        self.stage.options = replace(self.stage.options, volatile=VolatileOptions(queue_bytes=QUEUE_BYTES))
        self.models: dict[str, Model] = {}
        self.deliveries: dict[str, list[Delivery]] = {}
        self.values = self.sessions = 0
        self.run(self.stage.open())

    def teardown(self) -> None:
        self.run(self.stage.broker.close())
        self.loop.close()
        self.directory.cleanup()

    def run(self, work: Awaitable[T]) -> T:
        async def main() -> T:
            found = await work
            await self.stage.quiet()
            return found

        return self.loop.run_until_complete(main())

    def queue(self, name: str) -> Queue:
        return self.stage.broker.queue(name)

    def new(self, count: int, size: int) -> list[bytes]:
        self.values += count
        return [b"%d:" % number + b"x" * size for number in range(self.values - count, self.values)]

    # Queues and bindings

    @rule(name=st.sampled_from(DURABLE + VOLATILE), is_volatile=st.booleans())
    def declare(self, name: str, is_volatile: bool) -> None:
        """Any name may be either's; mostly it is its own kind's."""
        is_volatile = is_volatile or name in VOLATILE
        limits = {"max_queue_depth": None if is_volatile else DEPTH, "message_ttl": 0}
        declaring = self.stage.broker.declaring
        wanted = declaring.settings_for(name, {"name": name, "limits": limits} | SETTINGS)

        async def work() -> Queue:
            if is_volatile:
                return declaring.declare_volatile(wanted, (DEFAULT,))
            return await declaring.declare(wanted, (DEFAULT,))

        try:
            made = self.run(work())
        except QueueExists:
            assert name in self.models
        else:
            assert name not in self.models and made.is_volatile is is_volatile
            self.models[name], self.deliveries[name] = Model(), []

    @rule(data=st.data())
    @precondition(lambda self: self.models)
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        self.run(self.stage.broker.declaring.delete(self.queue(name)))
        del self.models[name], self.deliveries[name]

    @rule(data=st.data(), is_bound=st.booleans())
    @precondition(lambda self: self.models)
    def bind(self, data: st.DataObject, is_bound: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        exchanges, model = self.stage.broker.exchanges, self.models[name]
        if is_bound != model.is_bound:
            work = exchanges.bind if is_bound else exchanges.unbind
            self.run(work("default", "amq.direct", Destination("queue", name), KEY))
            model.is_bound = is_bound

    # Messages

    def takes(self, name: str, rows: list[bytes]) -> bool | None:
        """Whether it takes them; None where that is for the broker to say."""
        if not self.queue(name).is_volatile:
            return len(self.models[name].messages) + len(rows) <= DEPTH
        return None

    def put_all(self, names: list[str], rows: list[bytes], work: Awaitable[object]) -> None:
        expected = [self.takes(name, rows) for name in names]
        try:
            self.run(work)
        except QueueFull:
            assert not all(expected) or None in expected
        else:
            assert False not in expected
            for name in names:
                self.models[name].add(*rows)

    @rule(count=st.integers(1, 4), size=st.sampled_from([1, 1, 300]))
    def publish_through_an_exchange(self, count: int, size: int) -> None:
        names = [name for name, model in self.models.items() if model.is_bound]
        rows = self.new(count, size)
        columns = Columns.of(rows, topics=[TOPIC] * count)
        publishing = self.stage.broker.publishing
        self.put_all(names, rows, publishing.publish(columns, self.stage.publisher))

    @rule(data=st.data(), count=st.integers(1, 4), size=st.sampled_from([1, 1, 300]), is_awaited=st.booleans())
    @precondition(lambda self: self.models)
    def publish(self, data: st.DataObject, count: int, size: int, is_awaited: bool) -> None:
        name, rows = data.draw(st.sampled_from(sorted(self.models))), self.new(count, size)
        publishing, queue, columns = self.stage.broker.publishing, self.queue(name), Columns.of(rows)

        async def work() -> None:
            if is_awaited:
                await publishing.put(queue, columns, self.stage.publisher)
            else:
                staged = publishing.put_now(queue, columns, self.stage.publisher)
                assert staged is not None
                await staged[1]

        self.put_all([name], rows, work())

    @rule(data=st.data(), limit=st.integers(1, 5))
    @precondition(lambda self: self.models)
    def take(self, data: st.DataObject, limit: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        model, group = self.models[name], self.queue(name).groups[DEFAULT]
        self.sessions += 1
        found = self.run(self.stage.broker.pull(group, self.sessions, limit, lease_ms=10_000_000))
        wanted = model.ready[:limit]
        assert [(message.offset, message.value) for message in got(found)] == [
            (offset, model.messages[offset]) for offset in wanted
        ]
        model.held |= dict.fromkeys(wanted, self.sessions)
        self.deliveries[name] += found

    def held_by_somebody(self, data: st.DataObject) -> tuple[str, Delivery] | None:
        names = sorted(name for name, found in self.deliveries.items() if found)
        if not names:
            return None
        name = data.draw(st.sampled_from(names))
        at = data.draw(st.integers(0, len(self.deliveries[name]) - 1))
        return name, self.deliveries[name].pop(at)

    @rule(data=st.data(), how=st.sampled_from(["ack", "reject", "release", "fail"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        if (found := self.held_by_somebody(data)) is None:
            return
        name, delivery = found
        model, settling, mine = self.models[name], self.stage.broker.settling, list(delivery.offsets)

        async def work() -> int:
            held = Held(delivery)
            if how == "ack":
                return (await settling.ack(held)).done
            if how == "reject":
                return (await settling.reject(held)).done
            return (await (settling.release(held) if how == "release" else settling.fail(held, 0))).done

        still = [offset for offset in mine if offset in model.held]
        assert self.run(work()) == len(still)
        self.run(self.stage.advance(0.001))
        if how in ("ack", "reject"):
            model.settle(*still)
        else:
            for offset in still:
                del model.held[offset]

    @rule(data=st.data(), source=st.sampled_from(DURABLE + VOLATILE))
    @precondition(lambda self: self.models)
    def work_in_a_transaction(self, data: st.DataObject, source: str) -> None:
        """What was taken of one is settled with what is put to another."""
        if not self.deliveries.get(source):
            return
        delivery = self.deliveries[source].pop(0)
        name, rows = data.draw(st.sampled_from(sorted(self.models))), self.new(1, 1)
        still = [offset for offset in delivery.offsets if offset in self.models[source].held]
        if len(still) < len(delivery.offsets):
            return
        together = self.stage.broker.transaction(self.stage.publisher)
        together.ack(Held(delivery))
        together.put(self.queue(name), Columns.of(rows))
        before = self.models[name].end
        self.put_all([name], rows, together.commit())
        if self.models[name].end > before:
            self.models[source].settle(*still)
        else:
            self.deliveries[source].append(delivery)

    @rule(data=st.data(), is_all=st.booleans())
    @precondition(lambda self: self.models)
    def purge(self, data: st.DataObject, is_all: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.models)))
        broker, queue, model = self.stage.broker, self.queue(name), self.models[name]
        if is_all:
            self.run(broker.declaring.purge(queue))
            model.messages.clear()
            model.held.clear()
            self.deliveries[name].clear()
        else:
            group = queue.groups[DEFAULT]

            async def work() -> int:
                return (await broker.settling.purge_ready(group)).done

            ready = model.ready
            assert self.run(work()) == len(ready)
            for offset in ready:
                del model.messages[offset]

    @rule()
    def restart(self) -> None:
        stored = [name for name in self.models if not self.queue(name).is_volatile]
        self.run(self.stage.advance(0.001))
        self.loop.run_until_complete(self.stage.restart())
        self.models = {name: self.models[name] for name in stored}
        # What was leased stays leased; those who held it are gone.
        self.deliveries = {name: [] for name in stored}

    # What holds

    @invariant()
    def queues_are_those_that_were_declared(self) -> None:
        broker = self.stage.broker
        assert {queue.name for queue in broker.queues} == self.models.keys()
        bound = {each.destination.name for each in broker.exchanges.bindings("default")}
        assert bound == {name for name, model in self.models.items() if model.is_bound}

    @invariant()
    def each_message_is_at_one_place(self) -> None:
        for name, model in self.models.items():
            group = self.queue(name).groups[DEFAULT]
            assert (group.depth(), group.ready()) == (len(model.messages), len(model.ready)), name

    @invariant()
    def what_is_settled_is_not_in_memory(self) -> None:
        total = 0
        for name, model in self.models.items():
            if not (queue := self.queue(name)).is_volatile:
                continue
            log = queue.units[0].data
            total += sum([len(entry.data) for entry in log.tail])
            assert log.start == min(model.messages, default=log.end)
            assert not log.tail or log.tail[-1].end > log.start or not model.messages
        assert (used(self.stage) == 0) is (total == 0) and used(self.stage) >= total

    @invariant()
    def a_look_shows_what_is_there(self) -> None:
        async def look(queue: Queue) -> dict[int, bytes]:
            return {each.row.offset: each.row.value async for each in browse(self.stage.broker, queue)}

        for name, model in self.models.items():
            if (queue := self.queue(name)).is_volatile:
                seen = self.loop.run_until_complete(look(queue))
                assert model.messages.items() <= seen.items()


def test_stored_and_volatile_queues_together() -> None:
    run_state_machine_as_test(Together, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))
