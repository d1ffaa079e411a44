"""Names of queues and groups, the addresses that reach them, ids of messages and deliveries, and the logs of a unit."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from penstock.core.errors import InvalidArgument, QueueReserved
from penstock.core.queue_paths import (
    DEAD_LETTER_PREFIX,
    QUEUE_PREFIX,
    is_dead_letter_queue,
    other_topics,
    own_topics,
    queue_of_path,
)
from penstock.core.types import LogName
from penstock.log.names import log_name

DEFAULT_NAMESPACE = "default"

CONFIGURATION_LOG: LogName = log_name("@configuration")
"""What was declared: queues, groups, templates, as records by key; that of a queue is `queue:` and its incarnation."""

RESERVED_PREFIX: Final = "amq."
"""what names begin with that only the broker gives"""

_MAX_NAME_BYTES = 255
_SETTLEMENTS = (b"$ack", b"$nack", b"$reject")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Clients send these: what is read from them fits the columns it is looked up in, 64 bits for offsets, 32 for the rest.
_NUMBER_64 = "(0|[1-9][0-9]{0,17})"
_NUMBER_32 = "(0|[1-9][0-9]{0,8})"
_MESSAGE_ID = re.compile(f"(.+)@{_NUMBER_64}:{_NUMBER_32}:{_NUMBER_64}", re.DOTALL)
_RECEIPT = re.compile(f"(.+)~{_NUMBER_32}~([A-Za-z0-9_-]+)", re.DOTALL)


def check_queue_name(name: str) -> None:
    """InvalidArgument unless a queue can have this name: any text. A dead-letter queue is `$dlq/` and the name of a
    queue, which may be 255 bytes without the prefix."""
    _check_text("a queue's name", name.removeprefix(DEAD_LETTER_PREFIX) if is_dead_letter_queue(name) else name)


def check_own_queue_name(name: str) -> None:
    """And somebody may declare one of that name."""
    check_queue_name(name)
    if name.startswith(RESERVED_PREFIX):
        raise QueueReserved(name)


def check_group_name(name: str) -> None:
    """InvalidArgument unless a consumer group can have this name. Any text but `|`, which sets off the filter."""
    _check_text("a consumer group's name", name)
    if "|" in name:
        raise InvalidArgument(f"consumer group name {name!r} contains |, which sets off a filter: leave it out")


def check_exchange_name(name: str) -> None:
    """InvalidArgument unless an exchange can have this name: any text."""
    _check_text("an exchange's name", name)


def check_namespace(name: str) -> None:
    _check_text("a namespace", name)
    if any(mark in name for mark in "/+#|") or name.startswith("$"):
        raise InvalidArgument(f"namespace {name!r} contains one of / + # | or begins with $: leave them out")


def check_filter(text: str) -> None:
    """InvalidArgument unless this is a topic filter: `+` for one level, `#` for the rest, each alone in its level."""
    if not text or "\0" in text or len(_utf8("a filter", text)) > 65535:
        raise InvalidArgument(
            f"filter {text[:80]!r} is empty, over 65535 bytes, or contains NUL: write it like orders/#"
        )
    levels = text.split("/")
    if any(len(level) > 1 and ("+" in level or "#" in level) for level in levels) or "#" in levels[:-1]:
        raise InvalidArgument(
            f"filter {text!r} has a wildcard in the wrong place: + stands alone in its level, # alone in the last one"
        )


def _check_text(what: str, text: str) -> None:
    if not text:
        raise InvalidArgument(f"{what} is empty: write at least one character")
    if (size := len(_utf8(what, text))) > _MAX_NAME_BYTES:
        raise InvalidArgument(f"{what} is {size} bytes in UTF-8, the limit is {_MAX_NAME_BYTES}: {text[:40]!r}…")
    if _CONTROL.search(text):
        raise InvalidArgument(f"{what} has a control character in it: {text!r}")


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{what} has half of a surrogate pair in it: {text[:40]!r}") from None


def queue_address(topic: str) -> str | None:
    """The path that a topic addresses below `$queue/`, or `$dlq/…` itself; None for ordinary topics.

    A declared queue whose topic is a prefix of it, by whole levels, is the one meant; the longest wins."""
    if topic.startswith(QUEUE_PREFIX):
        return topic.removeprefix(QUEUE_PREFIX)
    return topic if is_dead_letter_queue(topic) else None


def topic_of_address(path: str) -> str:
    """The other way round."""
    return path if is_dead_letter_queue(path) else QUEUE_PREFIX + path


def queue_of_publish_topic(topic: str) -> str | None:
    """The queue that publishing to a topic creates where none is declared: the whole path. None for ordinary topics,
    InvalidArgument where no queue is created with that name."""
    if (path := queue_address(topic)) is None:
        return None
    queue = queue_of_path(path)
    check_own_queue_name(queue)
    return queue


def is_settlement(topic: bytes) -> bool:
    """Whether publishing to it settles messages."""
    return topic.startswith((b"$queue/", b"$dlq/")) and topic.rpartition(b"/")[2] in _SETTLEMENTS


def is_request(topic: bytes) -> bool:
    """Whether who publishes to it asks the broker for something: nothing is stored under it."""
    return topic.startswith(b"$") and (not topic.startswith((b"$queue/", b"$exchange/")) or is_settlement(topic))


class SubscriptionAddress(NamedTuple):
    """What a subscription to `$queue/…` names: `path` up to the first wildcard, `filter` from there on, empty without
    one. Where the queue's name ends and the filter on the routing key begins, only declared queues can tell."""

    path: str
    filter: str

    @property
    def queue_to_create(self) -> str | None:
        """The queue that subscribing creates where none is declared: never from a path with wildcards but a last #.
        InvalidArgument as queue_of_publish_topic()."""
        return queue_of_publish_topic(topic_of_address(self.path)) if self.filter in ("", "#") else None

    def filter_for(self, queue: str) -> str | None:
        """The filter on the routing key when `queue` is the declared one that the path is in; None: every message."""
        topic = topic_of_address(self.path)
        for own in (*own_topics(queue), *other_topics(queue)):
            if topic == own or topic.startswith(own + "/"):
                return plain_filter("/".join(part for part in (topic[len(own) + 1 :], self.filter) if part))
        raise InvalidArgument(f"{self.path!r} is not in queue {queue!r}: name a queue that the path begins with")


