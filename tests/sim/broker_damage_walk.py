"""One damaged file of the directory of a broker that was closed: of what was declared, users, sessions, retained
messages, queues with their state and snapshots, and the book of stages. It starts, and nothing that was acknowledged is
missing, and nothing that was settled is back, without being told."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import traceback
from array import array
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from tests.support.broker import Stage, retries, stage
from tests.support.sessions import HOUR_S, take_all, values

from penstock.broker.auth.store import Store, User, key_of
from penstock.broker.queues import snapshots
from penstock.broker.retained.retained import Retained
from penstock.broker.sessions.options import SessionOptions
from penstock.broker.sessions.records import Subscription
from penstock.broker.sessions.sessions import Sessions
from penstock.broker.sessions.targets import Targets
from penstock.core.errors import LogDamaged, LogPoisoned
from penstock.log.columns import Columns

WAYS = ("flip", "flip", "zeros", "cut", "gone")
QUEUES, CLIENTS, TOPICS = ("p", "q", "r"), ("one", "two"), (b"a", b"b/c", b"d")
SESSIONS = SessionOptions(message_logs=1)


@dataclass
class Truth:
    """What clients were told."""

    users: set[str] = field(default_factory=set)
    waiting: dict[str, set[bytes]] = field(default_factory=dict)
    settled: dict[str, set[bytes]] = field(default_factory=dict)
    sessions: dict[str, list[bytes]] = field(default_factory=dict)
    retained: set[bytes] = field(default_factory=set)
    staged: int = 0


@dataclass
class Told:
    lines: list[str] = field(default_factory=list)

    def of(self, *names: str) -> bool:
        return any(name in line for line in self.lines for name in names)


class _Lines(logging.Handler):
    def __init__(self, told: Told) -> None:
        super().__init__(logging.WARNING)
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        self._told.lines.append(unquote(record.getMessage()))


@contextmanager
def _listening(told: Told) -> Iterator[None]:
    logger, lines = logging.getLogger("penstock"), _Lines(told)
    logger.addHandler(lines)
    propagate, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(lines)
        logger.propagate = propagate


@dataclass
class Opened:
    stage: Stage
    store: Store
    sessions: Sessions
    retained: Retained


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Opened]:
    async with stage(directory) as s:
        store = await Store.open(s.broker.shard)
        sessions = await Sessions.open(s.broker.shard, s.broker.now, SESSIONS)
        retained = await Retained.open(s.broker.shard)
        try:
            yield Opened(s, store, sessions, retained)
        finally:
            retained.close()
            await sessions.close()


async def lived(directory: Path, rng: random.Random) -> Truth:
    """A directory that was closed."""
    truth = Truth()
    async with opened(directory) as broker:
        for name in QUEUES:
            await _use_queue(broker.stage, name, rng, truth)
        for name in ("ada", "bob", "eve"):
            await broker.store.write([(key_of(user := User(name)), user)])
        await broker.store.write([(key_of(User("eve")), None)])
        truth.users = {"ada", "bob"}
        for client in CLIENTS:
            await _use_session(broker, client, rng, truth)
        space = await broker.retained.space()
        for topic in TOPICS:
            await broker.stage.broker.shard.commit(space.parts(Columns.of([b"v"], topics=[topic]), array("i", [0])))
        truth.retained = set(TOPICS)
        for number in range(2):
            queue = broker.stage.broker.queue("p")
            await broker.stage.broker.staging.stage(queue, Columns.of([b"s"]), writer=f"w{number}")
        truth.staged = 2
    return truth


async def _use_queue(s: Stage, name: str, rng: random.Random, truth: Truth) -> None:
    """Some messages are settled, some in flight, some nobody has seen."""
    queue = await s.queue(name, retry_policy=retries(20, "1s"))
    consumer = await s.consumer(queue)
    waiting, settled = truth.waiting.setdefault(name, set()), truth.settled.setdefault(name, set())
    for number in range(rng.choice((3, 12))):
        messages = [b"%s-%d-%d" % (name.encode(), number, row) for row in range(rng.choice((1, 4)))]
        await s.put(queue, *messages, keys=[message[-1:] for message in messages])
        waiting.update(messages)
        for message in await s.receive(consumer, 2):
            if rng.random() < 0.7:
                await s.ack(consumer, message)
                waiting.discard(message.value)
                settled.add(message.value)
        if rng.random() < 0.2:
            await snapshots.write(s.broker.shard, queue, queue.units[0], s.clock.now_ms() + number)


async def _use_session(broker: Opened, client: str, rng: random.Random, truth: Truth) -> None:
    session = await broker.sessions.begin(client, owner=client, expiry_s=HOUR_S)
    await broker.sessions.subscribe(session, {f"{client}/#": Subscription(1)})
    sent = [b"%s-%d" % (client.encode(), number) for number in range(rng.choice((1, 3)))]
    columns, targets = Columns.of(sent, topics=[b"t"] * len(sent)), Targets()
    targets.add(session, array("i", range(len(sent))), 1)
    accepted = broker.sessions.accept(columns, targets)
    await broker.stage.broker.shard.commit(accepted.parts)
    accepted.close()
    truth.sessions[client] = sent
    if rng.random() < 0.5:
        await broker.sessions._snapshots.write(broker.stage.clock.now_ms())


def damage(rng: random.Random, path: Path, way: str) -> str:
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data) or 1)
    if way == "gone":
        path.unlink()
        return f"{path} is gone"
    if way == "cut" or not data:
        del data[at:]
    elif way == "zeros":
        size = min(rng.choice((64, 512)), len(data) - at)
        data[at : at + size] = bytes(size)
    else:
        data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return f"{way} at byte {at} of {path}"


async def check(directory: Path, truth: Truth, told: Told) -> None:
    async with opened(directory) as broker:
        shard = broker.stage.broker.shard
        told.lines += [unquote(line) for line in (*shard.damages, *(str(log.fault) for log in shard.faulty_logs))]
        assert {queue.name for queue in broker.stage.broker.queues} >= set(QUEUES), "queues are missing"
        assert set(broker.store.read().users) == truth.users
        for name in QUEUES:
            await _check_queue(broker.stage, name, truth, told)
        for client, sent in truth.sessions.items():
            await _check_session(broker, client, sent, told)
        space = await broker.retained.space()
        there = {topic for topic in truth.retained if space.find(topic) >= 0}
        assert there == truth.retained or told.of("@retained/"), f"retained: {there}"
        staged = broker.stage.broker.staging.stage_count
        assert staged == truth.staged or told.of("@staging/"), f"{staged} stages"


async def _check_queue(s: Stage, name: str, truth: Truth, told: Told) -> None:
    queue, found = s.broker.queue(name), set[bytes]()
    consumer = await s.consumer(queue)
    try:
        while some := await s.receive(consumer):
            found.update(message.value for message in some)
    except (LogDamaged, LogPoisoned) as error:
        told.lines.append(str(error))
    missing, back = truth.waiting[name] - found, truth.settled[name] & found
    assert not missing or told.of(f"default/{name}/0"), f"{len(missing)} messages of {name} are missing: {missing}"
    assert not back or told.of(f"default/{name}/0/"), f"{len(back)} settled messages of {name} are back: {back}"


async def _check_session(broker: Opened, client: str, sent: list[bytes], told: Told) -> None:
    session = broker.sessions.find(client)
    if session is None:
        assert told.of("@sessions/"), f"the session of {client} is gone"
        return
    assert list(session.subscriptions) == [f"{client}/#"] or told.of("@sessions/")
    try:
        found = values(await take_all(session))
    except (LogDamaged, LogPoisoned) as error:
        told.lines.append(unquote(str(error)))
        found = []
    assert found == sent or told.of("@sessions/"), f"{client} has {found}"
    assert set(found) <= set(sent), f"{client} gets messages of somebody else"


def broker_damage_walk(place: Path, seed: int) -> str:
    """What was damaged. AssertionError, or what kept the broker from starting."""
    rng, directory = random.Random(seed), place / "data"
    told = Told()
    with _listening(told):
        truth = asyncio.run(lived(directory, rng))
        told.lines.clear()
        paths = sorted(path for path in directory.rglob("*") if path.is_file() and path.parent.name != "journal")
        done = damage(rng, rng.choice([path for path in paths if path.name != "lock"]), rng.choice(WAYS))
        try:
            asyncio.run(check(directory, truth, told))
        except BaseException as error:
            error.add_note(f"{done}; told: {told.lines}")
            raise
    shutil.rmtree(directory)
    return done


def failure_of(place: Path, seed: int) -> str | None:
    try:
        broker_damage_walk(place, seed)
    except Exception:
        return f"{traceback.format_exc()}\ndamage of a broker failed seed={seed}"
    return None
