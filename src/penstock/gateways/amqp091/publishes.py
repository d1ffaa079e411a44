"""Publishes of all channels of a turn: one publication a namespace, one frame.

Whatever is wrong with a message ends its channel there: those before it count. What a queue refuses is answered, and
the others go on."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial

from penstock.broker.broker import Broker
from penstock.broker.queues.queue import Queue
from penstock.broker.topics.publication import Publication
from penstock.broker.topics.topics import Topics
from penstock.core.errors import DiskLow, OutcomeUnknown, PenstockError, QueueFull
from penstock.core.ports import Buffer
from penstock.gateways.amqp091.blocking import Blocking
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.checks import Checks, Run
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.copies import take_copies
from penstock.gateways.amqp091.faults import OF_STORAGE
from penstock.gateways.amqp091.messages import Messages, Messenger, column
from penstock.gateways.amqp091.replies import REPLY_QUEUE, Replies, address_replies
from penstock.gateways.amqp091.reports import Reports
from penstock.gateways.amqp091.returns import Returns, returned
from penstock.gateways.amqp091.routes import exchange_and_key
from penstock.gateways.amqp091.shares import Share, split
from penstock.gateways.wire.turn_loop import TurnLoop
from penstock.kernels import amqp_columns as names
from penstock.kernels.amqp_scan import Scanner
from penstock.log.columns import Columns
from penstock.queues.exchange_topics import DEFAULT_EXCHANGE, exchange_topic
from penstock.queues.settings import Overflow

_REPLIES = exchange_topic(DEFAULT_EXCHANGE, f"{REPLY_QUEUE}.".encode())
_QOS_1 = b"\x01"
Work = Coroutine[None, None, None]


class Publishes:
    """Used from the loop."""

    def __init__(
        self,
        broker: Broker,
        topics: Topics,
        messenger: Messenger,
        checks: Checks,
        returns: Returns,
        replies: Replies,
        blocking: Blocking,
        reports: Reports,
    ) -> None:
        self._broker, self._topics, self._messenger, self._checks = broker, topics, messenger, checks
        self._returns, self._replies, self._blocking, self._reports = returns, replies, blocking, reports
        self._publisher = broker.publisher()
        self.loop: TurnLoop
        """it is told of frames under way"""
        self.wait: Callable[[Connection, Channel, Work], None]
        """nothing else of the channel is looked at until the work is done"""

    # What came

    def take(self, scanner: Scanner, data: Buffer, runs: Sequence[Run]) -> None:
        """Rows of a scan of the data."""
        spaces = dict.fromkeys([run.connection.namespace for run in runs])
        for namespace in spaces:
            mine = runs if len(spaces) == 1 else [run for run in runs if run.connection.namespace == namespace]
            self._take(scanner, data, mine, namespace)

    def read(self, scanner: Scanner, data: Buffer, runs: Sequence[Run]) -> Messages:
        return self._messenger.read(scanner, data, _numbers(runs), self._broker.wall())

    def _take(self, scanner: Scanner, data: Buffer, runs: Sequence[Run], namespace: str) -> None:
        messages = self.read(scanner, data, runs)
        faults = self._checks.faults(scanner, messages, runs, _numbers(runs))
        if faults:
            kept = [
                run._replace(stop=run.first + faults[number][0]) if number in faults else run
                for number, run in enumerate(runs)
            ]
            if kept := [run for run in kept if run.stop > run.first]:
                self._take(scanner, data, kept, namespace)
            for number, (_, error) in faults.items():
                runs[number].connection.fail(error)
            return
        shares = []
        for connection, channel, first, stop in runs:
            connection.received += stop - first
            mark = None if channel.confirms is None else channel.confirms.take(stop - first)
            shares.append(Share(connection, channel, mark, range(stop - first)))
            if connection.rates.messages.is_limited and (wait_s := connection.rates.messages.spend(stop - first)):
                self._reports.throttled["message-rate"] += 1
                self.wait(connection, channel, _pause(wait_s))
        messages, left = self.addressed(scanner, messages, shares, _numbers(runs))
        if messages.count:
            self._returns.tell(messages, left, namespace)
            self.publish(messages, left, namespace)

    def addressed(
        self, scanner: Scanner, messages: Messages, shares: Sequence[Share], numbers: array[int] | range
    ) -> tuple[Messages, Sequence[Share]]:
        """Who wants a direct reply says where from now on, and direct replies are delivered; the other messages."""
        if messages.has & names.HAS_REPLY_TO:
            channels = [share.channel for share in shares for _ in share.places]
            address_replies(messages, column(scanner, numbers, names.REPLY_TO_AT), channels)
        take_copies(messages)
        replies = [topic.startswith(_REPLIES) for topic in messages.topics]
        return self._replied(messages, shares, replies) if any(replies) else (messages, shares)

    def _replied(
        self, messages: Messages, shares: Sequence[Share], replies: Sequence[bool]
    ) -> tuple[Messages, Sequence[Share]]:
        """Direct replies are delivered; the others."""
        marks = bytearray([replies[topic] for topic in messages.index])
        start = 0
        for share in shares:
            for row in range(start, start + len(share.places)):
                if not marks[row]:
                    continue
                address = exchange_and_key(messages.routes[messages.index[row]])[1]
                is_there = self._replies.deliver(messages, [row], address)
                if not is_there and messages.flags[row] & names.MANDATORY:
                    share.connection.outbox.write(returned(messages, [row], share))
            start += len(share.places)
        delivered = split(shares, marks, 1)
        for share in delivered:
            if share.mark is not None:
                share.mark.done(len(share.places))
        self._answer(delivered)
        kept = array("i", [row for row, mark in enumerate(marks) if not mark])
        return messages.select(kept), split(shares, marks, 0)

    # Publishing

    def publish(self, messages: Messages, shares: Sequence[Share], namespace: str) -> None:
        publication = self.publication(messages, shares, namespace)
        self._begin(shares)
        try:
            is_taken = self._topics.publish_now(publication, partial(self._done, shares))
        except OutcomeUnknown as error:
            self._done(shares, error)
            return
        except BaseException as error:
            self._give_up(shares)
            if isinstance(error, DiskLow):
                self._publish_later(messages, publication, shares)
            elif isinstance(error, PenstockError):
                self._refused(messages, shares, namespace, error)
            else:
                raise
            return
        if not is_taken:
            self._give_up(shares)
            self._publish_later(messages, publication, shares)

    def publication(self, messages: Messages, shares: Sequence[Share], namespace: str) -> Publication:
        places = array("q")
        for share in shares:
            places.extend(array("q", [share.connection.publisher.place]) * len(share.places))
        return Publication(
            messages.columns,
            messages.topics,
            _QOS_1 * messages.count,
            self._publisher,
            namespace,
            places=places,
            headers=messages.headers_of,
            further=messages.further,
        )

    def _publish_later(self, messages: Messages, publication: Publication, shares: Sequence[Share]) -> None:
        """Something has to be waited for: by these channels, and by nobody else."""
        task = asyncio.get_running_loop().create_task(self._published(messages, publication, shares))
        for connection, channel in dict.fromkeys([(share.connection, share.channel) for share in shares]):
            self.wait(connection, channel, _finished(task))

    async def _published(self, messages: Messages, publication: Publication, shares: Sequence[Share]) -> None:
        connections = list(dict.fromkeys([share.connection for share in shares]))
        self._begin(shares)
        try:
            await self._blocking.until_taken(connections, partial(self._topics.publish, publication))
        except PenstockError as error:
            self._give_up(shares)
            self._refused(messages, shares, publication.namespace, error)
        except BaseException:
            self._give_up(shares)
            raise
        else:
            self._done(shares, None)

    def _begin(self, shares: Sequence[Share]) -> None:
        self.loop.begun()
        for share in shares:
            share.channel.under_way += 1

    def _give_up(self, shares: Sequence[Share]) -> None:
        self.loop.given_up()
        for share in shares:
            share.channel.committed()

    def _done(self, shares: Sequence[Share], error: PenstockError | None) -> None:
        """All of it is committed, or nobody knows whether."""
        for share in shares:
            share.channel.committed()
        if error is None:
            for share in shares:
                if share.mark is not None:
                    share.mark.done(len(share.places))
            self._answer(shares)
        else:
            for share in shares:
                share.connection.uncommitted(error)
        self.loop.committed()

    def _answer(self, shares: Iterable[Share]) -> None:
        for share in shares:
            confirms = share.channel.confirms
            if confirms is None or not share.channel.is_open or share.connection.is_ended:
                continue
            if data := confirms.settled():
                share.connection.outbox.write(data)

    # What is refused

    def _refused(self, messages: Messages, shares: Sequence[Share], namespace: str, error: PenstockError) -> None:
        """Some of it is, which is nothing to the rest."""
        if error.code in OF_STORAGE:
            for share in shares:
                share.connection.uncommitted(error)
            return
        marks = self._blamed(messages, namespace, error)
        if not any(marks) and messages.count > 1:
            # Nobody says which: each half is asked on its own.
            half = messages.count // 2
            marks = bytearray(half) + b"\x01" * (messages.count - half)
            for wanted in (0, 1):
                self._publish_marked(messages, shares, namespace, marks, wanted)
            return
        marks = marks if any(marks) else bytearray(b"\x01")
        self._refuse(shares, marks, error)
        if isinstance(error, QueueFull):
            self._bury(messages, shares, namespace, marks, error.queue)
        self._publish_marked(messages, shares, namespace, marks, 0)

    def _bury(self, messages: Messages, shares: Sequence[Share], namespace: str, marks: bytearray, name: str) -> None:
        """A queue that wants them keeps what it refuses as dead letters: who asks behind them sees them."""
        queue = self._broker.declaring.queues.get((namespace, name))
        if queue is None or queue.settings.overflow is not Overflow.REJECT_DEAD_LETTER:
            return
        picked = messages.select(array("i", [row for row, mark in enumerate(marks) if mark]))
        task = asyncio.get_running_loop().create_task(self._buried(queue, picked.columns))
        for connection, channel in dict.fromkeys(
            [(share.connection, share.channel) for share in split(shares, marks, 1)]
        ):
            self.wait(connection, channel, _finished(task))

    async def _buried(self, queue: Queue, columns: Columns) -> None:
        await self._broker.publishing.bury(queue, columns)

    def _blamed(self, messages: Messages, namespace: str, error: PenstockError) -> bytearray:
        """A mark for each row that a queue refuses: of those for one that is full, all that do not find room."""
        name, routes = getattr(error, "queue", None), self._broker.publishing.routes
        marks = bytearray(messages.count)
        if name is None or messages.count == 1:
            return bytearray(b"\x01") if messages.count == 1 else marks
        fed = [routes.queues(topic, namespace) or [] for topic in messages.topics]
        feeds = [any(queue.name == name for queue in queues) for queues in fed]
        found = [row for row, topic in enumerate(messages.index) if feeds[topic]]
        spared = 0
        if isinstance(error, QueueFull):
            queue = next((queue for queues in fed for queue in queues if queue.name == name), None)
            spared = 0 if queue is None or len(found) < 2 else _room(queue, len(found) - 1)
        for row in found[spared:]:
            marks[row] = 1
        return marks

    def _publish_marked(
        self, messages: Messages, shares: Sequence[Share], namespace: str, marks: bytearray, wanted: int
    ) -> None:
        picked = array("i", [row for row, mark in enumerate(marks) if mark == wanted])
        if picked and len(marks) == messages.count:
            self.publish(messages.select(picked), split(shares, marks, wanted), namespace)

    def _refuse(self, shares: Sequence[Share], marks: bytearray, error: PenstockError) -> None:
        refused = split(shares, marks, 1)
        for share in refused:
            self._reports.refused[error.code.value] += len(share.places)
            if share.mark is not None:
                share.mark.refuse(share.places)
        self._answer(refused)


def _numbers(runs: Sequence[Run]) -> array[int] | range:
    """The rows of all of them."""
    first, stop = runs[0].first, runs[-1].stop
    if stop - first == sum([run.stop - run.first for run in runs]):
        return range(first, stop)
    found = array("i")
    for run in runs:
        found.extend(range(run.first, run.stop))
    return found


def _room(queue: Queue, most: int) -> int:
    """How many messages it takes now, up to so many."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if queue.has_room(middle) else (low, middle - 1)
    return low


async def _pause(wait_s: float) -> None:
    await asyncio.sleep(wait_s)


async def _finished(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
