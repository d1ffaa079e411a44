"""What a conformance test is given: one server, one version, and names that no other test uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import pytest
from tests.support.mqtt_client import DEADLINE_S, MqttClient
from tests.support.servers import RunningServer

from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Disconnect, Will
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode

V3, V5 = Version.V3_1_1, Version.V5
VERSION_IDS = {V3: "v3", V5: "v5"}
v3_only = pytest.mark.versions(V3)
v5_only = pytest.mark.versions(V5)

LONG_S = 3600
"""a session that outlives its test"""
_numbers = count(1)


@dataclass(slots=True)
class Scene:
    server: RunningServer
    version: Version
    username: str | None = None
    password: bytes | None = None
    deadline_s: float = DEADLINE_S
    number: int = field(default_factory=lambda: next(_numbers))
    """in all names; the same one again finds the sessions of before"""
    _clients: list[MqttClient] = field(default_factory=list)

    @property
    def is_v5(self) -> bool:
        return self.version is V5

    def topic(self, *levels: str) -> str:
        return "/".join((f"t{self.number}", *levels))

    def client_id(self, name: str) -> str:
        return f"c{self.number}{name}"

    def opened(self, name: str = "x") -> MqttClient:
        """A network connection, and no CONNECT yet."""
        client = MqttClient(self.server.address, self.version, self.client_id(name), self.deadline_s)
        self._clients.append(client)
        return client

    def client(
        self,
        name: str = "x",
        *,
        clean: bool = True,
        keep_alive_s: int = 0,
        will: Will | None = None,
        properties: Properties = NO_PROPERTIES,
    ) -> MqttClient:
        """Connected and accepted."""
        client = self.opened(name)
        connack = client.connect(
            clean=clean,
            keep_alive_s=keep_alive_s,
            will=will,
            properties=properties,
            username=self.username,
            password=self.password,
        )
        assert connack.reason is ReasonCode.SUCCESS, connack
        return client

    def lasting(
        self, name: str = "s", *, clean: bool = False, will: Will | None = None, expiry_s: int = LONG_S
    ) -> MqttClient:
        """Connected with a session that stays when the connection ends, resumed if it is there."""
        properties = Properties(session_expiry_interval_s=expiry_s) if self.is_v5 else NO_PROPERTIES
        return self.client(name, clean=clean, will=will, properties=properties)

    def subscriber(self, *filters: str, qos: int = 0, name: str = "sub") -> MqttClient:
        client = self.client(name)
        client.subscribe(*filters, qos=qos)
        return client

    def expect_refused(self, client: MqttClient, *reasons: ReasonCode) -> None:
        """The server closes an open connection. What it says before is DISCONNECT with one of the reasons; MQTT 3.1.1
        has no words for it."""
        word = client.expect_closed()
        if not self.is_v5:
            assert word is None
        elif word is None:
            assert not self.server.tells_reasons, f"closed without DISCONNECT, and not with one of {reasons}"
        else:
            assert isinstance(word, Disconnect), word
            assert word.reason in reasons, f"DISCONNECT with {word.reason!s}, and not with one of {reasons}"

    def expect_rejected(self, client: MqttClient, *reasons: ReasonCode) -> None:
        """The server closes a connection whose CONNECT it does not take: without a word, or with a CONNACK of one of
        the reasons."""
        word = client.expect_closed()
        if word is None:
            assert not (self.is_v5 and self.server.tells_reasons), f"closed without CONNACK of one of {reasons}"
            return
        assert not isinstance(word, Disconnect), "DISCONNECT before an accepting CONNACK [MQTT-3.14.0-1]"
        assert not word.session_present
        assert word.reason in reasons, f"CONNACK with {word.reason!s}, and not with one of {reasons}"

    def close(self) -> None:
        for client in self._clients:
            client.close()
