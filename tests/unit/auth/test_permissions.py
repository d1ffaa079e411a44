"""What clients may do under given rules."""

from __future__ import annotations

import gc

import pytest
from tests.support.clock import FakeClock

from penstock.broker.auth.permissions import (
    ADMIN_VERDICTS,
    AllPermissions,
    Caches,
    PassingPermissions,
    Permissions,
    Verdicts,
)
from penstock.broker.auth.rules import Action, Effect, Rule, rule


def rules(*texts: str) -> list[Rule]:
    """`allow publish a/#` and the like."""
    return [rule(Effect(effect), Action(action), pattern) for effect, action, pattern in map(str.split, texts)]


def client(*texts: str, client_id: str = "c1", user: str = "alice") -> Permissions:
    return Permissions(Caches(), lambda: Verdicts.of(rules(*texts), client_id, user))


def test_what_no_rule_allows_is_denied() -> None:
    nobody = client()
    assert not nobody.may_publish(b"a")
    assert not nobody.may_receive(b"a")
    assert not nobody.may_subscribe("a")
    assert not nobody.may_consume("q")


def test_an_action_is_allowed_alone() -> None:
    writer = client("allow publish a/#")
    assert writer.may_publish(b"a/b")
    assert not writer.may_publish(b"b")
    assert not writer.may_subscribe("a/b")
    assert not writer.may_receive(b"a/b")


def test_all_is_every_action_on_the_topics_it_names() -> None:
    everything = client("allow all a/#", "allow all $queue/q")
    assert everything.may_publish(b"a/b")
    assert everything.may_subscribe("a/#")
    assert everything.may_receive(b"a")
    assert everything.may_consume("q")
    assert everything.may_publish(b"$queue/q")


@pytest.mark.parametrize("order", [("allow all a/#", "deny all a/x/#"), ("deny all a/x/#", "allow all a/#")])
def test_a_deny_wins_wherever_it_stands(order: tuple[str, str]) -> None:
    some = client(*order)
    assert some.may_publish(b"a/b")
    assert not some.may_publish(b"a/x/y")
    assert not some.may_receive(b"a/x")


def test_a_filter_must_be_covered_and_touch_nothing_denied() -> None:
    some = client("allow subscribe a/+", "allow subscribe b/#", "deny subscribe b/secret")
    assert some.may_subscribe("a/x")
    assert some.may_subscribe("a/+")
    assert not some.may_subscribe("a/#")
    assert not some.may_subscribe("#")
    assert not some.may_subscribe("+/x")
    assert some.may_subscribe("b/open/#")
    assert not some.may_subscribe("b/+")
    assert not some.may_subscribe("b/#")


def test_a_shared_filter_needs_what_the_filter_needs() -> None:
    some = client("allow subscribe a/#", "allow consume q")
    assert some.may_subscribe("$share/group/a/+")
    assert not some.may_subscribe("$share/group/b")
    assert some.may_subscribe("$share/group/$queue/q")
    assert not some.may_subscribe("$share/group/")
    assert not some.may_subscribe("$share/group")


def test_wildcards_do_not_reach_below_dollar() -> None:
    some = client("allow all #")
    assert some.may_publish(b"anything/at/all")
    assert not some.may_publish(b"$queue/q")
    assert not some.may_receive(b"$SYS/broker/uptime")
    assert not some.may_subscribe("$SYS/#")
    assert not some.may_consume("q")
    assert not some.may_publish(b"$admin/queue/create")
    assert client("allow subscribe $SYS/#").may_subscribe("$SYS/broker/+")


def test_queues_are_consumed_by_their_names() -> None:
    worker = client("allow consume orders", "allow consume shop/#", "deny consume shop/secret")
    assert worker.may_consume("orders")
    assert not worker.may_consume("orders/eu")
    assert worker.may_consume("shop/a/b")
    assert not worker.may_consume("shop/secret")
    assert worker.may_subscribe("$queue/orders")
    assert worker.may_subscribe("$queue/orders/#")
    assert not worker.may_subscribe("$queue/#")
    assert not worker.may_subscribe("$queue/+/#")
    assert not worker.may_publish(b"$queue/orders")


