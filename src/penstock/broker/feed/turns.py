"""Whose turn it is among those who compete for the messages of a group: a ring for each priority, in which what is
ready is dealt out."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence

from penstock.broker.feed.member import GroupMember
from penstock.core.errors import InvalidArgument

NO_LIMIT = 1 << 31


class Contender(GroupMember):
    """One who competes, as the others know it. It owns no partition, and has something of all."""

    ready: dict[int, None]
    """those of all who compete"""
    is_full: bool
    """it holds as much as it may"""

    def __init__(self, number: int, turns: Turns, prefetch: int, priority: int, is_exclusive: bool) -> None:
        super().__init__(number, 0)
        self.turns, self.priority, self.is_exclusive = turns, priority, is_exclusive
        self.ready = turns.ready
        self.promised = 0
        """messages that it is to come for"""
        self.promised_at = 0
        self.is_away = False
        """it did not come for them: it gets none before it asks"""
        self.is_reading = False
        """it comes when a file was read"""
        self.is_retired = False
        """it competes no longer, and has not settled all it was handed"""
        self._limit = NO_LIMIT
        self.limit(prefetch)

    def limit(self, prefetch: int) -> None:
        """How many messages it may hold from now on; 0 is as many as the group's window takes."""
        if prefetch < 0:
            raise InvalidArgument(f"a prefetch of {prefetch}: write how many messages, or 0 for no limit")
        self.prefetch, self._limit = prefetch, prefetch or NO_LIMIT
        self.turns.limited(self)

    @property
    def room(self) -> int:
        return self._limit - self.held

    @property
    def is_active(self) -> bool:
        """False where another one is the single active consumer."""
        return self.turns.active in (None, self)

    @property
    def partitions(self) -> list[int]:
        return []

    def wake(self) -> None:
        if self.is_closed:
            self.told()
        else:
            self.turns.wake(self)


Ring = OrderedDict[Contender, None]


def _nothing_ready(partitions: dict[int, None]) -> int:
    return 0


