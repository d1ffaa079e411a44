"""Where a server is known to do otherwise than the clause says. A test that fails on mosquitto and is not here is
probably a wrong test; a test that fails on Penstock is a fault of Penstock, and belongs here with its reason or not
at all."""

from __future__ import annotations

from typing import NamedTuple

import pytest


class Deviation(NamedTuple):
    server: str
    reason: str


# By server and test: the name, or the name with `[version-case]` of those that deviate, the server left out.
_MOSQUITTO_TAKES = {
    "puback_flags": "flags of acknowledgements are not looked at [MQTT-2.1.3-1]",
    "pubrec_flags": "flags of acknowledgements are not looked at [MQTT-2.1.3-1]",
    "pubcomp_flags": "flags of acknowledgements are not looked at [MQTT-2.1.3-1]",
    "suback_v5": "packets of a server are ignored, for it may be a bridge [MQTT-4.13.1-1]",
    "pingresp": "packets of a server are ignored, for it may be a bridge [MQTT-4.13.1-1]",
}
_MOSQUITTO_TAKES_OF_5_0 = {
    "publish_overlong_length": "is taken [MQTT-1.5.5-1]",
    "puback_unknown_reason": "is not checked [MQTT-3.4.2-1]",
    "puback_reason_of_another": "is not checked [MQTT-3.4.2-1]",
    "puback_trailing": "what follows the properties is not looked at [MQTT-4.13.1-1]",
    "pubrec_unknown_reason": "is not checked [MQTT-3.5.2-1]",
    "pubrel_unknown_reason": "is not checked [MQTT-3.6.2-1]",
    "pubcomp_unknown_reason": "is not checked [MQTT-3.7.2-1]",
}
_MOSQUITTO = {
    "test_mqtt5_3_1_2_11_authentication_data_without_a_method_closes": "is accepted (3.1.2.11.10)",
    "test_mqtt_3_1_2_8_disconnect_with_an_error_publishes_the_will": "only 0x04 publishes it [MQTT-3.1.2-8]",
    "test_mqtt_3_14_2_1_an_unknown_reason_closes_with_an_error": "any reason is a normal end [MQTT-3.14.2-1]",
    "test_mqtt_2_1_3_1_a_ping_with_flags_or_a_body_closes": "is answered like any ping [MQTT-2.1.3-1]",
    "test_mqtt_3_3_1_2_a_duplicate_of_qos_0_closes": "is accepted [MQTT-3.3.1-2]",
    "test_mqtt_3_7_2_1_pubcomp_says_that_a_packet_identifier_is_not_known": "PUBCOMP always says success (3.7.2.1)",
    "test_mqtt_3_3_4_6_a_clients_publish_with_a_subscription_identifier_closes": "is accepted [MQTT-3.3.4-6]",
    "test_mqtt_3_8_3_3_no_local_ends_when_the_subscription_is_replaced": "the option stays [MQTT-3.8.4-3]",
    "test_mqtt_3_1_2_8_the_end_of_the_session_publishes_the_will": "waits for the delay all the same [MQTT-3.1.2-8]",
    "test_mqtt_3_1_2_8_a_clean_start_ends_the_session_and_publishes_the_will": "the will is dropped [MQTT-3.1.2-8]",
    "test_mqtt_3_2_2_15_a_packet_above_the_maximum_size_closes[v3-1]": "the fixed header is not counted (3.2.2.3.6)",
    "test_mqtt_3_2_2_15_a_packet_above_the_maximum_size_closes[v5-1]": "the fixed header is not counted (3.2.2.3.6)",
    "test_mqtt_3_3_2_8_alias_0_closes": "closes with 0x81, not 0x82 or 0x94 (3.3.2.3.4)",
    "test_mqtt_4_9_0_2_a_puback_makes_room_for_one": "sends all that wait after one PUBACK [MQTT-3.3.4-9]",
    "test_mqtt_3_3_4_9_the_maximum_holds_after_a_reconnect": "sends again beyond the new maximum [MQTT-3.3.4-9]",
    "test_mqtt_3_3_4_7_a_client_beyond_the_servers_maximum_is_disconnected": "takes more than it said [MQTT-3.3.4-7]",
    "test_mqtt_3_1_2_25_a_larger_packet_is_not_sent[v5-1-0]": "the fixed header is not counted [MQTT-3.1.2-24]",
    "test_mqtt_3_1_2_25_a_larger_packet_is_not_sent[v5-1-1]": "the fixed header is not counted [MQTT-3.1.2-24]",
    "test_mqtt_3_1_2_25_a_larger_packet_is_not_sent[v5-1-2]": "the fixed header is not counted [MQTT-3.1.2-24]",
    "test_mqtt_3_1_2_25_a_packet_that_is_not_sent_counts_as_completed": "it stays under way [MQTT-3.1.2-25]",
    "test_mqtt_3_1_2_24_a_suback_that_does_not_fit_closes_and_nothing_is_subscribed": "is not sent, and all goes on",
    "test_mqtt_3_1_2_24_an_unsuback_that_does_not_fit_closes": "is not sent, and all goes on [MQTT-3.1.2-24]",
    "test_mqtt_3_14_2_3_disconnect_stays_within_the_maximum": "a ping with flags is answered [MQTT-2.1.3-1]",
    **{
        f"test_mqtt_4_8_2_1_a_malformed_share_name_is_refused[v5-{filter}]": "is accepted [MQTT-4.8.2-1] [MQTT-4.8.2-2]"
        for filter in ("$share//a", "$share/+/a", "$share/g", "$share/g/", "$share/")
    },
    "test_mqtt_3_8_3_4_no_local_with_a_shared_filter_closes": "is accepted [MQTT-3.8.3-4]",
    "test_mqtt5_4_8_2_retained_messages_are_not_sent_to_a_shared_subscription": "they are sent (4.8.2)",
    "test_mqtt5_3_3_2_3_wrong_properties_close[v5-format_2]": "is passed on (3.3.2.3.2)",
    "test_mqtt_3_3_2_14_a_response_topic_with_wildcards_closes": "is passed on [MQTT-3.3.2-14]",
    "test_mqtt_4_3_3_7_a_message_that_was_sent_does_not_expire": "it expires all the same [MQTT-4.3.3-7]",
    "test_mqtt_3_3_2_5_a_message_that_waits_for_room_expires": "what waits behind it never comes [MQTT-3.3.2-5]",
    **{
        f"test_mqtt_4_13_1_1_a_malformed_packet_closes_its_connection[{version}-{case}]": why
        for version in ("v3", "v5")
        for case, why in _MOSQUITTO_TAKES.items()
    },
    "test_mqtt_4_13_1_1_a_malformed_packet_closes_its_connection[v3-suback]": "is ignored [MQTT-4.8.0-1]",
    "test_mqtt_4_13_1_1_a_malformed_packet_closes_its_connection[v3-unsuback]": "is ignored [MQTT-4.8.0-1]",
    **{
        f"test_mqtt_4_13_1_1_a_packet_that_is_malformed_in_5_0_closes[v5-{case}]": why
        for case, why in _MOSQUITTO_TAKES_OF_5_0.items()
    },
}
_PENSTOCK: dict[str, str] = {}
DEVIATIONS: dict[tuple[str, str], str] = {
    **{("mosquitto", test): why for test, why in _MOSQUITTO.items()},
    **{("penstock", test): why for test, why in _PENSTOCK.items()},
}


def deviation_of(item: pytest.Function) -> Deviation | None:
    for server, test in _keys(item):
        reason = DEVIATIONS.get((server, test))
        if reason is not None:
            return Deviation(server, reason)
    return None


def _keys(item: pytest.Function) -> list[tuple[str, str]]:
    """Of the item `name[v5-mosquitto-case]`: mosquitto with `name`, `name[v5]` and `name[v5-case]`."""
    name, _, parameters = item.name.removesuffix("]").partition("[")
    parts = parameters.split("-")
    for server in ("penstock", "mosquitto"):
        if server in parts:
            parts.remove(server)
            return [(server, name), (server, f"{name}[{'-'.join(parts[:1])}]"), (server, f"{name}[{'-'.join(parts)}]")]
    return []
