"""Which policy counts for a queue, and what it makes of its settings."""

from __future__ import annotations

import pytest

from penstock.codecs.amqp091.wire import table_of
from penstock.core.errors import InvalidArgument
from penstock.queues.policies import PolicyRecord, chosen, effective, policy
from penstock.queues.rabbit_arguments import Declared
from penstock.queues.rabbit_settings import queue_settings
from penstock.queues.settings import QueueSettings, parse_queue


def record(
    name: str = "p", pattern: str = ".*", apply_to: str = "all", priority: int = 0, **said: object
) -> PolicyRecord:
    definition = {key.replace("_", "-"): value for key, value in said.items()} or {"message-ttl": 1000}
    return PolicyRecord("default", name, pattern, definition, apply_to, priority)


def rabbit(**arguments: object) -> tuple[QueueSettings, Declared]:
    declared = Declared(arguments=table_of({name.replace("_", "-"): value for name, value in arguments.items()}))
    return parse_queue({"name": "q", **queue_settings(declared)}), declared


def test_the_highest_priority_counts_alone() -> None:
    low, high = policy(record("low", priority=1)), policy(record("high", "^q", priority=7))
    other = policy(record("other", "^r", priority=9))
    assert chosen([low, high, other], "q") is high
    assert chosen([low, high, other], "x") is low
    assert chosen([other], "q") is None
    again = policy(record("also", "^q", priority=7))
    assert chosen([high, again], "q") is again, "the first by name"


@pytest.mark.parametrize(
    ("apply_to", "kinds"),
    [
        ("all", {"classic", "quorum", "stream"}),
        ("queues", {"classic", "quorum", "stream"}),
        ("classic_queues", {"classic"}),
        ("quorum_queues", {"quorum"}),
        ("streams", {"stream"}),
        ("exchanges", set()),
    ],
)
def test_a_policy_is_for_kinds_of_queues(apply_to: str, kinds: set[str]) -> None:
    made = policy(record(apply_to=apply_to))
    assert {kind for kind in ("classic", "quorum", "stream") if made.is_for_queue("q", kind)} == kinds
    assert made.is_for_exchange("x") == (apply_to in ("all", "exchanges"))


def test_of_numbers_the_lesser_counts() -> None:
    own, declared = rabbit(x_message_ttl=5000)
    assert effective(own, declared, policy(record(message_ttl=1000))).limits.message_ttl_ms == 1000
    assert effective(own, declared, policy(record(message_ttl=9000))).limits.message_ttl_ms == 5000
    own, declared = rabbit()
    assert effective(own, declared, policy(record(message_ttl=9000))).limits.message_ttl_ms == 9000
    assert effective(own, declared, None) is own
    ours = QueueSettings(name="q")
    assert effective(ours, None, policy(record(message_ttl=9000))).limits.message_ttl_ms == 9000
    assert effective(own, declared, policy(record(delivery_limit=3))).max_deliveries == 3


def test_of_others_the_argument_counts() -> None:
    own, declared = rabbit(x_overflow="reject-publish")
    assert effective(own, declared, policy(record(overflow="drop-head"))).overflow.value == "reject"
    own, declared = rabbit()
    assert effective(own, declared, policy(record(overflow="reject-publish"))).overflow.value == "reject"


def test_dead_letters_and_lengths_come_by_a_policy_too() -> None:
    made = policy(record(dead_letter_exchange="dlx", dead_letter_routing_key="k", max_length=10, max_length_bytes=99))
    own, declared = rabbit()
    found = effective(own, declared, made)
    assert (found.dlq_config.enabled, found.dlq_config.exchange, found.dlq_config.routing_key) == (True, "dlx", "k")
    assert (found.limits.max_ready, found.overflow.value) == (10, "drop-oldest")
    own, declared = rabbit(x_dead_letter_exchange="mine", x_max_length=5)
    found = effective(own, declared, made)
    assert (found.dlq_config.exchange, found.dlq_config.routing_key, found.limits.max_ready) == ("mine", "k", 5)
    ours = parse_queue({"name": "q"})
    assert effective(ours, None, made).dlq_config == ours.dlq_config, "it keeps its own dead letters"
    own, declared = rabbit(x_queue_type="quorum", x_overflow="drop-head")
    assert effective(own, declared, policy(record(delivery_limit=3))).count_requeues


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (record(pattern="("), "regular expression"),
        (record(pattern="x" * 513), "513|512"),
        (record(apply_to="things"), "apply-to"),
        (record(message_ttl=-1), "value_negative"),
        (record(message_ttl="1"), "expected integer"),
        (record(overflow="strange"), "invalid_overflow"),
        (record(strange=1), "strange"),
        (PolicyRecord("default", "p", ".*", {}), "empty"),
        (record(name=""), "empty"),
    ],
)
def test_what_no_policy_can_be(wrong: PolicyRecord, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        policy(wrong)


def test_what_means_nothing_here_is_taken_and_named() -> None:
    made = policy(record(ha_mode="all", queue_mode="lazy", message_ttl=1))
    assert made.without_effect == ["ha-mode", "queue-mode"]
    own, declared = rabbit()
    assert effective(own, declared, made).limits.message_ttl_ms == 1