def test_to_settle_is_to_consume() -> None:
    worker, writer = client("allow consume orders"), client("allow publish $queue/orders/#")
    for topic in (b"$queue/orders/$ack", b"$queue/orders/$nack", b"$queue/orders/$reject"):
        assert worker.may_publish(topic)
        assert not writer.may_publish(topic)
    assert not worker.may_publish(b"$queue/other/$ack")


def test_dead_letters_are_guarded_however_they_are_written() -> None:
    spellings = ["$dlq/orders", "orders.dlq", "dlq/orders"]
    worker = client("allow consume #")
    assert not worker.may_consume("$dlq/orders")
    assert not any(worker.may_subscribe(f"$queue/{each}") for each in spellings)
    assert not worker.may_subscribe("$queue/orders.dlq/#")
    assert not worker.may_subscribe("$queue/orders.dlq/eu/#")
    assert not worker.may_publish(b"$queue/orders.dlq/eu/$ack")
    mender = client("allow consume $dlq/#")
    assert mender.may_consume("$dlq/orders")
    assert not mender.may_consume("orders.dlq"), "a queue that is called so"
    assert mender.may_subscribe("$dlq/orders")
    assert mender.may_subscribe("$queue/dlq/orders")
    assert mender.may_publish(b"$dlq/orders/$ack")
    writer = client("allow publish $queue/#")
    for topic in (
        b"$queue/orders.dlq",
        b"$queue/dlq/orders",
        b"$queue/$dlq/orders",
        b"$queue/a/b.dlq/c",
        b"$dlq/orders",
    ):
        assert not writer.may_publish(topic)
    assert writer.may_publish(b"$queue/orders")


def test_a_queue_that_is_called_like_dead_letters_has_a_topic_of_its_own() -> None:
    owner = client("allow all $queue/orders%%2Edlq", "allow all $queue/x%%23y")
    assert owner.may_consume("orders.dlq")
    assert owner.may_publish(b"$queue/orders%2Edlq")
    assert not owner.may_consume("$dlq/orders")
    assert not owner.may_publish(b"$queue/orders.dlq"), "which of them is meant, only the broker knows"
    assert owner.may_configure("$queue/x%23y")
    assert owner.may_consume("x#y")
    assert client("allow publish $queue/#", "allow publish $dlq/#").may_publish(b"$queue/orders.dlq")
    assert not client("allow publish $queue/#", "deny publish $queue/orders%%2Edlq").may_publish(b"$queue/orders.dlq/k")
    everything = ("allow publish $queue/#", "allow publish $dlq/#", "deny publish $queue/dlq%%2Fa")
    assert not client(*everything).may_publish(b"$queue/dlq/a")


def test_a_topic_that_could_be_read_in_a_thousand_ways_is_refused() -> None:
    assert not client("allow all $queue/#", "allow all $dlq/#").may_publish(b"$queue" + b"/x.dlq" * 10_000)


def test_admin_topics_need_the_action_admin() -> None:
    assert not client("allow publish $admin/#").may_publish(b"$admin/queue/create")
    operator = client("allow admin $admin/queue/#")
    assert operator.may_publish(b"$admin/queue/create")
    assert operator.may_subscribe("$admin/queue/orders/stats")
    assert operator.may_receive(b"$admin/queue/orders/stats")
    assert not operator.may_publish(b"$admin/users")


def test_names_stand_for_the_client_and_the_user() -> None:
    device = client("allow publish devices/%c/up", "allow subscribe users/%u/#", client_id="pump", user="bob")
    assert device.may_publish(b"devices/pump/up")
    assert not device.may_publish(b"devices/other/up")
    assert device.may_subscribe("users/bob/#")
    assert not device.may_subscribe("users/+/#")
    sly = client("allow all devices/%c/#", client_id="+")
    assert not sly.may_subscribe("devices/+/#")
    assert not sly.may_publish(b"devices/pump/up")