class Turns:
    """One a group, beside its members. Who is told has a share promised, and comes for it in the same turn of the loop
    or the next; what it leaves goes to the others. So a message costs no more where many compete, and who is looked at
    first has nothing from it.

    Who may be dealt to is in the ring of its priority. Out of it are those who are full until they settle something,
    those who are away until they ask, and with a single active consumer all others."""

    def __init__(self, count_ready: Callable[[dict[int, None]], int]) -> None:
        """`count_ready`: how many messages of these partitions may be handed out; strikes off what has none."""
        self._count_ready = count_ready
        self.ready: dict[int, None] = {}
        """partitions that may have something, the next one first"""
        self.contenders: dict[int, Contender] = {}
        self.active: Contender | None = None
        """the single active consumer; None where all are"""
        self._is_single = False
        self._rings: dict[int, Ring] = {}
        """the highest priority first"""
        self._of_priority: Counter[int] = Counter()
        self._away: Ring = OrderedDict()
        self._open: dict[Contender, None] = {}
        """who was promised something and has not come for all of it"""
        self._promised = 0
        self._looks = 0
        self._is_watching = False

    def end(self) -> None:
        """The group is gone, and nobody competes: who asked for it is not held by it any more."""
        self._count_ready = _nothing_ready

    # Who competes

    def join(self, contender: Contender) -> None:
        self.contenders[contender.number] = contender
        self._of_priority[contender.priority] += 1
        if contender.priority not in self._rings:
            self._rings[contender.priority] = OrderedDict()
            self._rings = dict(sorted(self._rings.items(), reverse=True))
        if self._is_single and self.active is None:
            self.active = contender
        self._admit(contender)
        self.deal()

    def leave(self, contender: Contender) -> None:
        """What it was promised goes to the others; what it holds is not looked at here."""
        if self.contenders.pop(contender.number, None) is None:
            return
        self._withdraw(contender)
        self._step_out(contender)
        self._of_priority[contender.priority] -= 1
        if not self._of_priority[contender.priority]:
            del self._of_priority[contender.priority], self._rings[contender.priority]
        if self.active is contender:
            self._choose()
        self.deal()

    @property
    def is_single_active(self) -> bool:
        return self._is_single

    @is_single_active.setter
    def is_single_active(self, is_single: bool) -> None:
        """Only one gets messages, the first of those with the highest priority, until it goes."""
        if is_single != self._is_single:
            self._is_single, self.active = is_single, None
            for contender in self.contenders.values():
                self._withdraw(contender)
                self._step_out(contender)
            if is_single:
                self._choose()
            else:
                for contender in self.contenders.values():
                    self._admit(contender)
            self.deal()

    def _choose(self) -> None:
        self.active = max(self.contenders.values(), key=lambda each: each.priority, default=None)
        if self.active is not None:
            self._admit(self.active)

    # Dealing

    def notify(self, partitions: Sequence[int]) -> None:
        """There may be something in these partitions."""
        ready = self.ready
        for partition in partitions:
            ready[partition] = None
        self.deal()
        if self._away:
            # Told one after the other, so that none hungers for ever whose outlet forgot to call, or that failed once.
            contender = next(iter(self._away))
            self._away.move_to_end(contender)
            contender.told()

    def deal(self, asking: Contender | None = None) -> None:
        """Promise what is ready and promised to nobody; who asks need not be told."""
        if not self.ready or not self._rings:
            return
        left = self._count_ready(self.ready) - self._promised
        told: list[Contender] = []
        for ring in self._rings.values():
            if left <= 0:
                break
            left = self._deal_in(ring, left, told)
        if told:
            for contender in told:
                if contender is not asking:
                    contender.told()
            self.watch()

    def _deal_in(self, ring: Ring, left: int, told: list[Contender]) -> int:
        """Equal shares, as far as each has room, from the first in the ring on; how many are left."""
        while left > 0 and ring:
            for after in range(len(ring) - 1, -1, -1):
                contender = next(iter(ring))
                room = contender.room - contender.promised
                if room <= 0:
                    del ring[contender]
                    contender.is_full = True
                    continue
                ring.move_to_end(contender)
                share = min(-(-left // (after + 1)), room)
                self._promise(contender, share)
                told.append(contender)
                left -= share
                if left <= 0:
                    break
        return left

    def _promise(self, contender: Contender, count: int) -> None:
        if not contender.promised:
            contender.promised_at = self._looks
            self._open[contender] = None
        contender.promised += count
        self._promised += count

    def came(self, contender: Contender, count: int, is_all: bool) -> None:
        """It was given so many. `is_all`: there is no more of what it was promised."""
        kept = 0 if is_all else max(contender.promised - count, 0)
        self._promised -= contender.promised - kept
        contender.promised = kept
        if kept:
            self.watch()
        else:
            self._open.pop(contender, None)
        if contender.is_full and contender.room > kept:
            self._admit(contender)

    def failed(self, contender: Contender) -> None:
        """What it was to get could not be read: others may try, and itself when there is something new."""
        if contender.number in self.contenders:
            self._put_away(contender)
            self.deal()

    def ask(self, contender: Contender) -> None:
        """It has room for what nobody was promised."""
        if contender.number not in self.contenders:
            return
        if contender.is_away:
            self._admit(contender)
        if self.ready and not contender.is_full:
            self.deal(contender)

    def wake(self, contender: Contender) -> None:
        """It settled something, or what it held is another's."""
        if contender.number not in self.contenders:
            return
        if contender.is_full and contender.room > contender.promised:
            self._admit(contender)
        if not self.ready:
            return
        if contender.is_away and self._count_ready(self.ready) > self._promised:
            contender.told()  # which asks its outlet
        self.deal()

    def limited(self, contender: Contender) -> None:
        """It may hold more than before, or less."""
        if contender.number in self.contenders:
            excess = contender.promised - max(contender.room, 0)
            if excess > 0:
                self.came(contender, excess, False)
            self.wake(contender)

    # In the rings and out of them

    def _admit(self, contender: Contender) -> None:
        """To the end of its ring, if it has room."""
        if contender.is_away:
            contender.is_away = False
            del self._away[contender]
        if self._is_single and contender is not self.active:
            return
        contender.is_full = contender.room <= contender.promised
        if not contender.is_full:
            self._rings[contender.priority][contender] = None

    def _step_out(self, contender: Contender) -> None:
        self._rings[contender.priority].pop(contender, None)
        self._away.pop(contender, None)
        contender.is_full = contender.is_away = False

    def _put_away(self, contender: Contender) -> None:
        self._withdraw(contender)
        self._step_out(contender)
        contender.is_away = True
        self._away[contender] = None

    def _withdraw(self, contender: Contender) -> None:
        self._promised -= contender.promised
        contender.promised = 0
        self._open.pop(contender, None)

    # Who did not come

    def watch(self) -> None:
        """Somebody may not come for what it was promised."""
        if self._is_watching or not self._open:
            return
        if any(not each.is_reading for each in self._open):
            self._is_watching = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """All who were told before the last look had their turn since: what they left goes to others."""
        self._is_watching = False
        idle = [each for each in self._open if each.promised_at < self._looks and not each.is_reading]
        self._looks += 1
        for contender in idle:
            self._put_away(contender)
        if idle:
            self.deal()
        self.watch()
