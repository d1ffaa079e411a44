from __future__ import annotations

import pytest
from tests.support.clock import FakeClock

from penstock.broker.auth.limits import KeyedRates, Rate, RateLimits, Taken, peer_key, speed
from penstock.broker.auth.options import RateLimitOptions


def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    clock = FakeClock()
    rate = Rate(speed(1000, 1.0, 100), clock)
    assert rate.take(800).allowed == 100
    assert rate.take(1).allowed == 0
    clock.advance(0.05)
    assert rate.take(800).allowed == 50
    clock.advance(60)
    assert rate.take(800).allowed == 100


def test_over_a_long_time_the_rate_holds() -> None:
    clock = FakeClock()
    rate, sent = Rate(speed(1000, 1.0, 100), clock), 0
    for _ in range(1000):
        sent += rate.take(7).allowed
        clock.advance(0.005)
    assert 5000 <= sent <= 5100


def test_one_who_waits_as_told_gets_something() -> None:
    clock = FakeClock()
    rate = Rate(speed(1000, 1.0, 100), clock)
    left, waits = 1000 - rate.take(1000).allowed, 0
    while left:
        taken = rate.take(left)
        left -= taken.allowed
        clock.advance(taken.wait_s)
        waits += 1
    assert waits < 30
    assert clock.monotonic() == pytest.approx(0.9, abs=0.01)


def test_what_was_not_allowed_costs_nothing() -> None:
    clock = FakeClock()
    rate = Rate(speed(10, 1.0, 1), clock)
    rate.take(1)
    for _ in range(100):
        assert rate.take(5).allowed == 0
    clock.advance(0.1)
    taken = rate.take(5)
    assert taken.allowed == 1
    assert taken.wait_s == pytest.approx(0.1)


def test_one_who_sends_much_at_once_waits_until_it_is_paid_for() -> None:
    clock = FakeClock()
    rate, sent = Rate(speed(1000, 1.0, 100), clock), 0
    assert rate.spend(100) == 0.0
    assert rate.spend(800) == pytest.approx(0.8)
    clock.advance(10)
    while clock.monotonic() < 20:
        clock.advance(rate.spend(800))
        sent += 800
    assert 10_000 <= sent <= 10_900
    assert Rate(speed(0, 1.0, 1), clock).spend(1 << 20) == 0.0


def test_the_defaults_are_those_of_the_documents() -> None:
    options, clock = RateLimitOptions(), FakeClock()
    limits = RateLimits(options, clock)
    assert sum(limits.admit("192.0.2.1", False) for _ in range(50)) == 20
    clock.advance(6)
    assert sum(limits.admit("192.0.2.1", False) for _ in range(50)) == 10
    assert limits.connections_refused == 30 + 40
    assert limits.admit("192.0.2.2", False)
    client = limits.client(False)
    assert client.messages.take(1000).allowed == 100
    assert client.subscriptions.take(1000).allowed == 10
    clock.advance(0.05)
    assert client.messages.take(1000).allowed == 50
    assert client.subscriptions.take(1000).allowed == 5


def test_loopback_has_no_limits() -> None:
    limits = RateLimits(RateLimitOptions(), FakeClock())
    assert all(limits.admit("127.0.0.1", True) for _ in range(1000))
    assert limits.client(True).messages.take(1 << 20) == Taken(1 << 20, 0.0)
    assert limits.client(True).subscriptions.take(1 << 20) == Taken(1 << 20, 0.0)


def test_changed_limits_count_for_clients_that_are_there() -> None:
    limits = RateLimits(RateLimitOptions(), FakeClock())
    client = limits.client(False)
    limits.change(RateLimitOptions(max_messages_per_client=0, max_connections_per_ip=0))
    assert client.messages.take(5000) == Taken(5000, 0.0)
    assert all(limits.admit("192.0.2.1", False) for _ in range(1000))
    limits.change(RateLimitOptions(message_burst_size=3))
    assert client.messages.take(5000).allowed == 3


def test_a_table_forgets_the_one_that_was_quiet_longest() -> None:
    clock = FakeClock()
    table = KeyedRates(speed(1, 60.0, 1), clock, limit=3)
    for key in ("a", "b", "c"):
        assert table.take(key).allowed
    table.take("d")
    assert len(table) == 3
    assert table.take("a").allowed
    assert not table.take("d").allowed
    for number in range(1000):
        table.take(str(number))
    assert len(table) == 3


def test_one_can_ask_without_taking() -> None:
    clock = FakeClock()
    table = KeyedRates(speed(2, 60.0, 2), clock)
    assert table.wait_s("a") == 0.0
    assert table.take("a", 2).allowed == 2
    assert table.wait_s("a") == pytest.approx(30, abs=0.001)
    clock.advance(table.wait_s("a"))
    assert table.wait_s("a") == 0.0
    assert table.take("a").allowed == 1


def test_an_address_counts_for_the_machine_it_is_of() -> None:
    assert peer_key("192.0.2.1") == peer_key("::ffff:192.0.2.1") == "192.0.2.1"
    assert peer_key("2001:db8::1") == peer_key("2001:db8::ffff:1") != peer_key("2001:db8:0:1::1")
    assert peer_key("fe80::1%eth0") == "fe80::"
    assert peer_key("not an address") == "not an address"
