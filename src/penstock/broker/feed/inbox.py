"""Messages for one who comes for them: nothing is looked for before somebody asks."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.feed import Feed, Source, still_held
from penstock.broker.feed.feeder import Feeder
from penstock.core.errors import Closed


class Inbox:
    """An outlet. take_one(), take_many() and has_messages are for any thread, the rest for the loop."""

    def __init__(self, source: Source, feeder: Feeder) -> None:
        self.is_stopped = False
        self._deliveries: deque[Delivery] = deque()
        self._passed: tuple[Delivery | None, int] = (None, 0)
        """how many messages of a delivery were taken. Beside it, so that a delivery goes in one step: the handler of a
        signal may raise between two"""
        self._lock = threading.Lock()
        self._wanted = 0
        self._arrival: asyncio.Future[None] | None = None
        """what the one who asks waits for"""
        self._is_dismissed = False
        self._error: BaseException | None = None
        self._feed = Feed(source, self, feeder)

    # Taking

    @property
    def has_messages(self) -> bool:
        """Whether there is one that nobody has looked at."""
        return bool(self._deliveries) and not self.is_stopped

    def take_one(self) -> tuple[Delivery, int] | None:
        """The next message that is here already, and its place in its delivery."""
        with self._lock:
            if not self._deliveries or self.is_stopped:
                return None
            delivery, place = self._deliveries[0], self._place
            self._pass(delivery, place + 1)
            return delivery, place

    @property
    def _place(self) -> int:
        """The first message of the first delivery that nobody has looked at."""
        delivery, place = self._passed
        return place if self._deliveries and self._deliveries[0] is delivery else 0

    def take_many(self, limit: int) -> list[Delivery]:
        """Up to so many messages that are here already."""
        found: list[Delivery] = []
        with self._lock:
            while self._deliveries and limit > 0 and not self.is_stopped:
                delivery, place = self._deliveries[0], self._place
                stop = min(len(delivery), place + limit)
                found.append(delivery.part(place, stop))
                limit -= stop - place
                self._pass(delivery, stop)
        return found

    def _pass(self, first: Delivery, place: int) -> None:
        if place < len(first.rows):
            self._passed = first, place
        else:
            self._deliveries.popleft()

    @property
    def unseen(self) -> int:
        """Messages that were handed out, and nobody has taken."""
        with self._lock:
            return sum(map(len, self._deliveries)) - self._place + self._feed.unsent

    def drop_taken_back(self) -> None:
        """After a message failed: those behind it in order are handed out again."""
        with self._lock:
            if self._deliveries:
                first = self._deliveries[0]
                self._deliveries[0] = first.part(self._place, len(first))
                self._deliveries = still_held(self._deliveries)
        self._feed.drop_taken_back()

    # Asking

    def look(self, limit: int) -> bool:
        """Have up to so many messages here that are at hand; False says nothing of what there is."""
        if not self.is_stopped:
            self._wanted = limit
            self._feed.feed(is_asked=True)
            self._rest()
        return self.has_messages

    async def receive(self, limit: int, wait_s: float | None) -> bool:
        """Have up to so many messages here, as soon as there are any; False if none came in time, or when interrupted.
        What is in files already is waited for, however short the time. Closed if the group was deleted. A call ends an
        earlier one, whose caller has given up; what was read for that one is here all the same. Until it waits for
        something, it asks for no task."""
        self.interrupt()
        if self.is_stopped:
            return False
        loop = asyncio.get_running_loop()
        arrival = self._arrival = loop.create_future()
        self._wanted = limit
        timer = None
        try:
            self._feed.feed(is_asked=True)
            if wait_s is not None:
                timer = loop.call_later(wait_s, _end, arrival)
            if wait_s is None or wait_s > 0:
                await arrival
            while self._arrival is arrival and not self._deliveries and (reading := self._feed.reading) is not None:
                await asyncio.wait([reading])
        finally:
            if timer is not None:
                timer.cancel()
            if self._arrival is arrival:
                self.interrupt()
        self._raise_what_went_wrong()
        return self.has_messages

    def _raise_what_went_wrong(self) -> None:
        if self._deliveries or self.is_stopped:
            return
        error, self._error = self._error, None
        if error is not None:
            raise error
        if self._is_dismissed:
            raise Closed("the queue or its group was deleted")

    def _rest(self) -> None:
        self._wanted = 0
        self._feed.rest()

    def interrupt(self) -> None:
        """Who waits for messages is told that there are none."""
        if self._arrival is not None:
            _end(self._arrival)
            self._arrival = None
            self._rest()

    def stop(self) -> None:
        """Nothing more is received."""
        self.is_stopped = True
        self.interrupt()

    def close(self, counted: bool = True) -> None:
        """What was not settled is free for others at once. Calling it again does nothing."""
        self.stop()
        with self._lock:
            self._deliveries.clear()
        self._feed.close(counted)

    # As an outlet

    def room(self) -> int:
        return self._wanted

    def send(self, deliveries: list[Delivery]) -> int:
        self._wanted = max(0, self._wanted - sum(map(len, deliveries)))
        with self._lock:
            self._deliveries.extend(deliveries)
        self._arrive()
        return len(deliveries)

    def dismissed(self) -> None:
        self._is_dismissed = True
        self._arrive()

    def broke(self, error: BaseException) -> None:
        """Who asks is told, and may ask again."""
        self._error = error
        self._arrive()

    def _arrive(self) -> None:
        if self._arrival is not None:
            _end(self._arrival)


def _end(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
