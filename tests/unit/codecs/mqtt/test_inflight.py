from __future__ import annotations

import random

import pytest

from penstock.codecs.mqtt.errors import ProtocolError
from penstock.codecs.mqtt.inflight import SENDER, Awaits, Incoming, Outgoing, Settled
from penstock.codecs.mqtt.kinds import PacketType
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import InvalidArgument

PUBACK, PUBREC, PUBCOMP = PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBCOMP


def test_identifiers_go_round_past_those_in_use() -> None:
    outgoing = Outgoing()
    assert outgoing.publish(3, qos=1) == [1, 2, 3]
    outgoing.receive(PUBACK, [1, 3])
    assert outgoing.publish(65_530, qos=1)[-1] == 65_533
    outgoing.receive(PUBACK, range(4, 65_534))
    assert outgoing.publish(5, qos=1) == [65_534, 65_535, 1, 3, 4]


def test_all_identifiers_can_be_in_use_and_no_more() -> None:
    outgoing = Outgoing()
    assert outgoing.request(PacketType.SUBSCRIBE) == 1
    assert len(outgoing.publish(70_000, qos=2)) == 65_534
    assert (outgoing.window, outgoing.publish(1, qos=1), outgoing.request(PacketType.UNSUBSCRIBE)) == (0, [], None)
    outgoing.receive(PacketType.SUBACK, [1])
    assert outgoing.publish(2, qos=1) == [1]


def test_mqtt_4_9_0_1_no_more_is_under_way_than_the_receive_maximum() -> None:
    outgoing = Outgoing(receive_maximum=3)
    assert outgoing.publish(10, qos=2) == [1, 2, 3]
    assert outgoing.publish(1, qos=1) == []
    outgoing.receive(PUBREC, [1])
    assert outgoing.window == 0
    outgoing.receive(PUBCOMP, [1])
    assert outgoing.publish(10, qos=1) == [4]


def test_mqtt_4_9_0_2_a_pubrec_that_refuses_opens_the_window() -> None:
    outgoing = Outgoing(receive_maximum=1)
    outgoing.publish(1, qos=2)
    assert outgoing.receive(PUBREC, [1], [ReasonCode.QUOTA_EXCEEDED]) == Settled(refused=[1])
    assert (outgoing.window, len(outgoing)) == (1, 0)


def test_requests_are_not_part_of_the_window() -> None:
    outgoing = Outgoing(receive_maximum=1)
    assert outgoing.request(PacketType.SUBSCRIBE) == 1
    assert outgoing.publish(2, qos=1) == [2]
    assert outgoing.receive(PacketType.SUBACK, [1]) == Settled(finished=[1])
    assert outgoing.window == 0


def test_mqtt_4_3_3_qos_2_is_published_received_released_completed() -> None:
    outgoing = Outgoing()
    outgoing.publish(3, qos=2)
    assert outgoing.receive(PUBREC, [2, 1]) == Settled(release=[2, 1])
    assert outgoing.awaited() == [(3, Awaits.PUBREC), (2, Awaits.PUBCOMP), (1, Awaits.PUBCOMP)]
    assert outgoing.receive(PUBREC, [2]) == Settled(release=[2])
    assert outgoing.receive(PUBCOMP, [1, 2], [0, 0x92]) == Settled(finished=[1, 2])
    assert outgoing.awaited() == [(3, Awaits.PUBREC)]


def test_acknowledgements_of_unknown_identifiers_are_ignored_and_pubrec_is_told_so() -> None:
    outgoing = Outgoing()
    assert outgoing.receive(PUBACK, [7]) == outgoing.receive(PUBCOMP, [7]) == Settled()
    assert outgoing.receive(PUBREC, [7, 8], [0, 0x80]) == Settled(not_found=[7])


@pytest.mark.parametrize(
    ("qos", "wrong"), [(1, PUBREC), (1, PUBCOMP), (2, PUBACK), (2, PUBCOMP), (1, PacketType.SUBACK)]
)
def test_an_acknowledgement_of_the_wrong_kind_is_a_violation(qos: int, wrong: PacketType) -> None:
    outgoing = Outgoing()
    outgoing.publish(1, qos)
    with pytest.raises(ProtocolError) as caught:
        outgoing.receive(wrong, [1])
    assert caught.value.reason is ReasonCode.PROTOCOL_ERROR


