from __future__ import annotations

import string

import pytest

from penstock.codecs.amqp091.errors import SOFT, AmqpError, Fault, Reply, cut, inequivalent, named, snippet
from penstock.codecs.amqp091.kinds import Field
from penstock.codecs.amqp091.methods import ChannelClose, ConnectionClose

QUEUE = named("queue", "q", "/")
# Texts of RabbitMQ 3.10.8, and what they are made of.
TEXTS: list[tuple[Fault, dict[str, object], str]] = [
    (Fault.MISSING, {"what": QUEUE}, "NOT_FOUND - no queue 'q' in vhost '/'"),
    (
        Fault.REFUSED,
        {"what": QUEUE, "user": "u"},
        "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'u'",
    ),
    (Fault.EXCLUSIVE_CONSUMER, {"what": QUEUE}, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"),
    (Fault.IN_USE, {"what": QUEUE}, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"),
    (Fault.NOT_EMPTY, {"what": QUEUE}, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"),
    (Fault.UNKNOWN_DELIVERY, {"tag": 7}, "PRECONDITION_FAILED - unknown delivery tag 7"),
    (Fault.IMMEDIATE, {}, "NOT_IMPLEMENTED - immediate=true"),
    (Fault.NO_ROUTE, {}, "NO_ROUTE"),
    (
        Fault.INEQUIVALENT,
        {"arg": "x-max-length", "what": QUEUE, "received": "none", "current": "the value '1' of type 'long'"},
        "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current"
        " is the value '1' of type 'long'",
    ),
    (
        Fault.LOGIN_REFUSED,
        {"mechanism": "PLAIN"},
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.",
    ),
    (Fault.NO_VHOST, {"vhost": "x"}, "NOT_ALLOWED - vhost x not found"),
    (
        Fault.NEGOTIATED,
        {"what": "frame_max", "value": 100, "note": "", "relation": "lower", "bound": "minimum", "limit": 4096},
        "NOT_ALLOWED - negotiated frame_max = 100 is lower than the minimum allowed value (4096)",
    ),
    (
        Fault.EXPECTED_HEADER,
        {"class_id": 60},
        "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead",
    ),
    (
        Fault.RESERVED_NAME,
        {"kind": "queue", "name": "amq.x"},
        "ACCESS_REFUSED - queue name 'amq.x' contains reserved prefix 'amq.*'",
    ),
    (
        Fault.INTERNAL_EXCHANGE,
        {"what": named("exchange", "e", "/")},
        "ACCESS_REFUSED - cannot publish to internal exchange 'e' in vhost '/'",
    ),
    (
        Fault.LOCKED,
        {"what": QUEUE},
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally"
        " declared on another connection or the exclusive property value does not match that of the original"
        " declaration.",
    ),
]


@pytest.mark.parametrize(("fault", "facts", "text"), TEXTS, ids=lambda value: getattr(value, "name", ""))
def test_refusals_are_told_in_rabbitmqs_words(fault: Fault, facts: dict[str, object], text: str) -> None:
    assert AmqpError(fault, 3, **facts).reply_text == text
    assert len(text) <= 255


def test_every_situation_can_be_told_from_its_facts() -> None:
    for fault in Fault:
        facts = {name: "x" for _, name, _, _ in string.Formatter().parse(fault.text) if name}
        error = AmqpError(fault, 3, (50, 10), **facts)
        assert error.reply_text.startswith(fault.reply.name)
        assert "{" not in error.reply_text.replace("{x", "")


def test_soft_errors_close_the_channel_and_hard_ones_the_connection() -> None:
    soft = AmqpError(Fault.MISSING, 3, (50, 10), what=QUEUE).close()
    assert soft == ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10)
    hard = AmqpError(Fault.IMMEDIATE, 3, (60, 40)).close()
    assert hard == ConnectionClose(540, "NOT_IMPLEMENTED - immediate=true", 60, 40)
    assert isinstance(AmqpError(Fault.MISSING, 0, what=QUEUE).close(), ConnectionClose)
    assert AmqpError(Fault.LOGIN_REFUSED, 3, mechanism="PLAIN").is_hard
    assert not AmqpError(Fault.TX_TOO_LARGE, 3, size=2, limit=1).is_hard
    assert {reply for reply in Reply if reply in SOFT} == {311, 312, 313, 403, 404, 405, 406}


def test_long_texts_are_cut_between_characters() -> None:
    for text in ("a" * 255, "ä" * 127):
        assert cut(text) == text
    assert cut("a" * 256) == "a" * 252 + "..."
    assert cut("b" + "ä" * 200) == "b" + "ä" * 125 + "..."
    assert len(cut("🌡" * 100).encode()) <= 255


def test_payloads_are_shown_by_their_beginning() -> None:
    assert snippet(b"\1\2") == "all octets = <<1,2>>"
    assert snippet(bytes(17)) == f"first 16 octets = <<{','.join('0' * 16)}>>"


def number(value: int) -> Field:
    return Field("I", value)


@pytest.mark.parametrize(
    ("received", "current", "said"),
    [
        (Field("l", 2), number(1), "received '2' but current is '1'"),
        (Field("S", "a"), number(1), "received 'a' but current is '1'"),
        (Field("t", True), number(1), "received 'true' but current is '1'"),
        (Field("d", 1.5), number(1), "received '1.5' but current is '1'"),
        (Field("V", None), number(1), "received none but current is '1'"),
        (Field("A", (Field("l", 1),)), number(1), "received '[{long,1}]' but current is '1'"),
        (
            Field("F", {"k": Field("S", "v")}),
            number(1),
            "received '[{<<\"k\">>,longstr,<<\"v\">>}]' but current is '1'",
        ),
        (Field("b", 1), None, "received the value '1' of type 'byte' but current is none"),
        (None, Field("i", 1), "received none but current is the value '1' of type 'unsignedint'"),
    ],
)
def test_arguments_that_are_not_what_they_were_are_told_as_rabbitmq_tells_them(
    received: Field | None, current: Field | None, said: str
) -> None:
    error = inequivalent("x", QUEUE, received, current, 3, (50, 10))
    assert error.reply_text == f"PRECONDITION_FAILED - inequivalent arg 'x' for queue 'q' in vhost '/': {said}"
    assert isinstance(error.close(), ChannelClose)
