"""Rate limits: token buckets of one number each, refilled by the clock. A call takes for a whole receive at once."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from penstock.broker.auth.options import RateLimitOptions
from penstock.core.ports import Clock

# Of each address or user that was there lately, about 150 bytes. Beyond it the one that was quiet longest is forgotten.
_MAX_KEYS = 20_000
# A float's step after a year of uptime is 4 ns; a token is never that cheap.
_ROUNDING = 1e-6


class Taken(NamedTuple):
    allowed: int
    """of those wanted, these may go now; the others were not taken"""
    wait_s: float
    """0.0 if all may; else when it is worth asking for the others"""


@dataclass(slots=True)
class Speed:
    """One token every `interval_s`, at most `burst` saved up; an interval of 0 is no limit. Buckets share it: a change
    counts for all of them at once."""

    interval_s: float
    burst: int

    def change(self, count: int, window_s: float, burst: int) -> None:
        self.interval_s, self.burst = (window_s / count if count else 0.0), max(burst, 1)

    def take(self, full_at_s: float, now_s: float, wanted: int) -> tuple[float, Taken]:
        """A bucket is the time at which it will be full. The one afterwards, and what it gave."""
        if not self.interval_s:
            return full_at_s, Taken(wanted, 0.0)
        full_at_s = max(full_at_s, now_s)
        left = self.burst - (full_at_s - now_s) / self.interval_s
        allowed = max(0, min(wanted, int(left + _ROUNDING)))
        full_at_s += allowed * self.interval_s
        if allowed == wanted:
            return full_at_s, Taken(allowed, 0.0)
        # Half a burst at a time: to come back for each single token would cost more than the work it stands for, and
        # to wait for a whole burst would lose what comes in while nobody looks.
        useful = min(wanted - allowed, max(1, self.burst // 2))
        wait_s = full_at_s - now_s - (self.burst - useful) * self.interval_s
        return full_at_s, Taken(allowed, max(wait_s, 0.0))

    def wait_s(self, full_at_s: float, now_s: float) -> float:
        """Until there is a token; 0.0 if there is one."""
        return max(0.0, full_at_s - now_s - (self.burst - 1 + _ROUNDING) * self.interval_s)


def speed(count: int, window_s: float, burst: int) -> Speed:
    made = Speed(0.0, 1)
    made.change(count, window_s, burst)
    return made


class Rate:
    """The bucket of one client."""

    __slots__ = ("_clock", "_full_at_s", "_speed")

    def __init__(self, speed: Speed, clock: Clock) -> None:
        self._speed, self._clock, self._full_at_s = speed, clock, 0.0

    def take(self, wanted: int = 1) -> Taken:
        if not self._speed.interval_s:
            return Taken(wanted, 0.0)
        self._full_at_s, taken = self._speed.take(self._full_at_s, self._clock.monotonic(), wanted)
        return taken

    @property
    def is_limited(self) -> bool:
        return self._speed.interval_s > 0

    def spend(self, count: int) -> float:
        """For what is there already and will be done: all of it is taken. So many seconds the client has to wait until
        it owes nothing, which keeps the rate however much came at once."""
        speed, now_s = self._speed, self._clock.monotonic()
        if not speed.interval_s:
            return 0.0
        self._full_at_s = max(self._full_at_s, now_s) + count * speed.interval_s
        return max(0.0, self._full_at_s - now_s - speed.burst * speed.interval_s)


class KeyedRates:
    """Buckets by key, as many as `limit`."""

    def __init__(self, speed: Speed, clock: Clock, limit: int = _MAX_KEYS) -> None:
        self._speed, self._clock, self._limit = speed, clock, limit
        self._full_at_s: OrderedDict[str | bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at_s)

    def take(self, key: str | bytes, wanted: int = 1) -> Taken:
        full_at_s, taken = self._speed.take(self._full_at_s.get(key, 0.0), self._clock.monotonic(), wanted)
        if taken.allowed and self._speed.interval_s:
            self._full_at_s[key] = full_at_s
            self._full_at_s.move_to_end(key)
            if len(self._full_at_s) > self._limit:
                self._full_at_s.popitem(last=False)
        return taken

    def wait_s(self, key: str | bytes) -> float:
        """Until there is one to take; 0.0 if there is. Takes nothing."""
        return self._speed.wait_s(self._full_at_s.get(key, 0.0), self._clock.monotonic())


@lru_cache(4096)
def peer_key(address: str) -> str:
    """Whom an IP address counts for: of IPv6 the network of 64 bits, as one machine has all of its addresses."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.IPv6Address(int(parsed) >> 64 << 64))
    return str(parsed)


class ClientRates(NamedTuple):
    messages: Rate
    subscriptions: Rate


class RateLimits:
    """Of a server. Listeners on loopback have none."""

    def __init__(self, options: RateLimitOptions, clock: Clock) -> None:
        self._clock = clock
        self._connections, self._messages, self._subscriptions = Speed(0.0, 1), Speed(0.0, 1), Speed(0.0, 1)
        self._unlimited = ClientRates(Rate(Speed(0.0, 1), clock), Rate(Speed(0.0, 1), clock))
        self._peers = KeyedRates(self._connections, clock)
        self.connections_refused = 0
        self.connections_over_limit = 0
        """refused because there were as many as there may be in all; whoever accepts them counts"""
        self.change(options)

    def change(self, options: RateLimitOptions) -> None:
        """Counts at once, for clients that are there too."""
        per_ip = options.max_connections_per_ip
        self._connections.change(per_ip, options.connection_window_s, options.connection_burst_size)
        self._messages.change(options.max_messages_per_client, 1.0, options.message_burst_size)
        self._subscriptions.change(options.max_subscriptions_per_client, 1.0, options.subscribe_burst_size)

    def admit(self, peer: str, is_loopback: bool) -> bool:
        """Whether one more connection from an address may be served. To be asked when it was accepted, before anything
        of it is read."""
        if is_loopback or self._peers.take(peer_key(peer)).allowed:
            return True
        self.connections_refused += 1
        return False

    def client(self, is_loopback: bool) -> ClientRates:
        """For a new connection."""
        if is_loopback:
            return self._unlimited
        return ClientRates(Rate(self._messages, self._clock), Rate(self._subscriptions, self._clock))
