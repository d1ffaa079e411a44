"""Dead letters on their way back: published again and settled in one frame, so that none is redriven twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from penstock.broker.broker import Broker
from penstock.broker.browsing import browsed
from penstock.broker.feed.delivery import Delivery, Taking
from penstock.broker.feed.held import Held, together
from penstock.broker.letters.letters import ALL, REDRIVE, Letter, Selection, waiting
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import EARLIEST
from penstock.broker.queues.unit import Unit
from penstock.core.errors import InvalidArgument, NoSuchQueue, QueueFull, TooLarge
from penstock.core.queue_paths import DEAD_LETTER_PREFIX
from penstock.log.batch import Row
from penstock.queues.cursor import NO_DEADLINE
from penstock.queues.deadletter import Edit, redrive_columns, row_bytes

_CHUNK_LETTERS = 500
# Of what a frame holds: the rest is for what a redrive adds, and the settlements.
_FRAME_SHARE = 4
_CHUNKS_PER_SECOND = 10
# Letters that are passed over wait in the window, be they ever so many: the one that is asked for may be the last.
_NO_WINDOW_LIMIT = 1 << 40


@dataclass(frozen=True, slots=True)
class RedriveOptions:
    selection: Selection = ALL
    to: Queue | None = None
    """None: each to the queue that it came from"""
    is_to_all_groups: bool = False
    """else only the group that gave up on a message gets it; in another queue than its own all groups do anyway"""
    rate: float | None = None
    """letters a second"""
    limit: int | None = None
    edit: Edit | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        if self.rate is not None and self.rate <= 0:
            raise InvalidArgument(f"at a rate of {self.rate} no letter would be redriven: give more than 0 a second")


@dataclass(slots=True)
class Report:
    """How far a run has come. `left`: how many were asked for and stay, by the reason why."""

    total: int = 0
    """letters that waited when it began"""
    seen: int = 0
    done: int = 0
    left: Counter[str] = field(default_factory=Counter)
    missing: set[str] = field(default_factory=set)
    """ids that were asked for and not found"""


Progress = Callable[[Report], None]


async def redrive(
    broker: Broker, queue: Queue, options: RedriveOptions | None = None, progress: Progress | None = None
) -> Report:
    """Publish dead letters of a queue again. Each chunk is one frame with its settlement in the group `redrive`: after
    a failure or a crash, the same call goes on with what is left. QueueFull and the like come through."""
    options = options or RedriveOptions()
    if options.to is queue:
        raise InvalidArgument(f"the letters are in queue {queue.name!r} already: name another one, or none")
    run = _Run(broker, queue, await _group(broker, queue), options, progress)
    return await run.all(_Redriving(broker, options))


async def drop(
    broker: Broker,
    queue: Queue,
    selection: Selection = ALL,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Settle dead letters without redriving them: they are listed no more, and stay in the log until retention or a
    purge."""
    options = RedriveOptions(selection=selection, limit=limit)
    run = _Run(broker, queue, await _group(broker, queue), options, progress)
    return await run.all(_Dropping(broker))


async def _group(broker: Broker, queue: Queue) -> Group:
    group = await broker.declaring.group(queue, REDRIVE, EARLIEST, is_permanent=True)
    group.limits = replace(group.limits, window=_NO_WINDOW_LIMIT)
    return group


@dataclass(frozen=True, slots=True)
class _Chosen:
    letter: Letter
    delivery: Delivery
    place: int

    @property
    def row(self) -> Row:
        return self.letter.message.row


class _Redriving:
    """What becomes of chosen letters: all or none of a call."""

    def __init__(self, broker: Broker, options: RedriveOptions) -> None:
        self._broker, self._options = broker, options
        self._publisher = broker.publisher()

    def refusal(self, letter: Letter) -> str | None:
        """Why a letter cannot go where it should."""
        try:
            target = self._target(letter)
        except NoSuchQueue as error:
            return f"queue {error.queue!r} is not there"
        if target.name == letter.message.id.queue:
            return "nothing says where it came from"
        if self._is_for_all(letter, target) or letter.facts is None or letter.facts.group in target.groups:
            return None
        return f"queue {target.name!r} has no group {str(letter.facts.group)!r}"

    async def settle(self, chosen: Sequence[_Chosen]) -> None:
        puts: dict[tuple[Queue, bool], list[Row]] = {}
        for one in chosen:
            target = self._target(one.letter)
            puts.setdefault((target, self._is_for_all(one.letter, target)), []).append(one.row)
        transaction = self._broker.transaction(self._publisher)
        for (target, is_for_all), rows in puts.items():
            transaction.put(target, redrive_columns(rows, self._options.edit, to_all_groups=is_for_all))
        for held in _held(chosen):
            transaction.ack(held)
        await transaction.commit()

    def _target(self, letter: Letter) -> Queue:
        if self._options.to is not None:
            return self._options.to
        return self._broker.queue(self._target_name(letter), self._namespace(letter))

    def _target_name(self, letter: Letter) -> str:
        if letter.facts is not None:
            return letter.facts.source.queue
        return letter.message.id.queue.removeprefix(DEAD_LETTER_PREFIX)

    def _namespace(self, letter: Letter) -> str:
        return self._broker.declaring.by_incarnation[letter.message.id.incarnation].namespace

    def _is_for_all(self, letter: Letter, target: Queue) -> bool:
        facts = letter.facts
        return self._options.is_to_all_groups or facts is None or facts.source.queue != target.name


