"""From a group to one who consumes it: what is handed out, sent as far as there is room."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Protocol

from penstock.broker.feed.begun import begun
from penstock.broker.feed.delivery import Delivery
from penstock.broker.feed.feeder import Feeder
from penstock.broker.feed.held import Held
from penstock.core.errors import Closed


class Outlet(Protocol):
    """What a door implements. It is called from the loop, and raises only from send()."""

    def room(self) -> int:
        """How many messages it takes now. Whoever said 0 calls Feed.has_room() when that has changed."""
        ...

    def send(self, deliveries: list[Delivery]) -> int:
        """There is room for their messages. How many of the deliveries it took, the first of them always: the others
        may be larger than it thought, and wait until it has room again."""
        ...

    def dismissed(self) -> None:
        """The group was deleted, or its queue, and the feed is over."""
        ...

    def broke(self, error: BaseException) -> None:
        """Messages could not be read or sent. The feed looks again when there is something new, unless it is closed."""
        ...


class Source(Protocol):
    """One who is handed messages of a group: a member, or one who competes for them."""

    told: Callable[[], None]
    """called when there may be more, and when it is closed"""
    is_closed: bool

    @property
    def may_have_more(self) -> bool:
        """Whether receive() would look anywhere."""
        ...

    def receive_now(self, limit: int) -> list[Delivery]:
        """What is in memory and needs no closer look."""
        ...

    async def receive(self, limit: int) -> list[Delivery]: ...

    def leave(self, counted: bool) -> None:
        """What it holds is free at once, and counted as returned."""
        ...


class Feed:
    """Used from the loop. The source's clocks and its prefetch go on as they are: what waits here is handed out."""

    __slots__ = ("_feeder", "_is_hungry", "_is_over", "_is_starved", "_outlet", "_source", "_unsent", "reading")

    def __init__(self, source: Source, outlet: Outlet, feeder: Feeder) -> None:
        self._source, self._outlet, self._feeder = source, outlet, feeder
        self._unsent: list[Delivery] = []
        """handed out, and there was no room for it"""
        self._is_over = False
        self._is_starved = False
        """there was no room when it was last asked for"""
        self.reading: asyncio.Task[list[Delivery]] | None = None
        """what has to be read from files first"""
        self._is_hungry = False
        """there may be something new since that began"""
        source.told = self._told
        feeder.add(self)

    @property
    def unsent(self) -> int:
        """Messages that were handed out and not sent."""
        return sum(map(len, self._unsent))

    def _told(self) -> None:
        # Asked anew, so that nobody hungers for ever beside an outlet that forgot to call; a look costs more than that.
        if not self._is_starved or self._source.is_closed or self._outlet.room() > 0:
            self._feeder.add(self)

    def has_room(self) -> None:
        """The outlet may take something again."""
        if self._is_starved:
            self._feeder.add(self)

    def rest(self) -> None:
        """The outlet has no room, without being asked: nothing is looked for until it has some."""
        self._is_starved = True

    def feed(self, is_asked: bool = False) -> None:
        """Send what there is and the outlet takes. `is_asked`: somebody waits for it, and a closer look is had at once
        too, as far as no file is needed."""
        if self.reading is not None:
            self._is_hungry = True
            return
        room = 0
        try:
            while not self._is_over and self._send_unsent(room) and (room := self._take(is_asked)):
                pass
        except Exception as error:
            self._break_off(error)

    def _take(self, is_asked: bool) -> int:
        """The room there is for what was found; 0 if that is nothing."""
        source = self._source
        if source.is_closed:
            raise Closed("the group was deleted")
        if not source.may_have_more or not (room := self._room()):
            return 0
        found = source.receive_now(room)
        if not found and source.may_have_more:
            found = self._begin(source.receive(room), is_asked)
        self._unsent += found
        return room if found else 0

    def _begin(self, work: Coroutine[object, None, list[Delivery]], is_asked: bool) -> list[Delivery]:
        """What is found without waiting; a task goes on with the rest."""
        found = begun(work) if is_asked else asyncio.get_running_loop().create_task(work)
        if isinstance(found, list):
            return found
        self.reading = found
        self.reading.add_done_callback(self._received)
        return []

    def _received(self, task: asyncio.Task[list[Delivery]]) -> None:
        self.reading = None
        if task.cancelled() or self._is_over:
            return
        if (error := task.exception()) is not None:
            self._break_off(error)
            return
        self._unsent += task.result()
        if self._unsent or self._is_hungry:
            self._is_hungry = False
            self.feed()

    def _room(self) -> int:
        room = self._outlet.room()
        self._is_starved = room <= 0
        return max(room, 0)

    def _send_unsent(self, room: int) -> bool:
        """Whether all of it went out. `room` is there for the first; then the outlet is asked again."""
        while self._unsent:
            if not (room := room or self._room()):
                return False
            wanted, self._unsent = _cut(self._unsent, room)
            try:
                taken = self._outlet.send(wanted)
            except BaseException:
                self._unsent = wanted[1:] + self._unsent
                raise
            if taken < len(wanted):
                self._unsent = wanted[taken:] + self._unsent
            room = 0
        return True

    def drop_taken_back(self) -> None:
        """Of what was not sent: it is handed out again."""
        self._unsent = list(still_held(self._unsent))

    def stop(self) -> None:
        """Nothing more is sent."""
        self._is_over = True
        self._unsent.clear()
        if self.reading is not None:
            self.reading.cancel()

    def close(self, counted: bool = True) -> None:
        """What was not settled goes back to the group. Calling it again does nothing."""
        if self._source.told is not _nobody_listens:
            self.stop()
            self._source.told = _nobody_listens
            self._source.leave(counted)
            del self._outlet  # which has this one: what goes in a circle stays in memory for long

    def _break_off(self, error: BaseException) -> None:
        if self._is_over:
            return
        if isinstance(error, Closed):
            self.stop()
            self._outlet.dismissed()
        else:
            self._outlet.broke(error)


def _cut(deliveries: list[Delivery], room: int) -> tuple[list[Delivery], list[Delivery]]:
    """The first so many messages, and the others."""
    for i, delivery in enumerate(deliveries):
        count = len(delivery.rows)
        if count >= room:
            first, behind = deliveries[: i + 1], deliveries[i + 1 :]
            if count > room:
                first[-1] = delivery.part(0, room)
                behind.insert(0, delivery.part(room, count))
            return first, behind
        room -= count
    return deliveries, []


def still_held(deliveries: Iterable[Delivery]) -> deque[Delivery]:
    """Without what was taken back."""
    kept = [delivery.picked(Held(delivery).current()) for delivery in deliveries]
    return deque(delivery for delivery in kept if delivery.rows)


def _nobody_listens() -> None:
    """The outlet is gone: a source that is told of more would keep it in memory."""
