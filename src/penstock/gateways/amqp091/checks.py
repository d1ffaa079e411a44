"""What is wrong with a publish whatever queues say: rights, exchanges that are not there, properties that cannot be."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from penstock.broker.auth.access import Access
from penstock.broker.auth.rules import Action
from penstock.broker.broker import Broker
from penstock.codecs.amqp091.errors import AmqpError, Fault, named, type_name
from penstock.codecs.amqp091.kinds import Field
from penstock.gateways.amqp091.channel import Channel
from penstock.gateways.amqp091.connection import Connection
from penstock.gateways.amqp091.copies import BCC, CC, is_array, rows_with
from penstock.gateways.amqp091.messages import Messages, column
from penstock.gateways.amqp091.options import CurrentOptions
from penstock.gateways.amqp091.replies import REPLY_QUEUE, is_reply_key
from penstock.gateways.amqp091.routes import exchange_and_key
from penstock.kernels import amqp_columns as names
from penstock.kernels.amqp_scan import Scanner
from penstock.kernels.amqp_turn import find_text
from penstock.queues.exchange_topics import DEFAULT_EXCHANGE

PUBLISH = (60, 40)
_DIGITS = re.compile(r"[+-]?[0-9]+")
# Topics that a connection may publish to, remembered by it.
_MOST_GRANTED = 4096


class Run(NamedTuple):
    """Rows first to stop - 1 of a scan, which one channel published."""

    connection: Connection
    channel: Channel
    first: int
    stop: int


Faults = dict[int, tuple[int, AmqpError]]
"""by the number of a run: the first of its messages with which something is wrong, and what that is"""


class Checks:
    """For all connections."""

    def __init__(self, broker: Broker, access: Access, options: CurrentOptions) -> None:
        self._broker, self._access, self._options = broker, access, options

    def faults(self, scanner: Scanner, messages: Messages, runs: Sequence[Run], numbers: array[int] | range) -> Faults:
        found: Faults = {}
        start = 0
        rare = self._rare(scanner, messages, numbers)
        for number, run in enumerate(runs):
            stop = start + run.stop - run.first
            first, fault = stop, None
            for row, error in rare:
                if start <= row < first and (made := error(run)) is not None:
                    first, fault = row, made
            for topic in messages.topics_of(start, stop):
                if (made := self._refused(run, messages, topic)) is not None:
                    row = messages.index.index(topic, start, stop)
                    if row <= first:
                        first, fault = row, made
            if fault is not None:
                found[number] = first - start, fault
            start = stop
        return found

    # Topics

    def _refused(self, run: Run, messages: Messages, topic: int) -> AmqpError | None:
        connection, text = run.connection, messages.topics[topic]
        version = self._access.version, self._broker.exchanges.version(connection.namespace)
        if connection.granted_at != version:
            connection.granted_at, connection.granted = version, {}
        if text in connection.granted:
            return None
        exchange, key = exchange_and_key(messages.routes[topic])
        error = None if _is_reply(exchange, key) else self._refusal(run, exchange, key, text)
        if error is None and connection.permissions.are_lasting:
            if len(connection.granted) >= _MOST_GRANTED:
                connection.granted.clear()
            connection.granted[text] = None
        return error

    def _refusal(self, run: Run, exchange: str, key: bytes, topic: bytes) -> AmqpError | None:
        connection = run.connection
        if not connection.permissions.may_publish(topic):
            what = named("exchange", exchange or "amq.default", connection.vhost)
            if exchange and connection.permissions.may_with_exchange(Action.PUBLISH, exchange):
                facts = {"topic": key.decode("utf-8", "replace"), "what": what}
                return AmqpError(Fault.TOPIC_REFUSED, run.channel.number, PUBLISH, user=connection.user, **facts)
            return AmqpError(Fault.REFUSED, run.channel.number, PUBLISH, what=what, user=connection.user)
        space = self._broker.exchanges.of(connection.namespace)
        what = named("exchange", exchange, connection.vhost)
        if exchange not in space:
            return AmqpError(Fault.MISSING, run.channel.number, PUBLISH, what=what)
        if space.find(exchange).internal:
            return AmqpError(Fault.INTERNAL_EXCHANGE, run.channel.number, PUBLISH, what=what)
        return None

    # What few messages have

    def _rare(self, scanner: Scanner, messages: Messages, numbers: array[int] | range) -> list[tuple[int, _Made]]:
        found: list[tuple[int, _Made]] = []
        limit = self._options.now.max_message_bytes
        value = messages.columns.value
        if messages.columns.longest_value > limit:
            sizes = [end - start for start, end in zip(value.starts, value.ends, strict=True)]
            found += [(row, _too_large(size, limit)) for row, size in enumerate(sizes) if size > limit]
        if messages.every & names.IMMEDIATE:
            found += [(row, _immediate) for row, flags in enumerate(messages.flags) if flags & names.IMMEDIATE]
        if messages.has & names.HAS_USER_ID:
            places = column(scanner, numbers, names.USER_ID_AT)
            found += [(row, _user_id(messages.property_text(row, at))) for row, at in enumerate(places) if at >= 0]
        if messages.has & names.HAS_REPLY_TO:
            asking = array("i", bytes(4 * messages.count))
            places = column(scanner, numbers, names.REPLY_TO_AT)
            count = find_text(messages.columns.source, places, REPLY_QUEUE.encode(), asking)
            found += [(row, _unheard) for row in asking[:count]]
        for name in (CC, BCC):
            wrong = [(row, kind) for row, kind in rows_with(messages, name) if not is_array(kind)]
            found += [(row, _no_array(name, chr(kind))) for row, kind in wrong]
        if messages.bad_expirations:
            places = column(scanner, numbers, names.EXPIRATION_AT)
            bad = messages.bad_expirations
            found += [(row, _expiration(messages.property_text(row, places[row]))) for row in bad]
        return found


class _Made:
    """What is wrong with a message of somebody."""

    def __init__(self, fault: Fault, /, **facts: object) -> None:
        self._fault, self._facts = fault, facts

    def __call__(self, run: Run) -> AmqpError | None:
        return AmqpError(self._fault, run.channel.number, PUBLISH, **self._facts)


class _OfUser(_Made):
    def __init__(self, user_id: str) -> None:
        super().__init__(Fault.USER_ID, user_id=user_id)
        self._user_id = user_id

    def __call__(self, run: Run) -> AmqpError | None:
        if self._user_id == run.connection.user or run.connection.permissions.may_impersonate:
            return None
        return AmqpError(self._fault, run.channel.number, PUBLISH, user_id=self._user_id, user=run.connection.user)


class _Unheard(_Made):
    """It asks for a direct reply."""

    def __call__(self, run: Run) -> AmqpError | None:
        return None if run.channel.reply is not None else super().__call__(run)


_unheard = _Unheard(Fault.NO_REPLY_CONSUMER)
_immediate = _Made(Fault.IMMEDIATE)


def _too_large(size: int, limit: int) -> _Made:
    return _Made(Fault.TOO_LARGE, size=size, limit=limit)


def _user_id(text: str) -> _Made:
    return _OfUser(text)


def _no_array(name: str, letter: str) -> _Made:
    reason = f'{{unacceptable_type_in_header,"{name}",{type_name(Field(letter, None))}}}'
    return _Made(Fault.INVALID_MESSAGE, reason=reason)


def _expiration(text: str) -> _Made:
    """The reasons as Erlang prints them."""
    digits = _DIGITS.match(text)
    if digits is None:
        reason = "no_integer"
    elif digits.end() < len(text):
        reason = f'{{leftover_string,"{text[digits.end() :]}"}}'
    else:
        reason = f"{{value_{'negative' if text.startswith('-') else 'too_large'},{int(text)}}}"
    return _Made(Fault.EXPIRATION, expiration=text, reason=reason)


def _is_reply(exchange: str, key: bytes) -> bool:
    return exchange == DEFAULT_EXCHANGE and is_reply_key(key)