class _Dropping:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def refusal(self, letter: Letter) -> str | None:
        return None

    async def settle(self, chosen: Sequence[_Chosen]) -> None:
        await self._broker.settling.several(_held(chosen))


class _Run:
    """One way through the letters that waited when it began. It holds what it has seen until it ends, so that two runs
    at a time do not take the same letters."""

    def __init__(
        self, broker: Broker, queue: Queue, group: Group, options: RedriveOptions, progress: Progress | None
    ) -> None:
        self._broker, self._queue, self._group, self._options = broker, queue, group, options
        self._number = broker.session()
        self._progress = progress or (lambda report: None)
        self._report = Report(total=waiting(queue), missing=set(options.selection.ids))
        rate = options.rate
        self._pause_s = 0.0
        self._chunk = _CHUNK_LETTERS if rate is None else max(1, min(_CHUNK_LETTERS, int(rate / _CHUNKS_PER_SECOND)))

    async def all(self, fate: _Redriving | _Dropping) -> Report:
        try:
            for number in sorted(self._queue.units):
                if not self._is_done:
                    await self._walk(self._queue.units[number], fate)
        finally:
            self._give_back()
        return self._report

    @property
    def _is_done(self) -> bool:
        is_found = bool(self._options.selection.ids) and not self._report.missing
        return is_found or (self._options.limit is not None and self._report.done >= self._options.limit)

    async def _walk(self, unit: Unit, fate: _Redriving | _Dropping) -> None:
        cursor, stop = self._group.cursor(unit), unit.end
        taking = Taking(self._group, unit, cursor, self._number, NO_DEADLINE, lambda: True)
        may_have_more = True
        while may_have_more and not self._is_done:
            found: list[Delivery] = []
            may_have_more = await taking.take(_CHUNK_LETTERS, self._broker.now(), found)
            # Letters that came since are for the next run: what is redriven may well come back at once.
            may_have_more &= all(delivery.offsets[-1] < stop for delivery in found)
            await self._settle([one for one in self._chosen(found) if one.row.offset < stop], fate)

    def _chosen(self, found: Sequence[Delivery]) -> list[_Chosen]:
        wanted = self._options.selection
        self._report.seen += sum([len(delivery) for delivery in found])
        return [
            _Chosen(letter, delivery, place)
            for delivery in found
            for place, message in enumerate(browsed(self._queue, delivery.unit, delivery.stored, delivery.rows))
            if wanted.may_match(message) and wanted.matches(letter := Letter.of(message))
        ]

    async def _settle(self, chosen: Sequence[_Chosen], fate: _Redriving | _Dropping) -> None:
        able: list[_Chosen] = []
        for one in chosen:
            self._report.missing -= one.letter.ids
            if (reason := fate.refusal(one.letter)) is None:
                able.append(one)
            else:
                self._report.left[reason] += 1
        if self._options.limit is not None:
            able = able[: max(self._options.limit - self._report.done, 0)]
        for chunk in _chunks(able, self._chunk, self._broker.shard.max_frame_bytes // _FRAME_SHARE):
            await self._settle_chunk(chunk, fate)
        self._progress(self._report)

    async def _settle_chunk(self, chunk: Sequence[_Chosen], fate: _Redriving | _Dropping) -> None:
        """As much of it as fits the queues."""
        if self._pause_s:
            await self._options.sleep(self._pause_s)
        try:
            await fate.settle(chunk)
        except (QueueFull, TooLarge) as error:
            if len(chunk) == 1 and isinstance(error, TooLarge):
                self._report.left["it is too large for the queue"] += 1
                return
            if len(chunk) == 1:
                raise
            await self._settle_chunk(chunk[: len(chunk) // 2], fate)
            await self._settle_chunk(chunk[len(chunk) // 2 :], fate)
            return
        self._report.done += len(chunk)
        self._progress(self._report)
        if self._options.rate is not None:
            self._pause_s = len(chunk) / self._options.rate

    def _give_back(self) -> None:
        """What was passed over waits for the next run."""
        for unit in self._queue.units.values():
            cursor = self._group.cursor(unit)
            cursor.give_back(self._number, False, self._group.limits, self._broker.now())
            self._broker.settling.note(unit)
            self._group.notify(unit.partition)


def _chunks(chosen: Sequence[_Chosen], most: int, most_bytes: int) -> list[list[_Chosen]]:
    """Each fits a frame well; what does not after all is halved."""
    chunks: list[list[_Chosen]] = []
    size = 0
    for one in chosen:
        letter_bytes = row_bytes(one.row)
        if not chunks or size + letter_bytes > most_bytes or len(chunks[-1]) >= most:
            chunks.append([])
            size = 0
        chunks[-1].append(one)
        size += letter_bytes
    return chunks


def _held(chosen: Sequence[_Chosen]) -> list[Held]:
    return together((one.delivery, one.place) for one in chosen)
