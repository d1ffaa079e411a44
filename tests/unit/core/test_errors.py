from __future__ import annotations

import copy
import pickle

import pytest

from penstock.client import errors as client_errors
from penstock.client.flight.problems import FlightRefused
from penstock.client.http.errors import HttpRefused, Problem
from penstock.client.mqtt.errors import MqttRefused
from penstock.codecs.mqtt import errors as mqtt_errors
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core import errors
from penstock.core.errors import ErrorCode, PenstockError
from penstock.tables.errors import QueueReplaced, Trimmed

CLASSES = [
    kind
    for module in (errors, mqtt_errors, client_errors)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, PenstockError) and hasattr(kind, "code")
    if kind not in (errors.VolatileFull, errors.ReadyFull)  # of a wider one's code
] + [Trimmed, QueueReplaced]

RAISED: list[PenstockError] = [
    errors.InvalidArgument("partitions is 0: write at least 1"),
    errors.NoSuchLog("orders/0"),
    errors.LogExists("orders/0"),
    errors.OffsetOutOfRange("orders/0", 7, 10, 20),
    errors.TooLarge("the batch", 99, 64),
    errors.CorruptBatch("checksum is wrong", 4096),
    errors.CorruptFrame("checksum is wrong", 4096),
    errors.LogDamaged("orders/0", "0.log", 4096, "checksum is wrong"),
    errors.LogPoisoned("orders/0", "No space left on device"),
    errors.LogStopped("orders/0", "Input/output error"),
    errors.JournalDamaged(5, 9, "checksum is wrong"),
    errors.JournalFailed("Input/output error"),
    errors.OutcomeUnknown("Input/output error"),
    errors.DiskLow(10, 1 << 30),
    errors.DirectoryInUse("/data", "process 42"),
    errors.DirectoryFormat("/data has format 9, this version reads up to 1: start a newer version"),
    errors.Closed("the shard is closed: open it again"),
    errors.UnsupportedPlatform("no fdatasync here: run on Linux or macOS"),
    errors.InvalidSetting("limits.max_depth", "no such setting", "limits.max_queue_depth"),
    errors.NoSuchQueue("orders"),
    errors.QueueExists("orders"),
    errors.NoSuchGroup("orders", "billing"),
    errors.GroupExists("orders", "billing"),
    errors.GroupInUse("orders", "billing", True),
    errors.QueueFull("orders", 100_000, 99_999),
    errors.StaleSettlement("orders@1:3:42", "it was delivered again"),
    errors.OutOfOrder("till-7", 12, 14),
    errors.FencedProducer("till-7", 3),
    errors.StageGone("12:0", "they were collected"),
    errors.EpochForgotten("q", 3, 17),
    errors.PipelineKnown("totals", "q-1", "q-2"),
    errors.FencedMember("billing", 8),
    errors.BadCredentials("the password is wrong"),
    errors.NotAuthorised("queue orders"),
    errors.TooManyAttempts("10 wrong passwords", 30),
    errors.NoSuchUser("till-7"),
    errors.NoSuchNamespace("shop"),
    errors.NoSuchPolicy("ttl"),
    errors.NamespaceRefused("till-7", "shop"),
    errors.UserExists("till-7"),
    errors.QueueLimit("volatile queues", 100_000, "broker.volatile_queues"),
    errors.NoSuchExchange("logs"),
    errors.ExchangeDiffers("logs", "type", "topic", "direct"),
    errors.ExchangeInUse("logs", 2),
    errors.ExchangeInternal("logs"),
    errors.QueueReserved("amq.mine"),
    errors.ExchangeReserved("amq.logs", "begins with amq., which is reserved: choose another name"),
    errors.DefaultExchange(),
    errors.ExchangeLimit("default", "bindings", 1_000_000),
    errors.NoSuchBinding("logs", "queue 'orders'", "eu.#"),
    errors.Unroutable("logs", "eu.1"),
    errors.CannotListen("mqtt", "127.0.0.1", 1883, "in use"),
    client_errors.ConnectionLost("127.0.0.1:1883 closed the connection"),
    client_errors.Refused("the server refused the login: log in as another user"),
    mqtt_errors.MalformedPacket("the topic name is empty"),
    mqtt_errors.ProtocolError("the first packet is PUBLISH"),
    Trimmed("orders", 3, 10, 20),
    QueueReplaced("orders", 3, 17),
]
NARROWER: list[PenstockError] = [
    errors.VolatileFull("replies", 256, 256, "broker.volatile_size"),
    errors.ReadyFull("orders", 10, 10, 4096),
    FlightRefused(ErrorCode.DISK_LOW, "publishes are refused until space is freed (trim or delete logs)"),
    MqttRefused("the login", ReasonCode.NOT_AUTHORIZED),
    HttpRefused("GET /api/v1/queues", 503, Problem(code="closed", detail="the server is stopping", instance="r1")),
]
"""of a code that a wider class has"""

