"""Configuration: where a value comes from, and that every mistake stops the start and is named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from penstock.broker.auth.options import AuthOptions, RateLimitOptions
from penstock.broker.topics.topics import TopicOptions
from penstock.core.errors import InvalidSetting
from penstock.core.settings.fields import paths_of
from penstock.core.settings.values import values_of
from penstock.core.types import Durability
from penstock.gateways.mqtt.options import MqttOptions
from penstock.log.options import ShardOptions
from penstock.server.config import Config, LogLevel, load
from penstock.server.config_listeners import is_loopback
from penstock.server.written import BadConfiguration


def _load(text: str, tmp_path: Path, *flags: str) -> Config:
    file = tmp_path / "penstock.yaml"
    file.write_text(text)
    return load(file, {}, flags)


def _refused(text: str, tmp_path: Path, *flags: str) -> str:
    with pytest.raises(BadConfiguration) as caught:
        _load(text, tmp_path, *flags)
    return str(caught.value).replace(f"{tmp_path}/", "")


# Where values come from


def test_a_flag_goes_over_a_variable_over_the_file_over_the_default(tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text("listeners: {mqtt: {port: 1}, mqtt_ws: {port: 1}}\nmqtt: {receive_maximum: 1}")
    variables = {"PENSTOCK_LISTENERS__MQTT__PORT": "2", "PENSTOCK_LISTENERS__MQTT_WS__PORT": "2"}
    config = load(file, variables, ["listeners.mqtt.port=3"])
    assert config.listeners.mqtt is not None
    assert config.listeners.mqtt_ws is not None
    assert (config.listeners.mqtt.port, config.listeners.mqtt_ws.port, config.mqtt.receive_maximum) == (3, 2, 1)
    assert config.mqtt.maximum_qos == 2


def test_every_part_gets_its_own_defaults() -> None:
    config = Config()
    assert config.mqtt.options() == MqttOptions()
    assert config.storage.options() == ShardOptions()
    assert config.auth.options() == AuthOptions()
    assert config.rate_limit.options() == RateLimitOptions()


def test_every_knob_of_the_protocol_and_of_security_can_be_set() -> None:
    keys = {path.partition(".")[0]: 0 for path in paths_of(Config)}
    for path in paths_of(Config):
        keys[path.partition(".")[0]] += path.count(".") == 1
    names = {each.name for options in (MqttOptions, TopicOptions) for each in dataclasses.fields(options)}
    assert keys["mqtt"] == len(names)
    assert keys["auth"] == len(dataclasses.fields(AuthOptions))
    assert keys["rate_limit"] == len(dataclasses.fields(RateLimitOptions))


def test_sizes_and_durations_are_written_as_people_do(tmp_path: Path) -> None:
    config = _load("mqtt: {max_packet_size: 1MiB, connect_timeout: 1m30s}\nshutdown_timeout: 500ms", tmp_path)
    assert config.mqtt.options().max_packet_bytes == 1 << 20
    assert config.mqtt.options().connect_timeout_s == 90
    assert config.shutdown_timeout_ms == 500


def test_null_switches_a_listener_off_and_naming_one_switches_it_on(tmp_path: Path) -> None:
    config = _load("listeners: {mqtt_ws: null, http: null, mqtts: {tls: {certificate: c, key: k}}}", tmp_path)
    assert list(config.listeners.switched_on()) == ["mqtt", "mqtts"]
    assert list(_load("listeners: {mqtt: null}", tmp_path, "listeners.mqtt.port=5").listeners.switched_on()) == [
        "mqtt",
        "mqtt_ws",
        "http",
    ]


def test_lists_and_texts_that_look_like_numbers_can_be_given_by_flag() -> None:
    flags = ['listeners.mqtt_ws.allowed_origins=["https://a.example"]', "data_dir=2026", 'queues=[{"name": "a"}]']
    config = load(None, {}, flags)
    assert config.listeners.mqtt_ws is not None
    assert config.listeners.mqtt_ws.allowed_origins == ("https://a.example",)
    assert config.data_dir == "2026"
    assert config.queues == ({"name": "a"},)


def test_words_of_enums_are_read(tmp_path: Path) -> None:
    config = _load("durability: interval\nlog: {level: debug}\nmqtt: {queued_policy: drop-oldest}", tmp_path)
    assert (config.durability, config.log.level) == (Durability.INTERVAL, LogLevel.DEBUG)
    assert config.mqtt.options().queued_policy == "drop-oldest"


def test_variables_that_are_no_settings_are_left_alone() -> None:
    variables = {
        "PENSTOCK_PURE": "1",
        "PENSTOCK_SERVICE_HOST": "10.0.0.1",
        "PENSTOCK_SERVICE_PORT_MQTT": "1883",
        "PENSTOCK_PORT": "tcp://10.0.0.1:1883",
        "PENSTOCK_PORT_1883_TCP_ADDR": "10.0.0.1",
        "PENSTOCK_EDGE_SERVICE_PORT": "1",
        "HOME": "/",
    }
    assert load(None, variables, []) == Config()


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert _load("", tmp_path) == Config()
    assert _load("# nothing\n", tmp_path) == Config()


def test_a_section_whose_lines_are_commented_out_is_all_defaults(tmp_path: Path) -> None:
    text = "mqtt:\n#  receive_maximum: 1\nqueues:\nauth: {users: , acl: }\nlisteners: {mqtt_ws: {allowed_origins: }}"
    assert _load(text, tmp_path) == Config()


# Mistakes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listeners:\n  mqtt: {prot: 1}", "penstock.yaml:2: listeners.mqtt.prot: no such setting; did you mean"),
        ("lissteners: {}", "did you mean listeners?"),
        ("receive_maximum: 3", "did you mean mqtt.receive_maximum?"),
        ("zzz: 1", "penstock.yaml:1: zzz: no such setting: the known ones are data_dir"),
        ("log:\n  level: loud", "penstock.yaml:2: log.level: 'loud' is not one of debug, info"),
        ("log: {level: info}\nlog: {level: info}", "penstock.yaml:2: log: is given twice, first at penstock.yaml:1"),
        ("listeners: {grpc: {}}", "listeners.grpc: this listener is not in this version"),
        ("mqtt: 5", "mqtt: 5 is not an object with settings in it"),
        ("- 1", "is not a mapping"),
        ("a: [", "not YAML"),
        ("a: !!python/name:os.system x", "not YAML"),
        ("queues: [{name: a, partitions: 0}]", "queues[0].partitions: 0 is out of range"),
        ("queues:\n - name: a\n - name: b\n   limits:\n     message_ttl: 3", "yaml:5: queues[1].limits.message_ttl"),
        ("queues: [{partitions: 1}]", "queues[0].name: a queue needs one"),
        ("broker: {templates: [{match: a}, {pattern: b}]}", "broker.templates[1]"),
        ("listeners: {mqtts: {}}", "listeners.mqtts.tls: is missing"),
        ("listeners: {mqtts: {tls: {key: k}}}", "listeners.mqtts.tls.certificate: is missing"),
        ("listeners: {mqtt: {host: 'a b'}}", "listeners.mqtt.host: 'a b' is not an address"),
        ("listeners: {mqtt_ws: {allowed_origins: [https://a/b]}}", "allowed_origins[0]"),
        ("auth: {users: [{roles: [a]}]}", "auth.users[0].name: is missing"),
        ("auth: {acl: [{effect: allow, action: publish}]}", "auth.acl[0].pattern: is missing"),
        ("auth: {acl: [{effect: allow, action: publsh, pattern: a}]}", "did you mean publish?"),
        ("auth: {jwt: {algorithm: none}}", "auth.jwt.algorithm: 'none' is not one of HS256, RS256, ES256"),
        ("storage: {journal_size: 5MiB}", "has no room for three files"),
        ("shutdown_timeout: 30", "30 is not a duration"),
        ("listeners: {mqtt: null, mqtt_ws: null, http: null}", "listeners: all are off"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_what_to_do(text: str, said: str, tmp_path: Path) -> None:
    assert said in _refused(text, tmp_path)


def test_a_mistake_in_a_variable_or_flag_names_it(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="variable PENSTOCK_LOGG__LEVEL: logg"):
        load(None, {"PENSTOCK_LOGG__LEVEL": "info"}, [])
    assert "--set log.levle: log.levle: no such setting; did you mean log.level?" in _refused(
        "", tmp_path, "log.levle=1"
    )
    assert "write it like listeners.mqtt.port=0" in _refused("", tmp_path, "nonsense")


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"absent\.yaml: cannot be read: No such file"):
        load(tmp_path / "absent.yaml", {}, [])


def test_a_secret_is_shown_nowhere(tmp_path: Path) -> None:
    refused = _refused("auth: {users: [{name: a, password_hash: hunter2}]}", tmp_path)
    assert "hunter2" not in refused
    config = _load("auth: {jwt: {algorithm: HS256, secret: hunter2hunter2hunter2hunter2hunter2}}", tmp_path)
    assert "hunter2" not in str(values_of(config))


def test_a_document_nested_without_end_is_refused(tmp_path: Path) -> None:
    assert "nested" in _refused("a: " + "[" * 100 + "]" * 100, tmp_path)


# Loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_development_mode_is_refused_where_others_can_connect(host: str, tmp_path: Path) -> None:
    refused = _refused(f"listeners: {{mqtt: {{host: '{host}'}}}}", tmp_path, "auth.development_mode=true")
    assert "development mode lets everybody in" in refused


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_development_mode_is_for_loopback(host: str, tmp_path: Path) -> None:
    config = _load(f"listeners: {{mqtt: {{host: '{host}'}}}}", tmp_path, "auth.development_mode=true")
    assert all(is_loopback(listener) for listener in config.listeners.switched_on().values())


def test_behind_a_proxy_nobody_is_loopback(tmp_path: Path) -> None:
    refused = _refused("listeners: {mqtt: {proxy_protocol: true}}", tmp_path, "auth.development_mode=true")
    assert "listeners.mqtt" in refused


def test_a_bad_configuration_is_an_invalid_setting(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting) as caught:
        _load("zzz: 1", tmp_path)
    assert caught.value.path == "zzz"