def subscription_address(topic_filter: str) -> SubscriptionAddress | None:
    """Split `$queue/<path>/<wildcards>` or `$dlq/…`; None for ordinary filters, InvalidArgument without a queue."""
    check_filter(topic_filter)
    if queue_address(topic_filter) is None:
        return None
    levels = topic_filter.split("/")
    wild = next((i for i, level in enumerate(levels) if level in ("+", "#")), len(levels))
    if wild < 2 or not levels[1]:
        raise InvalidArgument(
            f"{topic_filter!r} names no queue: write its name before the wildcards, like $queue/orders/#"
        )
    path = queue_address("/".join(levels[:wild])) or ""
    return SubscriptionAddress(path, "/".join(levels[wild:]))


def plain_filter(text: str | None) -> str | None:
    """None for the filters that every routing key matches."""
    return None if text in (None, "", "#") else text


class GroupName(NamedTuple):
    """Who a group is: another filter is another group, with its own cursor. Its text is `name` or `name|filter`."""

    name: str
    filter: str | None = None

    def __str__(self) -> str:
        return self.name if self.filter is None else f"{self.name}|{self.filter}"


def group_name(name: str, topic_filter: str | None = None) -> GroupName:
    """A checked one."""
    check_group_name(name)
    if (kept := plain_filter(topic_filter)) is not None:
        check_filter(kept)
    return GroupName(name, kept)


def parse_group_name(text: str) -> GroupName:
    name, _, topic_filter = text.partition("|")
    return group_name(name, topic_filter)


def default_group(client_id: str) -> str:
    """The group of a client that names none: its id up to the last `-`, so that `billing-1` and `billing-2` share."""
    name = client_id.rpartition("-")[0] or client_id
    check_group_name(name)
    return name


class MessageId(NamedTuple):
    """Names a message for ever: a queue deleted and declared anew has another incarnation."""

    queue: str
    incarnation: int
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{message_id_prefix(self.queue, self.incarnation, self.partition)}{self.offset}"


def message_id_prefix(queue: str, incarnation: int, partition: int) -> str:
    """What the ids of all messages of a partition begin with; the offset follows."""
    return f"{queue}@{incarnation}:{partition}:"


def parse_message_id(text: str) -> MessageId:
    """From the right, because the queue's name may contain `@` and `:`."""
    if (match := _MESSAGE_ID.fullmatch(text)) is None:
        raise InvalidArgument(
            f"{text[:300]!r} is not a message-id: it looks like orders@1:3:42, give it back as it was delivered"
        )
    return MessageId(match[1], int(match[2]), int(match[3]), int(match[4]))


class ReceiptHandle(NamedTuple):
    """Names one delivery of a message. The nonce tells deliveries apart that a restart counted twice."""

    message: MessageId
    delivery_count: int
    nonce: str

    def __str__(self) -> str:
        return f"{self.message}~{self.delivery_count}~{self.nonce}"


def parse_receipt_handle(text: str) -> ReceiptHandle:
    if (match := _RECEIPT.fullmatch(text)) is None:
        raise InvalidArgument(f"{text[:300]!r} is not a receipt handle: give it back as it came with the delivery")
    return ReceiptHandle(parse_message_id(match[1]), int(match[2]), match[3])


def data_log(namespace: str, queue: str, partition: int) -> LogName:
    """The messages of a partition."""
    return log_name(namespace, queue, str(partition))


def partition_of_log(name: str) -> tuple[str, str, int] | None:
    """Namespace, queue and partition of a data_log(); None for other logs."""
    parts = [unquote(part) for part in name.split("/")]
    return (parts[0], parts[1], int(parts[2])) if len(parts) == 3 and parts[2].isdecimal() else None


def state_log(namespace: str, queue: str, partition: int) -> LogName:
    """What the groups did with the messages of a partition."""
    return log_name(namespace, queue, str(partition), "state")


def snapshots_log(namespace: str, queue: str, partition: int) -> LogName:
    return log_name(namespace, queue, str(partition), "snapshots")
