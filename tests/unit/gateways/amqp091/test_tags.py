"""Tags of deliveries against a plain list of what is open."""

from __future__ import annotations

from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.broker.feed.delivery import Delivery
from penstock.gateways.amqp091.tags import Part, Tags, UnknownTag


class _Some:
    """A delivery, as tags look at it."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count


class TagsModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tags = Tags()
        self.open: list[int] = []
        self.holders: dict[int, object] = {}
        self.next = 1
        self.answered: list[list[Part]] = []

    @rule(count=st.integers(1, 5), holder=st.sampled_from([None, "a", "b"]))
    def deliver(self, count: int, holder: object) -> None:
        assert self.tags.add(cast("Delivery", _Some(count)), holder, 0.0) == self.next
        for tag in range(self.next, self.next + count):
            self.open.append(tag)
            self.holders[tag] = holder
        self.next += count

    @rule(count=st.integers(1, 3))
    def skip(self, count: int) -> None:
        self.tags.skip(count)
        self.next += count

    @rule(first=st.integers(0, 40), more=st.integers(0, 4))
    def answer(self, first: int, more: int) -> None:
        wanted, found = list(range(first, first + more + 1)), list[Part]()
        unknown = next((tag for tag in wanted if tag not in self.open), None)
        try:
            self.tags.take(first, first + more, found)
        except UnknownTag as error:
            assert error.tag == unknown
        else:
            assert unknown is None
        self._answered(found, [tag for tag in wanted if unknown is None or tag < unknown])

    @rule(last=st.integers(0, 40))
    def answer_up_to(self, last: int) -> None:
        found: list[Part] = []
        try:
            self.tags.take_up_to(last, found)
        except UnknownTag:
            assert last not in self.open
            assert found == []
        else:
            self._answered(found, [tag for tag in self.open if not last or tag <= last])

    @rule()
    def roll_back(self) -> None:
        for parts in self.answered:
            self.tags.put_back(parts)
            self.open = sorted([*self.open, *_tags(parts)])
        self.answered = []

    @rule(holder=st.sampled_from(["a", "b"]))
    def drop(self, holder: object) -> None:
        self.tags.drop(holder)
        self.open = [tag for tag in self.open if self.holders[tag] != holder]
        self.answered = []

    def _answered(self, found: list[Part], expected: list[int]) -> None:
        assert _tags(found) == expected
        self.open = [tag for tag in self.open if tag not in expected]
        self.answered.append(found)

    @invariant()
    def counts_are_those_of_what_is_open(self) -> None:
        assert len(self.tags) == len(self.open)
        assert self.tags.of_consumers == sum(self.holders[tag] is not None for tag in self.open)
        assert self.tags.next == self.next
        oldest = self.tags.oldest
        assert (oldest is None) == (not self.open)


def _tags(parts: list[Part]) -> list[int]:
    return [part.of.first + place for part in parts for place in range(part.start, part.stop)]


TestTags = TagsModel.TestCase
TestTags.settings = settings(deadline=None)
