"""Confirms against a plain list of what became of each publish."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.codecs.amqp091.decode import Decoder, Frame, decode_method
from penstock.codecs.amqp091.methods import BasicAck, BasicNack
from penstock.gateways.amqp091.confirms import Confirms


def _said(data: bytes) -> list[tuple[bool, int]]:
    """Whether it is taken, and the number, for each publish that these frames answer."""
    decoder, found, first = Decoder(4096), list[tuple[bool, int, bool]](), 0
    decoder.receive(data)
    while isinstance(frame := decoder.next_frame(), Frame):
        method = decode_method(frame.payload, frame.channel)
        assert isinstance(method, BasicAck | BasicNack)
        found.append((isinstance(method, BasicAck), method.delivery_tag, method.multiple))
        assert frame.channel == 7
    del first
    return [(is_taken, tag) for is_taken, tag, _ in found]


@given(
    runs=st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_everything_is_answered_once_in_order_and_not_before_it_is_known(runs: list[list[bool]], order: object) -> None:
    confirms = Confirms(7)
    marks = [(confirms.take(len(run)), run) for run in runs]
    fates = [is_taken for run in runs for is_taken in run]
    waiting = list(range(len(marks)))
    order.shuffle(waiting)  # type: ignore[attr-defined]
    answered, known = 0, set[int]()
    for number in waiting:
        mark, run = marks[number]
        mark.refuse([place for place, is_taken in enumerate(run) if not is_taken])
        mark.done(sum(run))
        known.add(number)
        for is_taken, tag in _said(confirms.settled()):
            # An answer stands for all below it that are not answered, and these have the same fate.
            assert all(fate is is_taken for fate in fates[answered:tag])
            answered = tag
        ready = next((at for at in range(len(marks)) if at not in known), len(marks))
        assert answered == sum(len(run) for run in runs[:ready])
        assert confirms.unconfirmed == len(fates) - answered
