"""What RabbitMQ 3.10.8 says to arguments of queues, as it was recorded, and what they become here."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from penstock.codecs.amqp091.errors import AmqpError
from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.wire import table_of
from penstock.queues.rabbit_arguments import At, Declared, check, refuse_difference
from penstock.queues.rabbit_records import declared_of, record_of
from penstock.queues.rabbit_settings import argument_settings, arguments_of, queue_settings
from penstock.queues.settings import QueueSettings, parse_queue

AT = At("queue 'q' in vhost '/'", 1)


def declared(**arguments: object) -> Declared:
    return Declared(arguments=table_of({name.replace("_", "-"): value for name, value in arguments.items()}))


def refusal(wanted: Declared, current: Declared | None = None, **more: bool) -> str:
    with pytest.raises(AmqpError) as caught:
        if current is None:
            check(wanted, AT, **more)
        else:
            refuse_difference(current, wanted, AT, **more)
    assert not caught.value.is_hard
    assert (caught.value.class_id, caught.value.method_id) == (50, 10)
    return caught.value.reply_text.removeprefix("PRECONDITION_FAILED - ").replace(" for queue 'q' in vhost '/'", "")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", "60", '"expected integer, got longstr"'),
        ("x-message-ttl", 1.5, '"expected integer, got double"'),
        ("x-message-ttl", 1 << 40, "{value_too_large,1099511627776}"),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -1, "{value_negative,-1}"),
        ("x-expires", 1 << 40, "{value_too_large,1099511627776}"),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length-bytes", "1", '"expected integer, got longstr"'),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-overflow", "strange", "invalid_overflow"),
        ("x-overflow", 1, "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", 1, "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
        ("x-queue-type", "strange", "\"unsupported queue type 'strange'\""),
        ("x-queue-type", 1, "{unacceptable_type,signedint}"),
        ("x-queue-mode", "strange", "\"unsupported queue mode 'strange'\""),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-queue-version", "1", '"expected integer, got longstr"'),
    ],
)
def test_what_an_argument_cannot_be(name: str, value: object, said: str) -> None:
    assert refusal(Declared(arguments=table_of({name: value}))) == f"invalid arg '{name}': {said}"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (declared(x_delivery_limit=-1), "invalid arg 'x-delivery-limit' of queue type rabbit_classic_queue"),
        (declared(x_max_age=1), "invalid arg 'x-max-age' of queue type rabbit_classic_queue"),
        (
            declared(x_max_priority=1, x_queue_type="quorum"),
            "invalid arg 'x-max-priority' of queue type rabbit_quorum_queue",
        ),
        (
            declared(x_message_ttl=1, x_queue_type="stream"),
            "invalid arg 'x-message-ttl' of queue type rabbit_stream_queue",
        ),
        (Declared(False, arguments=table_of({"x-queue-type": "quorum"})), "invalid property 'non-durable'"),
        (Declared(auto_delete=True, arguments=table_of({"x-queue-type": "quorum"})), "invalid property 'auto-delete'"),
        (
            Declared(is_exclusive=True, arguments=table_of({"x-queue-type": "stream"})),
            "invalid property 'exclusive-owner'",
        ),
        (
            declared(x_dead_letter_exchange=1),
            "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'",
        ),
    ],
)
def test_what_a_type_of_queue_cannot_be(wanted: Declared, said: str) -> None:
    assert refusal(wanted) == said


def test_the_broker_names_classic_queues_only() -> None:
    check(declared(), AT, is_server_named=True)
    text = refusal(declared(x_queue_type="quorum"), is_server_named=True)
    assert text == "Cannot declare a server-named queue for type rabbit_quorum_queue"


def test_other_arguments_are_kept_and_mean_nothing() -> None:
    check(declared(x_cancel_on_ha_failover=1, x_mine="a", ha_mode="all"), AT)
    refuse_difference(declared(x_mine="a"), declared(x_mine="b"), AT)


@pytest.mark.parametrize(
    ("current", "wanted", "said"),
    [
        (Declared(False), Declared(True), "'durable': received 'true' but current is 'false'"),
        (Declared(True), Declared(auto_delete=True), "'auto_delete': received 'true' but current is 'false'"),
        (
            declared(x_message_ttl=1000),
            declared(x_message_ttl=2000),
            "'x-message-ttl': received '2000' but current is '1000'",
        ),
        (
            declared(),
            declared(x_message_ttl=2000),
            "'x-message-ttl': received the value '2000' of type 'signedint' but current is none",
        ),
        (
            declared(x_overflow="drop-head"),
            declared(),
            "'x-overflow': received none but current is the value 'drop-head' of type 'longstr'",
        ),
        (
            declared(x_single_active_consumer=True),
            declared(x_single_active_consumer=False),
            "'x-single-active-consumer': received 'false' but current is 'true'",
        ),
        (
            declared(),
            declared(x_queue_type="quorum"),
            "'x-queue-type': received the value 'quorum' of type 'longstr' but current is none",
        ),
        (declared(x_max_length=5), declared(x_max_length="5"), "'x-max-length': received '5' but current is '5'"),
        (
            declared(x_max_length=1, x_message_ttl=1),
            declared(x_max_length=2, x_message_ttl=2),
            "'x-message-ttl': received '2' but current is '1'",
        ),
    ],
)
def test_a_difference_is_told(current: Declared, wanted: Declared, said: str) -> None:
    assert refusal(wanted, current) == f"inequivalent arg {said}"


def test_what_is_the_same() -> None:
    refuse_difference(declared(x_queue_type="classic"), declared(), AT)
    refuse_difference(declared(), declared(x_queue_type="classic"), AT)
    small, large = {"x-max-length": Field("b", 5)}, {"x-max-length": Field("l", 5)}
    refuse_difference(Declared(arguments=small), Declared(arguments=large), AT)
    refuse_difference(Declared(True, is_exclusive=True), Declared(False, is_exclusive=True), AT)


def test_a_queue_of_another_protocol_is_what_a_client_does_not_gainsay() -> None:
    ours = Declared(arguments=arguments_of(QueueSettings(name="q")))
    assert ours.arguments == {"x-message-ttl": Field("I", 604_800_000)}
    refuse_difference(ours, declared(), AT, is_ours=True)
    text = refusal(declared(x_message_ttl=5), ours, is_ours=True)
    assert text == "inequivalent arg 'x-message-ttl': received '5' but current is '604800000'"


@pytest.mark.parametrize(
    "wanted",
    [
        declared(),
        declared(x_message_ttl=0, x_expires=1, x_max_length=0, x_max_length_bytes=10, x_overflow="reject-publish"),
        declared(x_message_ttl=60_000),
        declared(x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_max_priority=255),
        declared(x_queue_type="quorum", x_delivery_limit=5),
        declared(x_queue_type="stream", x_max_age="7D", x_max_length_bytes=1 << 30),
        declared(x_queue_mode="lazy", x_queue_master_locator="min-masters"),
    ],
)
def test_arguments_are_settings_that_a_queue_can_have(wanted: Declared) -> None:
    check(wanted, AT)
    settings = parse_queue({"name": "q", **queue_settings(wanted)})
    assert (settings.partitions, settings.retention.settled.value) == (
        1,
        "keep" if wanted.type == "stream" else "delete",
    )
    assert not wanted.arguments.keys() & {"x-message-ttl"} or settings.limits.message_ttl_ms in (1, 60_000)


def test_what_was_declared_comes_back_from_its_record() -> None:
    values = {"s": "ä\n\udcff", "=": "=", "n": 5, "f": 1.5, "b": True, "x": b"\xff", "v": None, "d": Decimal("1.25")}
    table = table_of({**values, "t": {"a": [1, {"b": "c"}]}})
    mine = Declared(False, True, True, table)
    stored = msgspec.json.decode(msgspec.json.encode(record_of(mine)))
    assert declared_of(stored) == mine
    assert declared_of(None) is None


def test_what_arguments_ask_for() -> None:
    wanted = table_of({"x-message-ttl": 5, "x-delivery-limit": 7})
    assert argument_settings(wanted) == {
        ("limits", "message_ttl"): "5ms",
        ("max_deliveries",): 7,
        ("count_requeues",): True,
    }
    assert argument_settings({}, "quorum") == {("max_deliveries",): 20, ("count_requeues",): True}
    stream = table_of({"x-max-age": "2h", "x-max-length-bytes": 100})
    assert argument_settings(stream, "stream") == {("retention", "time"): "7200000ms", ("retention", "bytes"): 100}
