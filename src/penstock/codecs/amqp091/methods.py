"""Every method of AMQP 0.9.1 and of RabbitMQ's extensions, once: its number, its fields in the order in which they are
written, who sends it, whether a content follows, and what answers it.

Fields have the defaults that mean nothing special. `ticket` is not used since 0.9."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from penstock.codecs.amqp091.kinds import Arguments, Bit, Long, LongLong, LongStr, Octet, Sender, Short, ShortStr, Table

_CLIENT, _SERVER = frozenset({Sender.CLIENT}), frozenset({Sender.SERVER})
_BOTH = _CLIENT | _SERVER
NO_ARGUMENTS: Table = {}


class Method(msgspec.Struct, frozen=True):
    class_id: ClassVar[int]
    method_id: ClassVar[int]
    name: ClassVar[str]
    """as the specification writes it: queue.declare-ok"""
    senders: ClassVar[frozenset[Sender]]
    has_content: ClassVar[bool] = False
    replies: ClassVar[tuple[str, ...]] = ()
    """names of what answers it; without `nowait`, the sender waits for one of them"""


class ConnectionStart(Method, frozen=True):
    class_id, method_id, name = 10, 10, "connection.start"
    senders = _SERVER
    replies = ("connection.start-ok",)
    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: Arguments = NO_ARGUMENTS
    mechanisms: LongStr = b""
    locales: LongStr = b"en_US"


class ConnectionStartOk(Method, frozen=True):
    class_id, method_id, name = 10, 11, "connection.start-ok"
    senders = _CLIENT
    client_properties: Arguments = NO_ARGUMENTS
    mechanism: ShortStr = "PLAIN"
    response: LongStr = b""
    locale: ShortStr = "en_US"


class ConnectionSecure(Method, frozen=True):
    class_id, method_id, name = 10, 20, "connection.secure"
    senders = _SERVER
    replies = ("connection.secure-ok",)
    challenge: LongStr = b""


class ConnectionSecureOk(Method, frozen=True):
    class_id, method_id, name = 10, 21, "connection.secure-ok"
    senders = _CLIENT
    response: LongStr = b""


class ConnectionTune(Method, frozen=True):
    class_id, method_id, name = 10, 30, "connection.tune"
    senders = _SERVER
    replies = ("connection.tune-ok",)
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionTuneOk(Method, frozen=True):
    class_id, method_id, name = 10, 31, "connection.tune-ok"
    senders = _CLIENT
    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionOpen(Method, frozen=True):
    class_id, method_id, name = 10, 40, "connection.open"
    senders = _CLIENT
    replies = ("connection.open-ok",)
    virtual_host: ShortStr = "/"
    capabilities: ShortStr = ""
    insist: Bit = False


class ConnectionOpenOk(Method, frozen=True):
    class_id, method_id, name = 10, 41, "connection.open-ok"
    senders = _SERVER
    known_hosts: ShortStr = ""


class ConnectionClose(Method, frozen=True):
    class_id, method_id, name = 10, 50, "connection.close"
    senders = _BOTH
    replies = ("connection.close-ok",)
    reply_code: Short = 0
    reply_text: ShortStr = ""
    failing_class: Short = 0
    failing_method: Short = 0


class ConnectionCloseOk(Method, frozen=True):
    class_id, method_id, name = 10, 51, "connection.close-ok"
    senders = _BOTH


class ConnectionBlocked(Method, frozen=True):
    class_id, method_id, name = 10, 60, "connection.blocked"
    senders = _SERVER
    reason: ShortStr = ""


class ConnectionUnblocked(Method, frozen=True):
    class_id, method_id, name = 10, 61, "connection.unblocked"
    senders = _SERVER


class ConnectionUpdateSecret(Method, frozen=True):
    class_id, method_id, name = 10, 70, "connection.update-secret"
    senders = _CLIENT
    replies = ("connection.update-secret-ok",)
    new_secret: LongStr = b""
    reason: ShortStr = ""


class ConnectionUpdateSecretOk(Method, frozen=True):
    class_id, method_id, name = 10, 71, "connection.update-secret-ok"
    senders = _SERVER


class ChannelOpen(Method, frozen=True):
    class_id, method_id, name = 20, 10, "channel.open"
    senders = _CLIENT
    replies = ("channel.open-ok",)
    out_of_band: ShortStr = ""


class ChannelOpenOk(Method, frozen=True):
    class_id, method_id, name = 20, 11, "channel.open-ok"
    senders = _SERVER
    channel_id: LongStr = b""


class ChannelFlow(Method, frozen=True):
    class_id, method_id, name = 20, 20, "channel.flow"
    senders = _BOTH
    replies = ("channel.flow-ok",)
    active: Bit = False


class ChannelFlowOk(Method, frozen=True):
    class_id, method_id, name = 20, 21, "channel.flow-ok"
    senders = _BOTH
    active: Bit = False


class ChannelClose(Method, frozen=True):
    class_id, method_id, name = 20, 40, "channel.close"
    senders = _BOTH
    replies = ("channel.close-ok",)
    reply_code: Short = 0
    reply_text: ShortStr = ""
    failing_class: Short = 0
    failing_method: Short = 0


class ChannelCloseOk(Method, frozen=True):
    class_id, method_id, name = 20, 41, "channel.close-ok"
    senders = _BOTH


class AccessRequest(Method, frozen=True):
    class_id, method_id, name = 30, 10, "access.request"
    senders = _CLIENT
    replies = ("access.request-ok",)
    realm: ShortStr = "/data"
    exclusive: Bit = False
    passive: Bit = True
    active: Bit = True
    write: Bit = True
    read: Bit = True


class AccessRequestOk(Method, frozen=True):
    class_id, method_id, name = 30, 11, "access.request-ok"
    senders = _SERVER
    ticket: Short = 1


class ExchangeDeclare(Method, frozen=True):
    class_id, method_id, name = 40, 10, "exchange.declare"
    senders = _CLIENT
    replies = ("exchange.declare-ok",)
    ticket: Short = 0
    exchange: ShortStr = ""
    kind: ShortStr = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class ExchangeDeclareOk(Method, frozen=True):
    class_id, method_id, name = 40, 11, "exchange.declare-ok"
    senders = _SERVER


class ExchangeDelete(Method, frozen=True):
    class_id, method_id, name = 40, 20, "exchange.delete"
    senders = _CLIENT
    replies = ("exchange.delete-ok",)
    ticket: Short = 0
    exchange: ShortStr = ""
    if_unused: Bit = False
    nowait: Bit = False


class ExchangeDeleteOk(Method, frozen=True):
    class_id, method_id, name = 40, 21, "exchange.delete-ok"
    senders = _SERVER


class ExchangeBind(Method, frozen=True):
    class_id, method_id, name = 40, 30, "exchange.bind"
    senders = _CLIENT
    replies = ("exchange.bind-ok",)
    ticket: Short = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class ExchangeBindOk(Method, frozen=True):
    class_id, method_id, name = 40, 31, "exchange.bind-ok"
    senders = _SERVER


class ExchangeUnbind(Method, frozen=True):
    class_id, method_id, name = 40, 40, "exchange.unbind"
    senders = _CLIENT
    replies = ("exchange.unbind-ok",)
    ticket: Short = 0
    destination: ShortStr = ""
    source: ShortStr = ""
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class ExchangeUnbindOk(Method, frozen=True):
    class_id, method_id, name = 40, 51, "exchange.unbind-ok"
    senders = _SERVER


class QueueDeclare(Method, frozen=True):
    class_id, method_id, name = 50, 10, "queue.declare"
    senders = _CLIENT
    replies = ("queue.declare-ok",)
    ticket: Short = 0
    queue: ShortStr = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class QueueDeclareOk(Method, frozen=True):
    class_id, method_id, name = 50, 11, "queue.declare-ok"
    senders = _SERVER
    queue: ShortStr = ""
    message_count: Long = 0
    consumer_count: Long = 0


class QueueBind(Method, frozen=True):
    class_id, method_id, name = 50, 20, "queue.bind"
    senders = _CLIENT
    replies = ("queue.bind-ok",)
    ticket: Short = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class QueueBindOk(Method, frozen=True):
    class_id, method_id, name = 50, 21, "queue.bind-ok"
    senders = _SERVER


class QueuePurge(Method, frozen=True):
    class_id, method_id, name = 50, 30, "queue.purge"
    senders = _CLIENT
    replies = ("queue.purge-ok",)
    ticket: Short = 0
    queue: ShortStr = ""
    nowait: Bit = False


class QueuePurgeOk(Method, frozen=True):
    class_id, method_id, name = 50, 31, "queue.purge-ok"
    senders = _SERVER
    message_count: Long = 0


class QueueDelete(Method, frozen=True):
    class_id, method_id, name = 50, 40, "queue.delete"
    senders = _CLIENT
    replies = ("queue.delete-ok",)
    ticket: Short = 0
    queue: ShortStr = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


class QueueDeleteOk(Method, frozen=True):
    class_id, method_id, name = 50, 41, "queue.delete-ok"
    senders = _SERVER
    message_count: Long = 0


class QueueUnbind(Method, frozen=True):
    class_id, method_id, name = 50, 50, "queue.unbind"
    senders = _CLIENT
    replies = ("queue.unbind-ok",)
    ticket: Short = 0
    queue: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    arguments: Arguments = NO_ARGUMENTS


class QueueUnbindOk(Method, frozen=True):
    class_id, method_id, name = 50, 51, "queue.unbind-ok"
    senders = _SERVER


class BasicQos(Method, frozen=True):
    class_id, method_id, name = 60, 10, "basic.qos"
    senders = _CLIENT
    replies = ("basic.qos-ok",)
    prefetch_size: Long = 0
    prefetch_count: Short = 0
    is_global: Bit = False


class BasicQosOk(Method, frozen=True):
    class_id, method_id, name = 60, 11, "basic.qos-ok"
    senders = _SERVER


class BasicConsume(Method, frozen=True):
    class_id, method_id, name = 60, 20, "basic.consume"
    senders = _CLIENT
    replies = ("basic.consume-ok",)
    ticket: Short = 0
    queue: ShortStr = ""
    consumer_tag: ShortStr = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Arguments = NO_ARGUMENTS


class BasicConsumeOk(Method, frozen=True):
    class_id, method_id, name = 60, 21, "basic.consume-ok"
    senders = _SERVER
    consumer_tag: ShortStr = ""


class BasicCancel(Method, frozen=True):
    class_id, method_id, name = 60, 30, "basic.cancel"
    senders = _BOTH
    replies = ("basic.cancel-ok",)
    consumer_tag: ShortStr = ""
    nowait: Bit = False


class BasicCancelOk(Method, frozen=True):
    class_id, method_id, name = 60, 31, "basic.cancel-ok"
    senders = _BOTH
    consumer_tag: ShortStr = ""


class BasicPublish(Method, frozen=True):
    class_id, method_id, name = 60, 40, "basic.publish"
    senders = _CLIENT
    has_content = True
    ticket: Short = 0
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    mandatory: Bit = False
    immediate: Bit = False


class BasicReturn(Method, frozen=True):
    class_id, method_id, name = 60, 50, "basic.return"
    senders = _SERVER
    has_content = True
    reply_code: Short = 0
    reply_text: ShortStr = ""
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


class BasicDeliver(Method, frozen=True):
    class_id, method_id, name = 60, 60, "basic.deliver"
    senders = _SERVER
    has_content = True
    consumer_tag: ShortStr = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""


class BasicGet(Method, frozen=True):
    class_id, method_id, name = 60, 70, "basic.get"
    senders = _CLIENT
    replies = ("basic.get-ok", "basic.get-empty")
    ticket: Short = 0
    queue: ShortStr = ""
    no_ack: Bit = False


class BasicGetOk(Method, frozen=True):
    class_id, method_id, name = 60, 71, "basic.get-ok"
    senders = _SERVER
    has_content = True
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortStr = ""
    routing_key: ShortStr = ""
    message_count: Long = 0


class BasicGetEmpty(Method, frozen=True):
    class_id, method_id, name = 60, 72, "basic.get-empty"
    senders = _SERVER
    cluster_id: ShortStr = ""


class BasicAck(Method, frozen=True):
    class_id, method_id, name = 60, 80, "basic.ack"
    senders = _BOTH
    delivery_tag: LongLong = 0
    multiple: Bit = False


class BasicReject(Method, frozen=True):
    class_id, method_id, name = 60, 90, "basic.reject"
    senders = _CLIENT
    delivery_tag: LongLong = 0
    requeue: Bit = True


class BasicRecoverAsync(Method, frozen=True):
    class_id, method_id, name = 60, 100, "basic.recover-async"
    senders = _CLIENT
    requeue: Bit = False


class BasicRecover(Method, frozen=True):
    class_id, method_id, name = 60, 110, "basic.recover"
    senders = _CLIENT
    replies = ("basic.recover-ok",)
    requeue: Bit = False


class BasicRecoverOk(Method, frozen=True):
    class_id, method_id, name = 60, 111, "basic.recover-ok"
    senders = _SERVER


class BasicNack(Method, frozen=True):
    class_id, method_id, name = 60, 120, "basic.nack"
    senders = _BOTH
    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True


class ConfirmSelect(Method, frozen=True):
    class_id, method_id, name = 85, 10, "confirm.select"
    senders = _CLIENT
    replies = ("confirm.select-ok",)
    nowait: Bit = False


class ConfirmSelectOk(Method, frozen=True):
    class_id, method_id, name = 85, 11, "confirm.select-ok"
    senders = _SERVER


class TxSelect(Method, frozen=True):
    class_id, method_id, name = 90, 10, "tx.select"
    senders = _CLIENT
    replies = ("tx.select-ok",)


class TxSelectOk(Method, frozen=True):
    class_id, method_id, name = 90, 11, "tx.select-ok"
    senders = _SERVER


class TxCommit(Method, frozen=True):
    class_id, method_id, name = 90, 20, "tx.commit"
    senders = _CLIENT
    replies = ("tx.commit-ok",)


class TxCommitOk(Method, frozen=True):
    class_id, method_id, name = 90, 21, "tx.commit-ok"
    senders = _SERVER


class TxRollback(Method, frozen=True):
    class_id, method_id, name = 90, 30, "tx.rollback"
    senders = _CLIENT
    replies = ("tx.rollback-ok",)


class TxRollbackOk(Method, frozen=True):
    class_id, method_id, name = 90, 31, "tx.rollback-ok"
    senders = _SERVER


METHODS: dict[tuple[int, int], type[Method]] = {
    (method.class_id, method.method_id): method for method in Method.__subclasses__()
}
BY_NAME: dict[str, type[Method]] = {method.name: method for method in METHODS.values()}
