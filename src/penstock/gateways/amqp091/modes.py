"""Transactions of a channel: publishes and answers in one frame."""

from __future__ import annotations

from functools import partial

from penstock.broker.broker import Broker
from penstock.broker.queues.transaction import Acks
from penstock.broker.topics.topics import Topics
from penstock.codecs.amqp091 import methods as m
from penstock.codecs.amqp091.errors import AmqpError, Fault
from penstock.core.errors import StaleSettlement
from penstock.core.ports import Buffer
from penstock.gateways.amqp091.blocking import Blocking
from penstock.gateways.amqp091.channel import Channel, held_of
from penstock.gateways.amqp091.checks import Checks, Run
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.messages import Messenger
from penstock.gateways.amqp091.options import CurrentOptions
from penstock.gateways.amqp091.publishes import Publishes
from penstock.gateways.amqp091.returns import Returns
from penstock.gateways.amqp091.routes import Routes
from penstock.gateways.amqp091.settlements import Settlements
from penstock.gateways.amqp091.shares import Share
from penstock.gateways.amqp091.transactions import Gathered
from penstock.kernels.amqp_scan import Scanner

COMMIT, ROLLBACK, SELECT = (90, 20), (90, 30), (90, 10)
_PUBLISH = (60, 40)
# Of a frame of a transaction, as large as any peer's may be.
_ANY_FRAME = (1 << 30) - 8


class Modes:
    """For all connections."""

    def __init__(
        self,
        broker: Broker,
        topics: Topics,
        publishes: Publishes,
        checks: Checks,
        settlements: Settlements,
        returns: Returns,
        blocking: Blocking,
        routes: Routes,
        options: CurrentOptions,
    ) -> None:
        self._broker, self._topics, self._publishes, self._checks = broker, topics, publishes, checks
        self._settlements, self._returns, self._blocking = settlements, returns, blocking
        self._routes, self._options = routes, options

    async def take(self, connection: Connection, channel: Channel, method: m.Method) -> None:
        match method:
            case m.TxSelect():
                if channel.confirms is not None:
                    raise AmqpError(Fault.CONFIRM_TO_TX, channel.number, SELECT)
                channel.transaction = channel.transaction or Gathered()
                connection.send(channel.number, m.TxSelectOk())
            case m.TxCommit():
                await self._commit(connection, channel, self._of(channel, COMMIT))
                connection.send(channel.number, m.TxCommitOk())
            case m.TxRollback():
                gathered = self._of(channel, ROLLBACK)
                for answers in gathered.answers:
                    channel.tags.put_back(answers.parts)
                gathered.clear()
                connection.send(channel.number, m.TxRollbackOk())
            case _:
                at = method.class_id, method.method_id
                raise AmqpError(Fault.UNIMPLEMENTED, channel.number, at)

    def _of(self, channel: Channel, at: tuple[int, int]) -> Gathered:
        if channel.transaction is None:
            raise AmqpError(Fault.NOT_TX, channel.number, at)
        return channel.transaction

    def gather(self, scanner: Scanner, data: Buffer, run: Run, frames: Buffer) -> None:
        """Publishes of a channel in a transaction, whose bytes these are. AmqpError for the first with which something
        is wrong."""
        assert run.channel.transaction is not None
        messages = self._publishes.read(scanner, data, [run])
        if faults := self._checks.faults(scanner, messages, [run], range(run.first, run.stop)):
            raise faults[0][1]
        gathered, limit = run.channel.transaction, self._options.now.max_message_bytes
        if (size := len(gathered.frames) + len(frames)) > limit:
            raise AmqpError(Fault.TX_TOO_LARGE, run.channel.number, _PUBLISH, size=size, limit=limit)
        gathered.frames += frames
        gathered.messages += run.stop - run.first

    async def _commit(self, connection: Connection, channel: Channel, gathered: Gathered) -> None:
        frames, count, said = bytes(gathered.frames), gathered.messages, gathered.answers
        gathered.clear()
        acks = self._broker.acks()
        for answers in said:
            for held in held_of(answers.parts) if answers.is_ack else ():
                acks.add(held)
        try:
            if count:
                await self._publish(connection, channel, frames, count, acks)
            elif acks:
                await self._broker.settle(acks)
        except StaleSettlement:
            raise AmqpError(Fault.UNKNOWN_DELIVERY, channel.number, COMMIT, tag=0) from None
        self._settlements.settle([answers for answers in said if not answers.is_ack])
        channel.settled()

    async def _publish(self, connection: Connection, channel: Channel, frames: bytes, count: int, acks: Acks) -> None:
        scanner, namespace = Scanner(count), connection.namespace
        scanner.scan(frames, 0, len(frames), _ANY_FRAME, len(frames))
        messages = Messenger(count, self._routes).read(scanner, frames, range(count), self._broker.wall())
        share = Share(connection, channel, None, range(count))
        connection.received += count
        messages, shares = self._publishes.addressed(scanner, messages, [share], range(count))
        if messages.count:
            self._returns.tell(messages, shares, namespace)
            publication = self._publishes.publication(messages, shares, namespace)
            await self._blocking.until_taken([connection], partial(self._topics.publish, publication, acks))
        elif acks:
            await self._broker.settle(acks)
