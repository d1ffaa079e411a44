"""A load at work: as fast as the windows allow, or at a fixed rate; all in one thread, on epoll.

Every number that was sent must be received as often as it was to be: by count, and by the sum of the numbers."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.mqtt.ends import Consumer, PacedPublisher, Publisher
from bench.mqtt.link import PeerFailed, Room
from bench.mqtt.servers import Server

_STALLED_S = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    messages: int
    seconds: float
    generator_cpu_s: float
    server_cpu_s: float

    @property
    def seconds_a_message(self) -> float:
        return self.seconds / self.messages


class Load:
    """One run against one server. Each message goes to `copies` consumers. A load that is `fenced` is over only when
    the server has read what settles the last message."""

    def __init__(
        self,
        server: Server,
        publishers: Sequence[Publisher],
        consumers: Sequence[Consumer] = (),
        copies: int = 1,
        fenced: bool = False,
    ) -> None:
        self._server, self._publishers, self._consumers = server, publishers, consumers
        self._copies, self._fenced = copies, fenced
        self._waiting = [publisher for publisher in publishers if publisher.waits_for_others]
        self._ends: dict[int, Publisher | Consumer] = {}
        self._epoll, self._room = select.epoll(), Room()
        self._blocked: set[int] = set()

    def as_fast_as_possible(self, duration_s: float) -> Outcome:
        """Publish for so long, then wait for what is under way."""
        return self._measured(lambda begun_ns: self._rush(begun_ns + int(duration_s * 1e9)))

    def drained(self, expected: int, sum_of_numbers: int) -> Outcome:
        """Take what is there already: so many messages, whose numbers have that sum."""
        return self._measured(lambda _: self._wait(expected), expected, sum_of_numbers)

    def at_rate(self, messages_a_second: int, duration_s: float) -> Outcome:
        """One message of every publisher at a time, at even intervals."""
        paced = [publisher for publisher in self._publishers if isinstance(publisher, PacedPublisher)]
        ticks = int(messages_a_second * duration_s / len(paced))
        return self._measured(lambda begun_ns: self._pace(paced, begun_ns, ticks, duration_s / ticks))

    def close(self) -> None:
        for end in self._ends.values():
            end.parts.link.close()
        self._epoll.close()

    def _measured(
        self, work: Callable[[int], None], expected: int | None = None, sum_of_numbers: int | None = None
    ) -> Outcome:
        self._register()
        server_cpu, cpu, begun_ns = self._server.cpu_seconds(), time.process_time(), time.monotonic_ns()
        work(begun_ns)
        if self._fenced:
            self._fence()
        took_s, cpu = (time.monotonic_ns() - begun_ns) / 1e9, time.process_time() - cpu
        server_cpu = self._server.cpu_seconds() - server_cpu
        messages = sum(publisher.sent for publisher in self._publishers) if expected is None else expected
        if sum_of_numbers is None:
            sum_of_numbers = sum(publisher.parts.ring.sum_of_numbers for publisher in self._publishers)
        self._check(messages, sum_of_numbers)
        return Outcome(messages, took_s, cpu, server_cpu)

    def _register(self) -> None:
        ends: list[Publisher | Consumer] = [*self._publishers, *self._consumers]
        for end in ends:
            link = end.parts.link
            link.socket.setblocking(False)
            self._ends[link.fileno()] = end
            self._epoll.register(link.fileno(), select.EPOLLIN)

    def _rush(self, until_ns: int) -> None:
        self._fill(self._publishers)
        while time.monotonic_ns() < until_ns:
            self._turn(0.05)
        for publisher in self._publishers:
            publisher.is_open = False
        self._wait(self._copies * sum(publisher.sent for publisher in self._publishers))

    def _pace(self, paced: Sequence[PacedPublisher], begun_ns: int, ticks: int, tick_s: float) -> None:
        for tick in range(ticks):
            stamp_ns = begun_ns + int(tick * tick_s * 1e9)
            while (left_ns := stamp_ns - time.monotonic_ns()) > 0:
                self._turn(left_ns / 1e9)
            for publisher in paced:
                publisher.due_ns.append(stamp_ns)
            self._fill(self._publishers)
            self._turn(0)
        for publisher in paced:
            publisher.is_open = False
        self._wait(self._copies * ticks * len(paced))

    def _fill(self, publishers: Sequence[Publisher]) -> None:
        now_ns = time.monotonic_ns()
        for publisher in publishers:
            publisher.fill(now_ns)
            self._watch(publisher)

    def _wait(self, deliveries: int) -> None:
        """Until every publisher has its answers and every consumer its messages, which must keep coming."""
        progress, since = -1, time.monotonic()
        while not self._is_done(deliveries):
            self._turn(0.05)
            if (now := self._progress()) != progress:
                progress, since = now, time.monotonic()
            elif time.monotonic() - since > _STALLED_S:
                raise PeerFailed(f"nothing came for {_STALLED_S:.0f} s: {self._state(deliveries)}")

    def _is_done(self, deliveries: int) -> bool:
        if self._consumers and sum(consumer.received for consumer in self._consumers) < deliveries:
            return False
        return all(publisher.is_done for publisher in self._publishers)

    def _progress(self) -> int:
        answered = sum(publisher.acks.passed for publisher in self._publishers if publisher.acks is not None)
        return answered + sum(consumer.received for consumer in self._consumers)

    def _state(self, deliveries: int) -> str:
        sent = sum(publisher.sent for publisher in self._publishers)
        answered = sum(publisher.acks.passed for publisher in self._publishers if publisher.acks is not None)
        received = sum(consumer.received for consumer in self._consumers)
        return f"sent {sent:,}, acknowledged {answered:,}, delivered {received:,} of {deliveries:,}"

    def _turn(self, timeout_s: float) -> None:
        """What the sockets have now. epoll counts in milliseconds; select on it in microseconds."""
        if timeout_s > 0:
            select.select([self._epoll.fileno()], [], [], timeout_s)
        now_ns = time.monotonic_ns()
        for descriptor, event in self._epoll.poll(0):
            end = self._ends[descriptor]
            if event & select.EPOLLOUT:
                end.parts.link.flush()
            if event & ~select.EPOLLOUT:
                end.readable(self._room, time.monotonic_ns())
            end.fill(now_ns)
            self._watch(end)
        self._fill(self._waiting)

    def _watch(self, end: Publisher | Consumer) -> None:
        """Be told when a link that was full takes more, and only then."""
        descriptor = end.parts.link.fileno()
        if end.parts.link.is_blocked == (descriptor in self._blocked):
            return
        if end.parts.link.is_blocked:
            self._blocked.add(descriptor)
            self._epoll.modify(descriptor, select.EPOLLIN | select.EPOLLOUT)
        else:
            self._blocked.discard(descriptor)
            self._epoll.modify(descriptor, select.EPOLLIN)

    def _fence(self) -> None:
        for consumer in self._consumers:
            link = consumer.parts.link
            link.socket.setblocking(True)
            while link.is_blocked:
                link.flush()
            consumer.parts.deliveries.fence(link)
            link.socket.setblocking(False)

    def _check(self, messages: int, sum_of_numbers: int) -> None:
        if not self._consumers:
            return
        if (received := sum(consumer.received for consumer in self._consumers)) != messages * self._copies:
            raise PeerFailed(f"{received:,} messages were delivered of {messages * self._copies:,}")
        checked = [consumer for consumer in self._consumers if consumer.checked]
        copies = self._copies * len(checked) // len(self._consumers)
        if (found := sum(consumer.sum_of_numbers for consumer in checked)) != sum_of_numbers * copies:
            raise PeerFailed(f"other messages were delivered than sent: the sum of their numbers is {found:,}")
