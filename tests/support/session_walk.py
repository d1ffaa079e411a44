"""A seeded random walk of clients and accidents through the store of sessions, held against a naive model."""

from __future__ import annotations

import asyncio
import random
from array import array
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

from tests.support.broker import SMALL
from tests.support.sessions import SessionStage, message_ids, take_all, values

from penstock.broker.sessions import snapshots
from penstock.broker.sessions.options import SessionOptions
from penstock.broker.sessions.records import Subscription, Will
from penstock.broker.sessions.session import Session
from penstock.broker.sessions.targets import Targets
from penstock.log.columns import Columns
from penstock.log.segments.keeper import KeeperOptions

CLIENTS = ["ant", "bee", "cat", "dog", "eel"]
FILTERS = ["a/#", "b", "c/+/d"]


@dataclass
class Out:
    """A packet id of QoS 2."""

    value: bytes
    is_received: bool = False


@dataclass
class SessionModel:
    queue: list[bytes] = field(default_factory=list)
    """every message, in order"""
    settled: set[bytes] = field(default_factory=set)
    durable: set[bytes] = field(default_factory=set)
    """of those settled, what a crash does not bring back"""
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    outgoing: dict[int, Out] = field(default_factory=dict)
    completed: dict[int, Out] = field(default_factory=dict)
    """may be there again after a crash"""
    in_flight: dict[int, bytes] = field(default_factory=dict)
    will: Will | None = None
    is_connected: bool = True
    expiry_s: int = 0

    @property
    def open(self) -> list[bytes]:
        return [value for value in self.queue if value not in self.settled]


