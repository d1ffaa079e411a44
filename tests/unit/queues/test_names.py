"""Names, addresses and ids: what is taken, what is refused, and that every id comes back as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InvalidArgument, QueueReserved
from penstock.core.queue_paths import dead_letter_queue, other_topics, own_topics, queue_of_path, queue_topic
from penstock.kernels.topics import check_topic
from penstock.queues import names
from penstock.queues.names import (
    GroupName,
    MessageId,
    ReceiptHandle,
    SubscriptionAddress,
    check_filter,
    check_queue_name,
    default_group,
    group_name,
    parse_group_name,
    parse_message_id,
    parse_receipt_handle,
    queue_address,
    queue_of_publish_topic,
    subscription_address,
)

QUEUE_NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="+#$/"), min_size=1, max_size=40
).filter(lambda name: not name.endswith(".dlq"))


@pytest.mark.parametrize(
    "name",
    [
        *("orders", "a/b/c", "a:b@c", "Bestellungen für Ä", "..", "$dlq/orders", "$dlq/a/b", "dlq", "x" * 255),
        *("/a", "a/", "a//b", "a/+", "a#", "$SYS/a", "a/$ack", "$dlq/", "$dlq/$dlq/a"),
        *("dlq/orders", "orders.dlq", "$dlq/orders.dlq", "amq.gen-JzTY20BRgKO-HjmUJj0wLg", "ä" * 127),
    ],
)
def test_names_a_queue_may_have(name: str) -> None:
    check_queue_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("ä" * 128, "256 bytes"),
        ("\ud800", "surrogate"),
    ],
)
def test_names_a_queue_may_not_have(name: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        check_queue_name(name)


def test_a_queue_with_the_longest_name_has_dead_letters_too() -> None:
    check_queue_name(dead_letter_queue("x" * 255))


@pytest.mark.parametrize("name", ["", "a|b", "a\0", "x" * 256])
def test_names_a_group_may_not_have(name: str) -> None:
    with pytest.raises(InvalidArgument):
        names.check_group_name(name)


@pytest.mark.parametrize("name", ["", "a/b", "$x", "a+", "a|b", "a\n"])
def test_names_a_namespace_may_not_have(name: str) -> None:
    with pytest.raises(InvalidArgument):
        names.check_namespace(name)


@pytest.mark.parametrize("text", ["#", "+", "a/#", "+/b/+", "a//b", "/", "$queue/a/#"])
def test_filters_that_are_taken(text: str) -> None:
    check_filter(text)


@pytest.mark.parametrize("text", ["", "a/#/b", "a#", "a/b+", "##", "a\0", "x" * 65536, "\udc00"])
def test_filters_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        check_filter(text)


@pytest.mark.parametrize(
    ("topic", "address"),
    [
        ("$queue/orders", "orders"),
        ("$queue/a/b", "a/b"),
        ("$queue/dlq/orders", "dlq/orders"),
        ("$queue/orders.dlq", "orders.dlq"),
        ("$dlq/orders", "$dlq/orders"),
        ("$queue/$dlq/orders", "$dlq/orders"),
        ("$queue/dlq", "dlq"),
        ("orders", None),
        ("orders.dlq", None),
        ("$SYS/uptime", None),
        ("queue/orders", None),
    ],
)
def test_the_address_of_a_topic(topic: str, address: str | None) -> None:
    assert queue_address(topic) == address


def test_publishing_creates_no_queue_with_a_name_that_none_may_have() -> None:
    assert queue_of_publish_topic("$queue/a/b") == "a/b"
    assert queue_of_publish_topic("a/b") is None
    with pytest.raises(InvalidArgument, match="%24ack"):
        queue_of_publish_topic("$queue/orders/$ack")
    with pytest.raises(QueueReserved):
        queue_of_publish_topic("$queue/amq.gen-1")


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("orders", "$queue/orders"),
        ("shop/orders", "$queue/shop/orders"),
        ("50%", "$queue/50%"),
        ("50%2", "$queue/50%2"),
        ("50%2F", "$queue/50%252F"),
        ("a//b", "$queue/a%2F%2Fb"),
        ("reply/", "$queue/reply%2F"),
        ("/", "$queue/%2F"),
        ("x#y+z", "$queue/x%23y%2Bz"),
        ("$weird", "$queue/%24weird"),
        ("a/$b$", "$queue/a/%24b$"),
        ("a/$ack", "$queue/a/%24ack"),
        ("orders.dlq", "$queue/orders%2Edlq"),
        ("dlq/orders", "$queue/dlq%2Forders"),
        ("dlq/a/b.dlq", "$queue/dlq%2Fa/b%2Edlq"),
        ("$queue/orders", "$queue/%24queue/orders"),
        ("$dlq/orders", "$dlq/orders"),
        ("$dlq/orders.dlq", "$dlq/orders.dlq"),
        ("$dlq/x#", "$dlq/x%23"),
        ("$dlq/", "$queue/%24dlq%2F"),
        (".dlq", "$queue/.dlq"),
    ],
)
def test_every_queue_has_one_topic(name: str, topic: str) -> None:
    assert queue_topic(name) == topic
    assert queue_of_publish_topic(topic) == name


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("$queue/orders.dlq", "$dlq/orders"),
        ("$queue/dlq/orders", "$dlq/orders"),
        ("$queue/dlq/a/b", "$dlq/a/b"),
        ("$queue/$dlq/orders", "$dlq/orders"),
        ("$queue/x%23.dlq", "$dlq/x#"),
    ],
)
def test_dead_letters_have_other_ways_to_write_them(topic: str, name: str) -> None:
    assert queue_of_publish_topic(topic) == name
    assert topic in other_topics(name)


@pytest.mark.parametrize(
    "topic", ["$queue/a%2Fb", "$queue/a%2Eb", "$queue/%24dlq/a", "$queue/$x", "$queue/a//b", "$queue/a%23/", "$queue/"]
)
def test_a_queue_has_no_second_topic(topic: str) -> None:
    with pytest.raises(InvalidArgument, match=r"in another way|empty"):
        queue_of_publish_topic(topic)


@settings(max_examples=500)
@given(st.text(st.sampled_from("ab%2BF345E.dlq/$+#"), min_size=1, max_size=12))
def test_topics_of_queues_are_topics_and_lead_back(name: str) -> None:
    topic = queue_topic(name)
    check_topic(topic.encode())
    assert all(topic.split("/"))
    assert not any(level.startswith("$") for level in topic.split("/")[1:])
    assert queue_of_path(topic.removeprefix("$queue/")) == name
    assert topic in own_topics(name)


@settings(max_examples=500)
@given(st.text(st.sampled_from("a%2BF345E.dlq/$"), min_size=1, max_size=12))
def test_a_path_that_is_taken_is_the_only_one_of_its_queue(path: str) -> None:
    try:
        name = queue_of_path(path)
    except InvalidArgument:
        return
    assert f"$queue/{path}" in (*own_topics(name), *other_topics(name)) or path == queue_topic(name)


@pytest.mark.parametrize(
    ("topic_filter", "path", "rest", "created"),
    [
        ("$queue/orders", "orders", "", "orders"),
        ("$queue/orders/#", "orders", "#", "orders"),
        ("$queue/a/b/#", "a/b", "#", "a/b"),
        ("$queue/a/+/c", "a", "+/c", None),
        ("$queue/a/+/#", "a", "+/#", None),
        ("$queue/dlq/orders/#", "dlq/orders", "#", "$dlq/orders"),
        ("$queue/orders.dlq/#", "orders.dlq", "#", "$dlq/orders"),
        ("$queue/x%23y/#", "x%23y", "#", "x#y"),
        ("$dlq/orders", "$dlq/orders", "", "$dlq/orders"),
    ],
)
def test_a_subscription_is_split_before_its_wildcards(
    topic_filter: str, path: str, rest: str, created: str | None
) -> None:
    address = subscription_address(topic_filter)
    assert address == SubscriptionAddress(path, rest)
    assert address is not None and address.queue_to_create == created


@pytest.mark.parametrize("topic_filter", ["$queue/#", "$queue/+/a", "$queue/", "$dlq/#", "$dlq/+"])
def test_a_subscription_must_name_its_queue(topic_filter: str) -> None:
    with pytest.raises(InvalidArgument, match="names no queue"):
        subscription_address(topic_filter)


def test_an_ordinary_filter_is_no_address_of_a_queue() -> None:
    assert subscription_address("orders/#") is None


@pytest.mark.parametrize(
    ("topic_filter", "queue", "on_routing_key"),
    [
        ("$queue/q", "q", None),
        ("$queue/q/#", "q", None),
        ("$queue/q/eu", "q", "eu"),
        ("$queue/q/eu/#", "q", "eu/#"),
        ("$queue/q/+/new", "q", "+/new"),
        ("$queue/a/b/eu/+", "a/b", "eu/+"),
        ("$dlq/q/#", "$dlq/q", None),
    ],
)
def test_what_follows_the_declared_queue_is_the_filter(
    topic_filter: str, queue: str, on_routing_key: str | None
) -> None:
    address = subscription_address(topic_filter)
    assert address is not None and address.filter_for(queue) == on_routing_key


def test_a_path_is_split_at_whole_levels_only() -> None:
    with pytest.raises(InvalidArgument, match="not in queue"):
        SubscriptionAddress("orders-eu", "").filter_for("orders")


@pytest.mark.parametrize("everything", [None, "", "#"])
def test_a_filter_that_matches_everything_is_none(everything: str | None) -> None:
    assert group_name("billing", everything) == GroupName("billing", None)


@pytest.mark.parametrize("text", ["billing", "billing|eu/#", "a/b c|+/x|y"])
def test_a_group_comes_back_from_its_text(text: str) -> None:
    assert str(parse_group_name(text)) == text


def test_a_group_is_its_name_and_its_filter() -> None:
    assert parse_group_name("billing|eu/#") == GroupName("billing", "eu/#")
    assert parse_group_name("billing|#") == parse_group_name("billing") == GroupName("billing")
    with pytest.raises(InvalidArgument):
        parse_group_name("|eu/#")
    with pytest.raises(InvalidArgument):
        parse_group_name("billing|a/#/b")


@pytest.mark.parametrize(
    ("client_id", "group"),
    [("billing-1", "billing"), ("eu-billing-17", "eu-billing"), ("billing", "billing"), ("-1", "-1"), ("a-", "a")],
)
def test_the_group_of_a_client_that_names_none(client_id: str, group: str) -> None:
    assert default_group(client_id) == group


def test_a_client_id_that_makes_no_group_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"\|"):
        default_group("a|b-1")


@given(QUEUE_NAMES, st.integers(0, 10**18 - 1), st.integers(0, 10**9 - 1), st.integers(0, 10**18 - 1))
@settings(max_examples=200, deadline=None)
def test_a_message_id_comes_back_from_its_text(queue: str, incarnation: int, partition: int, offset: int) -> None:
    message = MessageId(queue, incarnation, partition, offset)
    assert parse_message_id(str(message)) == message


@given(QUEUE_NAMES, st.integers(0, 10**9 - 1), st.from_regex(r"[A-Za-z0-9_-]{1,22}", fullmatch=True))
@settings(max_examples=200, deadline=None)
def test_a_receipt_handle_comes_back_from_its_text(queue: str, count: int, nonce: str) -> None:
    handle = ReceiptHandle(MessageId(queue, 1, 2, 3), count, nonce)
    assert parse_receipt_handle(str(handle)) == handle


def test_a_message_id_is_read_from_the_right() -> None:
    assert parse_message_id("a@1:2:3@4:5:6") == MessageId("a@1:2:3", 4, 5, 6)
    assert str(MessageId("orders", 1, 3, 42)) == "orders@1:3:42"
    assert parse_receipt_handle("a~1~x@4:5:6~7~n_-") == ReceiptHandle(MessageId("a~1~x", 4, 5, 6), 7, "n_-")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "orders@1:2",
        "@1:2:3",
        "orders@1:2:-3",
        "orders@1:2:03",
        "orders@1:2:٣",
        "orders@1:2:3 ",
        "q@1:2:3\n",
        "orders@a:2:3",
        f"orders@1:2:{10**18}",
        f"orders@1:{10**9}:3",
    ],
)
def test_text_that_is_no_message_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="not a message-id"):
        parse_message_id(text)


@pytest.mark.parametrize("text", ["orders@1:2:3", "orders@1:2:3~1", "orders@1:2:3~x~n", "orders@1:2:3~1~", "x~1~n"])
def test_text_that_is_no_receipt_handle_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_receipt_handle(text)


def test_logs_of_a_unit_have_names_of_their_own() -> None:
    found = {
        log("default", queue, partition)
        for log in (names.data_log, names.state_log, names.snapshots_log)
        for queue in ("a/b", "a", "a/b/0")
        for partition in (0, 10)
    }
    assert len(found) == 18
    assert names.data_log("default", "a/b", 3) == "default/a%2Fb/3"