# What the reader of each message is told to do. The others get their text from where they are raised, or
# (the two Corrupt…) are told to the user as LogDamaged or JournalDamaged.
ADVICE = {
    ErrorCode.NO_SUCH_LOG: "create it first",
    ErrorCode.LOG_EXISTS: "open it",
    ErrorCode.OFFSET_OUT_OF_RANGE: "oldest record kept is at 10",
    ErrorCode.TRIMMED: "read from 20 on",
    ErrorCode.QUEUE_REPLACED: "begin at its start",
    ErrorCode.TOO_LARGE: "smaller parts",
    ErrorCode.LOG_DAMAGED: "penstock log repair DIR --log orders/0",
    ErrorCode.LOG_POISONED: "Start the server again",
    ErrorCode.JOURNAL_DAMAGED: "penstock log repair DIR --journal",
    ErrorCode.JOURNAL_FAILED: "until the directory is opened again",
    ErrorCode.LOG_STOPPED: "Repair the disk and start again",
    ErrorCode.OUTCOME_UNKNOWN: "look before sending it again",
    ErrorCode.DISK_LOW: "trim or delete logs",
    ErrorCode.DIRECTORY_IN_USE: "stop it",
    ErrorCode.INVALID_SETTING: "did you mean limits.max_queue_depth?",
    ErrorCode.NO_SUCH_QUEUE: "create it first",
    ErrorCode.QUEUE_EXISTS: "change it",
    ErrorCode.NO_SUCH_GROUP: "create it, or subscribe with it",
    ErrorCode.GROUP_EXISTS: "reset its position",
    ErrorCode.GROUP_IN_USE: "consume with another group",
    ErrorCode.QUEUE_FULL: "raise the limit",
    ErrorCode.STALE_SETTLEMENT: "settle that delivery",
    ErrorCode.OUT_OF_ORDER: "send what is missing first",
    ErrorCode.FENCED_PRODUCER: "stop this one",
    ErrorCode.STAGE_GONE: "stage all rows again",
    ErrorCode.EPOCH_FORGOTTEN: "use a new query id",
    ErrorCode.PIPELINE_KNOWN: "reset the pipeline",
    ErrorCode.FENCED_MEMBER: "join again",
    ErrorCode.MALFORMED_PACKET: "mend the client",
    ErrorCode.PROTOCOL_ERROR: "mend the client",
}


def test_every_code_has_exactly_one_class() -> None:
    assert sorted(kind.code.value for kind in CLASSES) == sorted(code.value for code in ErrorCode)


def test_every_class_is_tried_here() -> None:
    assert {type(error) for error in RAISED} == set(CLASSES)


def test_codes_are_words_joined_by_hyphens() -> None:
    assert all(code.value == code.value.lower() and code.value.replace("-", "").isalpha() for code in ErrorCode)


@pytest.mark.parametrize("error", RAISED + NARROWER, ids=lambda error: type(error).__name__)
def test_a_message_says_what_to_do_and_names_its_facts(error: PenstockError) -> None:
    assert ADVICE.get(error.code, "") in str(error)
    facts = [fact.value if isinstance(fact, ErrorCode) else fact for fact in vars(error).values()]
    assert all(str(fact) in str(error) for fact in facts if fact is not None)


@pytest.mark.parametrize("error", RAISED + NARROWER, ids=lambda error: type(error).__name__)
def test_an_error_survives_pickling_and_copying(error: PenstockError) -> None:
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert (str(twin), vars(twin), twin.code) == (str(error), vars(error), error.code)


def test_an_invalid_argument_is_a_value_error() -> None:
    assert issubclass(errors.InvalidArgument, ValueError)


def test_an_invalid_setting_without_a_near_key_suggests_none() -> None:
    assert "did you mean" not in str(errors.InvalidSetting("partitions", "must be 1 to 10000"))