def test_a_suback_that_nobody_asked_for_is_a_violation() -> None:
    with pytest.raises(ProtocolError):
        Outgoing().receive(PacketType.SUBACK, [1])


def test_mqtt_4_4_0_1_a_resumed_session_sends_again_in_order() -> None:
    outgoing = Outgoing()
    outgoing.publish(2, qos=1)
    outgoing.publish(3, qos=2)
    outgoing.request(PacketType.SUBSCRIBE)
    outgoing.receive(PUBREC, [4, 3])
    outgoing.receive(PUBACK, [1])
    assert outgoing.resume() == [4, 3]
    assert outgoing.resends() == [2, 5]
    assert outgoing.resends() == []
    assert outgoing.publish(2, qos=1) == [7, 8]


def test_what_is_sent_again_fits_a_smaller_window_and_goes_before_what_is_new() -> None:
    outgoing = Outgoing()
    outgoing.publish(4, qos=1)
    outgoing.resume(receive_maximum=2)
    assert outgoing.resends() == [1, 2]
    assert (outgoing.resends(), outgoing.publish(1, qos=1)) == ([], [])
    outgoing.receive(PUBACK, [1])
    assert outgoing.resends() == [3]
    outgoing.receive(PUBACK, [2, 3])
    assert outgoing.publish(1, qos=1) == []
    assert outgoing.resends() == [4]
    assert outgoing.publish(5, qos=1) == [5]


def test_what_is_settled_before_it_was_sent_again_is_not_sent_again() -> None:
    outgoing = Outgoing()
    outgoing.publish(3, qos=1)
    outgoing.resume(receive_maximum=1)
    outgoing.receive(PUBACK, [2])
    assert outgoing.resends() == [1]
    outgoing.receive(PUBACK, [1])
    assert outgoing.resends() == [3]


def test_pubrels_of_an_earlier_connection_go_beyond_the_window() -> None:
    outgoing = Outgoing()
    outgoing.publish(3, qos=2)
    outgoing.receive(PUBREC, [1, 2, 3])
    assert outgoing.resume(receive_maximum=1) == [1, 2, 3]
    assert outgoing.window == 0
    outgoing.receive(PUBCOMP, [1, 2, 3])
    assert outgoing.window == 1


def test_a_session_is_restored_as_it_was() -> None:
    outgoing = Outgoing()
    outgoing.publish(5, qos=2)
    outgoing.receive(PUBREC, [4, 2])
    restored = Outgoing.restore(outgoing.awaited())
    assert restored.awaited() == outgoing.awaited()
    assert (restored.resume(), restored.resends()) == ([4, 2], [1, 3, 5])


def test_abandoned_messages_are_not_sent_again_and_their_qos_2_identifiers_are_released_first() -> None:
    outgoing = Outgoing()
    outgoing.publish(2, qos=1)
    outgoing.publish(2, qos=2)
    outgoing.abandon([1, 3, 99])
    assert outgoing.awaited() == [(2, Awaits.PUBACK), (4, Awaits.PUBREC), (3, Awaits.PUBCOMP)]
    assert (outgoing.resume(), outgoing.resends()) == ([3], [2, 4])
    assert 3 not in outgoing.publish(70_000, qos=1)


def test_numbers_out_of_range_are_refused() -> None:
    for wrong in (0, 65_536):
        with pytest.raises(InvalidArgument):
            Outgoing(wrong)
        with pytest.raises(InvalidArgument):
            Incoming(wrong)
    with pytest.raises(InvalidArgument):
        Outgoing().publish(1, qos=0)