class SessionWalk:
    def __init__(self, seed: int, directory: Path, steps: int) -> None:
        self.random, self.steps = random.Random(seed), steps
        options = SessionOptions(message_logs=2, settle_delay_s=60.0, segment_bytes=self.random.choice([400, 1500]))
        shard = replace(SMALL, keeper=KeeperOptions(flush_bytes=256, flush_s=0.0))
        self.stage = SessionStage(directory / "0", options, shard)
        self.models: dict[str, SessionModel] = {}
        self.values = self.packet_ids = 0
        self.trace: list[str] = []
        self.copies = 0

    async def run(self) -> None:
        """Snapshots are written session by session, so that life goes on in between."""
        with mock.patch.object(snapshots, "_SESSIONS_IN_TURN", 1):
            await self.stage.open()
            try:
                for _ in range(self.steps):
                    await self._step()
                await self._check()
            finally:
                await self.stage.close()

    async def _step(self) -> None:
        actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (3, self._begin),
            (30, self._send),
            (20, self._settle),
            (8, self._send_exactly_once),
            (6, self._receive),
            (6, self._complete),
            (4, self._hold),
            (4, self._release),
            (3, self._subscribe),
            (3, self._disconnect),
            (3, self._connect),
            (1, self._end),
            (3, self._flush),
            (3, self._snapshot),
            (6, self._keep_up),
            (2, self._restart),
            (3, self._crash),
            (3, self._check),
        ]
        weights, calls = zip(*actions, strict=True)
        [call] = self.random.choices(calls, weights)
        self.trace.append(call.__name__)
        await call()

    def _pick(self) -> tuple[Session, SessionModel] | None:
        if not self.models:
            return None
        client_id = self.random.choice(list(self.models))
        return self.stage.find(client_id), self.models[client_id]

    def _some(self, population: Iterable[int]) -> list[int]:
        found = list(population)
        return sorted(self.random.sample(found, self.random.randint(0, len(found))))

    # Clients

    async def _begin(self) -> None:
        client_id = self.random.choice(CLIENTS)
        will = self.random.choice([None, Will(b"w", b"%d" % self.values)])
        expiry_s = self.random.choice([60, 3600])
        await self.stage.sessions.begin(client_id, owner="o", expiry_s=expiry_s, will=will)
        self.models[client_id] = SessionModel(will=will, expiry_s=expiry_s)

    async def _send(self) -> None:
        count = self.random.randint(1, 6)
        fresh = [b"%06d" % (self.values + number) for number in range(count)]
        self.values += count
        targets = Targets()
        for client_id, model in self.models.items():
            rows = self._some(range(count))
            if rows:
                targets.add(self.stage.find(client_id), array("i", rows), self.random.choice([1, 2, 5]))
                model.queue += [fresh[row] for row in rows]
        accepted = self.stage.sessions.accept(Columns.of(fresh, topics=[b"t"] * count), targets)
        if accepted.parts:
            await self.stage.shard.commit(accepted.parts)
        accepted.close()
        assert not accepted.dropped

    async def _open_ids(self, session: Session, model: SessionModel) -> dict[bytes, int]:
        """Of everything that is not settled."""
        session.rewind()
        taken = await take_all(session)
        named = [one.message_id for one in session.outgoing if not one.is_received]
        taken += await session.look_up(named)
        found = dict(zip(values(taken), message_ids(taken), strict=True))
        assert sorted(found) == sorted(model.open), self.trace[-20:]
        assert sorted(found.values()) == [found[value] for value in sorted(found)]
        return found

    def _busy(self, model: SessionModel) -> set[bytes]:
        return {out.value for out in model.outgoing.values()}

    async def _settle(self) -> None:
        if (picked := self._pick()) is None:
            return
        session, model = picked
        ids = await self._open_ids(session, model)
        free = sorted(value for value in ids if value not in self._busy(model))
        is_prefix = self.random.random() < 0.6
        chosen = free[: self.random.randint(0, len(free))] if is_prefix else self.random.sample(free, len(free) // 2)
        session.settle([ids[value] for value in chosen])
        model.settled.update(chosen)
        model.in_flight = {one: value for one, value in model.in_flight.items() if value not in model.settled}

    async def _send_exactly_once(self) -> None:
        if (picked := self._pick()) is None:
            return
        session, model = picked
        ids = await self._open_ids(session, model)
        free = sorted(value for value in ids if value not in self._busy(model) | set(model.in_flight.values()))[:2]
        packet_ids = [self.packet_ids + number + 1 for number in range(len(free))]
        self.packet_ids += len(free)
        if free:
            await session.sent(packet_ids, [ids[value] for value in free])
            model.outgoing |= {one: Out(value) for one, value in zip(packet_ids, free, strict=True)}

    async def _receive(self) -> None:
        if (picked := self._pick()) is None:
            return
        session, model = picked
        packet_ids = self._some(one for one, out in model.outgoing.items() if not out.is_received)
        if packet_ids:
            await session.received(packet_ids)
        for packet_id in packet_ids:
            model.outgoing[packet_id].is_received = True
            model.settled.add(model.outgoing[packet_id].value)
            model.durable.add(model.outgoing[packet_id].value)

    async def _complete(self) -> None:
        if (picked := self._pick()) is None:
            return
        session, model = picked
        packet_ids = self._some(one for one, out in model.outgoing.items() if out.is_received)
        session.completed(packet_ids)
        for packet_id in packet_ids:
            model.completed[packet_id] = model.outgoing.pop(packet_id)

    async def _hold(self) -> None:
        if (picked := self._pick()) is not None:
            session, model = picked
            packet_id = self.random.randint(1, 9)
            await self.stage.shard.commit([self.stage.sessions.held_part(session, [packet_id])])
            model.held.add(packet_id)

    async def _release(self) -> None:
        if (picked := self._pick()) is not None:
            session, model = picked
            packet_ids = self._some(model.held)
            await self.stage.sessions.released(session, packet_ids)
            model.held -= set(packet_ids)

    async def _subscribe(self) -> None:
        if (picked := self._pick()) is None:
            return
        session, model = picked
        filter = self.random.choice(FILTERS)
        if filter in model.subscriptions:
            await self.stage.sessions.unsubscribe(session, [filter])
            del model.subscriptions[filter]
        else:
            subscription = Subscription(self.random.randint(0, 2), self.random.choice([0, 268_435_455]))
            await self.stage.sessions.subscribe(session, {filter: subscription})
            model.subscriptions[filter] = subscription

    async def _disconnect(self) -> None:
        if (picked := self._pick()) is None:
            return
        session, model = picked
        ids = await self._open_ids(session, model)
        free = sorted(value for value in ids if value not in self._busy(model))[:3]
        model.in_flight = {1000 + number: value for number, value in enumerate(free)}
        keeps_will = self.random.random() < 0.5
        in_flight = [(packet_id, ids[value]) for packet_id, value in model.in_flight.items()]
        await self.stage.sessions.disconnected(session, keeps_will=keeps_will, in_flight=in_flight)
        model.is_connected, model.will = False, model.will if keeps_will else None

    async def _connect(self) -> None:
        if (picked := self._pick()) is not None:
            session, model = picked
            await self.stage.sessions.connected(session, owner="p", expiry_s=7, will=None)
            model.is_connected, model.expiry_s, model.will = True, 7, None

    async def _end(self) -> None:
        if (picked := self._pick()) is not None:
            session, _ = picked
            await self.stage.sessions.end(session)
            del self.models[session.client_id]

    # The store

    async def _flush(self) -> None:
        await self.stage.sessions.flush()
        self._all_is_durable()

    async def _snapshot(self) -> None:
        writing = asyncio.ensure_future(self.stage.sessions._snapshots.write(self.stage.clock.now_ms()))
        for _ in range(self.random.randint(0, 4)):
            await self.random.choice([self._send, self._settle, self._hold, self._release, self._begin, self._end])()
        await writing

    async def _keep_up(self) -> None:
        await self.stage.shard.checkpoint()
        before = [messages.log.end for messages in self.stage.sessions._messages]
        await self.stage.sessions.keep_up(self.stage.clock.now_ms())
        self.copies += sum(messages.log.end for messages in self.stage.sessions._messages) - sum(before)

    async def _restart(self) -> None:
        await self.stage.restart()
        self._all_is_durable()
        await self._check_after_death()

    async def _crash(self) -> None:
        await self.stage.crash()
        await self._check_after_death()

    def _all_is_durable(self) -> None:
        for model in self.models.values():
            model.durable |= model.settled
            model.completed.clear()

    async def _check_after_death(self) -> None:
        """What was not flushed may have come back, in whole or in part; the model believes what it sees."""
        for client_id, model in self.models.items():
            session = self.stage.find(client_id)
            model.is_connected = False
            session.rewind()
            taken = await take_all(session)
            taken += await session.look_up([one.message_id for one in session.outgoing if not one.is_received])
            there = set(values(taken))
            gone = set(model.queue) - there
            assert model.durable <= gone <= model.settled, (client_id, self.trace[-20:])
            model.settled, model.durable = gone, set(gone)
            known = {one.packet_id for one in session.outgoing if one.qos == 2}
            assert set(model.outgoing) <= known <= set(model.outgoing) | set(model.completed), self.trace[-20:]
            model.outgoing |= {one: model.completed[one] for one in known - set(model.outgoing)}
            model.completed.clear()
            self._check_in_flight(session, model, dict(zip(message_ids(taken), values(taken), strict=True)))
        await self._check()

    def _check_in_flight(self, session: Session, model: SessionModel, named: dict[int, bytes]) -> None:
        """Of QoS 1, what was known, and what was sent before something that is."""
        assert len({one.packet_id for one in session.outgoing}) == len(session.outgoing), self.trace[-20:]
        known = set(model.in_flight) | {1000, 1001, 1002}
        below = max([one.message_id for one in session.outgoing if not one.is_received], default=0)
        still = [one for one in session.outgoing if one.qos == 1]
        assert all(one.packet_id in known or one.message_id < below for one in still), self.trace[-20:]
        model.in_flight = {one.packet_id: named[one.message_id] for one in still}

    async def _check(self) -> None:
        assert sorted(one.client_id for one in self.stage.sessions) == sorted(self.models)
        for client_id, model in self.models.items():
            session = self.stage.find(client_id)
            await self._open_ids(session, model)
            assert session.queued == len(model.open)
            assert session.queued_bytes == 7 * len(model.open)
            assert session.subscriptions == model.subscriptions
            assert session.held == model.held
            assert session.will == model.will
            assert (session.is_connected, session.expiry_s) == (model.is_connected, model.expiry_s)
            sent = {one.packet_id: one.is_received for one in session.outgoing if one.qos == 2}
            assert sent == {one: out.is_received for one, out in model.outgoing.items()}
        totals = self.stage.sessions.totals
        assert totals.queued_messages == sum(len(model.open) for model in self.models.values())
        assert totals.lost == 0
        self._check_living()

    def _check_living(self) -> None:
        """Counts of who wants a record are those of the entries."""
        for messages in self.stage.sessions._messages:
            wanted: dict[int, int] = {}
            for session in self.stage.sessions:
                if session.queue.messages is messages:
                    for message_id in range(session.queue.last_id + 1):
                        if (offset := session.queue.offset_of(message_id)) is not None:
                            wanted[offset] = wanted.get(offset, 0) + 1
            for offset in range(messages.log.start, messages.log.end):
                assert messages.living.is_wanted(offset) == (offset in wanted), (offset, self.trace[-20:])
