"""Delivery tags of a channel: what each stands for, until it is answered."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.broker.feed.delivery import Delivery


class Unanswered:
    """Messages of one delivery, with tags that rise by one. `holder` is whoever counts them as held."""

    __slots__ = ("answered", "count", "delivery", "first", "holder", "left", "since_s")

    def __init__(self, first: int, delivery: Delivery, holder: object, since_s: float) -> None:
        self.first, self.delivery, self.holder, self.since_s = first, delivery, holder, since_s
        self.count = self.left = len(delivery)
        self.answered: bytearray | None = None
        """a mark for each, where some are and some are not"""

    def open_parts(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Of these places, those that are not answered."""
        if self.answered is None:
            yield start, stop
            return
        while (begin := self.answered.find(0, start, stop)) >= 0:
            end = self.answered.find(1, begin, stop)
            start = stop if end < 0 else end
            yield begin, start

    def answer(self, start: int, stop: int) -> None:
        self.left -= stop - start
        if not self.left:
            return
        if self.answered is None:
            self.answered = bytearray(self.count)
        self.answered[start:stop] = b"\x01" * (stop - start)


class Part(NamedTuple):
    """Places start to stop - 1 of it."""

    of: Unanswered
    start: int
    stop: int


class UnknownTag(LookupError):
    def __init__(self, tag: int) -> None:
        super().__init__(tag)
        self.tag = tag


class Tags:
    """Used from the loop. The oldest first."""

    __slots__ = ("_firsts", "_runs", "next", "of_consumers", "unanswered")

    def __init__(self) -> None:
        self.next = 1
        self.unanswered = self.of_consumers = 0
        """messages; and those of them that were not got one by one"""
        self._runs: list[Unanswered] = []
        self._firsts: list[int] = []

    def __len__(self) -> int:
        return self.unanswered

    @property
    def oldest(self) -> Unanswered | None:
        return self._runs[0] if self._runs else None

    def skip(self, count: int) -> None:
        """Tags that need no answer."""
        self.next += count

    def add(self, delivery: Delivery, holder: object, now_s: float) -> int:
        """The first tag of its messages."""
        first, made = self.next, Unanswered(self.next, delivery, holder, now_s)
        self._runs.append(made)
        self._firsts.append(first)
        self.next += made.count
        self._count(made, made.count)
        return first

    def _count(self, run: Unanswered, more: int) -> None:
        self.unanswered += more
        if run.holder is not None:
            self.of_consumers += more

    def take(self, first: int, last: int, found: list[Part]) -> None:
        """These are answered: their parts to `found`. UnknownTag at the first that is not there; those before it are
        answered."""
        tag = first
        while tag <= last:
            place = bisect_right(self._firsts, tag) - 1
            run = self._runs[place] if place >= 0 else None
            start = tag - run.first if run is not None else 0
            if run is None or start >= run.count:
                raise UnknownTag(tag)
            part = next(run.open_parts(start, min(run.count, last - run.first + 1)), None)
            if part is None or part[0] != start:
                raise UnknownTag(tag)
            self._answer(run, place, part, found)
            tag = run.first + part[1]

    def take_up_to(self, last: int, found: list[Part]) -> None:
        """All of them up to this one; 0 stands for all there are. UnknownTag, and nothing is answered, if it is not
        there."""
        if last and not self._is_open(last):
            raise UnknownTag(last)
        self._take_all(found, last or self.next - 1)

    def _is_open(self, tag: int) -> bool:
        place = bisect_right(self._firsts, tag) - 1
        if place < 0:
            return False
        run = self._runs[place]
        at = tag - run.first
        return at < run.count and (run.answered is None or not run.answered[at])

    def _take_all(self, found: list[Part], last: int) -> None:
        whole = 0
        for run in self._runs:
            if run.first > last:
                break
            stop = min(run.count, last - run.first + 1)
            for part in list(run.open_parts(0, stop)):
                found.append(Part(run, *part))
                run.answer(*part)
                self._count(run, part[0] - part[1])
            if run.left:
                break
            whole += 1
        del self._runs[:whole], self._firsts[:whole]

    def _answer(self, run: Unanswered, place: int, part: tuple[int, int], found: list[Part]) -> None:
        found.append(Part(run, *part))
        run.answer(*part)
        self._count(run, part[0] - part[1])
        if not run.left:
            del self._runs[place], self._firsts[place]

    def put_back(self, parts: Iterable[Part]) -> None:
        """They were answered in vain."""
        for run, start, stop in parts:
            if not run.left:
                place = bisect_right(self._firsts, run.first)
                self._runs.insert(place, run)
                self._firsts.insert(place, run.first)
                run.answered = bytearray(b"\x01" * run.count)
            elif run.answered is None:
                run.answered = bytearray(run.count)
            assert run.answered is not None
            run.answered[start:stop] = bytes(stop - start)
            run.left += stop - start
            self._count(run, stop - start)

    def drop(self, holder: object) -> None:
        """What it held is others'."""
        kept = [run for run in self._runs if run.holder is not holder]
        for run in self._runs:
            if run.holder is holder:
                self._count(run, -run.left)
        self._runs, self._firsts = kept, [run.first for run in kept]

    def take_rest(self) -> list[Part]:
        """All that is not answered."""
        found: list[Part] = []
        self._take_all(found, self.next - 1)
        return found