def test_an_identifier_is_never_given_out_while_it_is_in_use() -> None:
    """A long walk with a window that is nearly as large as the numbers."""
    rng, outgoing = random.Random(4), Outgoing(65_000)
    state: dict[int, Awaits] = {}
    for _ in range(60):
        qos = rng.choice([1, 2])
        ids = outgoing.publish(rng.randrange(9_000), qos)
        assert state.keys().isdisjoint(ids) and len(set(ids)) == len(ids)
        state.update(dict.fromkeys(ids, Awaits.PUBACK if qos == 1 else Awaits.PUBREC))
        kind = rng.choice([Awaits.PUBACK, Awaits.PUBREC, Awaits.PUBCOMP])
        answered = [packet_id for packet_id, awaits in state.items() if awaits is kind and rng.random() < 0.3]
        outgoing.receive(PacketType(kind), answered)
        for packet_id in answered:
            del state[packet_id]
            if kind is Awaits.PUBREC:
                state[packet_id] = Awaits.PUBCOMP
        assert len(outgoing) == len(state) <= 65_000
    assert outgoing.awaited() == list(state.items())


def test_mqtt_4_3_3_a_duplicate_of_qos_2_is_not_taken_again() -> None:
    incoming = Incoming()
    first = incoming.publish_qos_2([5, 6, 5])
    assert (first.fresh, first.duplicate) == ([5, 6], [5])
    released = incoming.pubrel([5, 7])
    assert (released.known, released.not_found) == ([5], [7])
    assert incoming.publish_qos_2([5]).fresh == [5]
    assert incoming.held() == [5, 6]


def test_a_refused_publish_of_qos_2_frees_its_identifier() -> None:
    incoming = Incoming(receive_maximum=1)
    incoming.publish_qos_2([5])
    incoming.refuse([5])
    assert incoming.publish_qos_2([5]).fresh == [5]


def test_mqtt_3_3_4_7_more_than_the_receive_maximum_ends_the_connection() -> None:
    incoming = Incoming(receive_maximum=3)
    incoming.publish_qos_1(2)
    incoming.publish_qos_2([5])
    assert incoming.publish_qos_2([5]).duplicate == [5]
    with pytest.raises(ProtocolError) as caught:
        incoming.publish_qos_1(1)
    assert caught.value.reason is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED
    incoming.puback(1)
    incoming.publish_qos_1(1)
    assert incoming.under_way == 3


def test_what_came_over_the_limit_is_no_duplicate_later() -> None:
    incoming = Incoming(receive_maximum=1)
    with pytest.raises(ProtocolError):
        incoming.publish_qos_2([5, 6])
    incoming.resume(receive_maximum=2)
    assert incoming.publish_qos_2([5, 6]).fresh == [5, 6]


def test_a_new_connection_counts_anew_and_remembers_what_was_taken() -> None:
    incoming = Incoming(1, held=[3])
    incoming.publish_qos_2([4])
    incoming.resume(receive_maximum=2)
    assert incoming.under_way == 0
    again = incoming.publish_qos_2([3, 9])
    assert (again.fresh, again.duplicate, incoming.under_way) == ([9], [3], 2)


def test_both_sides_of_qos_2_take_each_message_once_over_any_breaks() -> None:
    """Packets are lost only with their connection, at any point of either direction."""
    for seed in range(50):
        rng = random.Random(seed)
        outgoing, incoming, taken, sent = Outgoing(4), Incoming(4), list[str](), 0
        messages: dict[int, str] = {}
        while sent < 20 or len(outgoing):
            for packet_id in outgoing.publish(min(3, 20 - sent), qos=2):
                messages[packet_id] = f"message {sent}"
                sent += 1
            rels, pubs = outgoing.resume(4), outgoing.resends()
            incoming.resume(4)
            pubs = pubs[: rng.randrange(len(pubs) + 1)]
            taken += [messages[packet_id] for packet_id in incoming.publish_qos_2(pubs).fresh]
            answered = pubs[: rng.randrange(len(pubs) + 1)]
            outgoing.receive(PUBREC, answered)
            rels = rels[: rng.randrange(len(rels) + 1)]
            incoming.pubrel(rels)
            outgoing.receive(PUBCOMP, rels[: rng.randrange(len(rels) + 1)])
        assert taken == [f"message {i}" for i in range(20)]


def test_the_table_of_the_sender_answers_everything_a_known_identifier_awaits() -> None:
    assert all((awaits, PacketType(awaits), False) in SENDER for awaits in Awaits)