def test_an_admin_may_everything() -> None:
    admin = Permissions(Caches(), lambda: ADMIN_VERDICTS)
    for someone in (admin, AllPermissions(Caches(), lambda: ADMIN_VERDICTS)):
        assert someone.may_publish(b"$admin/queue/create")
        assert someone.may_subscribe("#")
        assert someone.may_subscribe("$SYS/#")
        assert someone.may_consume("$dlq/orders")
        assert someone.may_receive(b"$SYS/x")


def test_what_is_no_topic_is_not_allowed() -> None:
    some = client("allow all #")
    assert not some.may_publish(b"\xff\xfe")
    assert not some.may_subscribe("")
    assert not some.may_subscribe("a/#/b")


def test_an_answer_is_worked_out_once() -> None:
    asked = []

    def find() -> Verdicts:
        asked.append(1)
        return Verdicts.of(rules("allow publish a"), "c", "u")

    some = Permissions(Caches(), find)
    assert all(some.may_publish(b"a") for _ in range(3))
    assert some._publish == {b"a": True}
    assert len(asked) == 1


def test_a_change_of_rules_empties_what_was_remembered() -> None:
    caches, now = Caches(), rules("allow all a", "allow consume q")
    some = Permissions(caches, lambda: Verdicts.of(now, "c", "u"))
    assert some.may_publish(b"a")
    assert some.may_receive(b"a")
    assert some.may_consume("q")
    now.clear()
    version = caches.version
    caches.rules_changed()
    assert caches.version > version
    assert not some.may_publish(b"a")
    assert not some.may_receive(b"a")
    assert not some.may_consume("q")


def test_invented_topics_do_not_fill_the_memory() -> None:
    caches = Caches(limit_bytes=100_000)
    sessions = [Permissions(caches, lambda: Verdicts.of(rules("allow all #"), "c", "u")) for _ in range(5)]
    for number in range(3000):
        for session in sessions:
            assert session.may_publish(b"t/%d" % number)
    assert sum(len(session._publish) for session in sessions) < 1000
    assert sessions[0].may_publish(b"x" * 60_000)
    assert b"x" * 60_000 not in sessions[0]._publish
    alone = client("allow all #")
    for number in range(10_000):
        assert alone.may_publish(b"t/%d" % number)
    assert len(alone._publish) <= 4096


def test_sessions_that_are_gone_are_forgotten() -> None:
    caches = Caches()
    for _ in range(10):
        assert Permissions(caches, lambda: ADMIN_VERDICTS).may_publish(b"a")
    gc.collect()
    assert not list(caches.live)


def test_a_login_that_is_over_allows_nothing() -> None:
    clock = FakeClock(wall_ms=1000)
    verdicts = Verdicts.of(rules("allow all #", "allow consume q"), "c", "u")
    some = PassingPermissions(Caches(), lambda: verdicts, clock, expires_ms=2000)
    assert some.may_publish(b"a")
    assert some.may_receive(b"a")
    assert some.may_subscribe("a/#")
    assert some.may_consume("q")
    clock.advance(1.0)
    assert not some.may_publish(b"a")
    assert not some.may_receive(b"a")
    assert not some.may_subscribe("a/#")
    assert not some.may_consume("q")


def test_rights_on_queues_and_exchanges_are_asked_by_name() -> None:
    someone = client(
        "allow configure $queue/mine/#",
        "allow publish $exchange/logs/eu/#",
        "allow consume $exchange/logs",
        "deny configure $queue/mine/not",
    )
    assert someone.may_with_queue(Action.CONFIGURE, "mine/1")
    assert not someone.may_with_queue(Action.CONFIGURE, "mine/not")
    assert not someone.may_with_queue(Action.PUBLISH, "mine/1")
    assert someone.may_with_exchange(Action.PUBLISH, "logs", b"eu.de")
    assert not someone.may_with_exchange(Action.PUBLISH, "logs", b"us.ny")
    assert someone.may_with_exchange(Action.CONSUME, "logs")
    assert not someone.may_with_exchange(Action.CONSUME, "logs", b"eu.de")
    assert not client("allow all $exchange/#").may_with_exchange(Action.PUBLISH, "", b"orders")
    assert client("allow all $exchange/#", "allow publish $queue/#").may_with_exchange(Action.PUBLISH, "", b"a//\xff")
