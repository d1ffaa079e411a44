"""What the interop tests ask of any client library, and paho-mqtt under that hood."""

from __future__ import annotations

import os
import queue
import socket
import threading
from dataclasses import dataclass
from typing import Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

DEADLINE_S = 20.0
FOR_LONG_S = 3600
WS_PATH = "/mqtt"


@dataclass(frozen=True)
class Place:
    """Where the server is, and how it is spoken to."""

    port: int
    version: int
    is_websocket: bool = False
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class Came:
    topic: str
    payload: bytes
    qos: int
    retain: bool


@dataclass(frozen=True)
class Will:
    topic: str
    payload: bytes


class Peer(Protocol):
    """One client id. Everything returns when the server has answered, and fails after `DEADLINE_S`."""

    def connect(self, client_id: str, *, clean: bool = True, will: Will | None = None) -> bool:
        """Whether the server had the session."""

    def subscribe(self, filter: str, qos: int, terms: dict[str, str] | None = None) -> None: ...

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> None: ...

    def next(self) -> Came: ...

    def disconnect(self) -> None: ...

    def drop(self) -> None:
        """The network fails: no DISCONNECT."""

    def close(self) -> None:
        """Whatever is still there of it."""


def shut(descriptor: int) -> None:
    """The connection behind it ends, whatever the library has put around its socket."""
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def connect_properties(clean: bool) -> Properties:
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho says nothing of its types here
    properties.SessionExpiryInterval = 0 if clean else FOR_LONG_S
    return properties


def subscribe_properties(terms: dict[str, str] | None) -> Properties:
    properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]  # as above
    properties.UserProperty = list((terms or {}).items())
    return properties


class PahoPeer:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._client: paho.Client | None = None
        self._came: queue.Queue[Came] = queue.Queue()
        self._present: queue.Queue[tuple[bool, str]] = queue.Queue()
        self._refused: queue.Queue[list[bool]] = queue.Queue()

    @property
    def _is_5(self) -> bool:
        return self._place.version == 5

    def connect(self, client_id: str, *, clean: bool = True, will: Will | None = None) -> bool:
        client = self._client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            clean_session=None if self._is_5 else clean,
            protocol=MQTTProtocolVersion.MQTTv5 if self._is_5 else MQTTProtocolVersion.MQTTv311,
            transport="websockets" if self._place.is_websocket else "tcp",
            reconnect_on_failure=False,
        )
        client.ws_set_options(WS_PATH)
        if will is not None:
            client.will_set(will.topic, will.payload, 1)
        client.on_connect = lambda _, __, flags, reason, ___: self._present.put((flags.session_present, str(reason)))
        client.on_subscribe = lambda _, __, ___, reasons, ____: self._refused.put(
            [reason.is_failure for reason in reasons]
        )
        client.on_message = lambda _, __, came: self._came.put(
            Came(came.topic, bytes(came.payload), came.qos, came.retain)
        )
        self._open(client, clean)
        is_present, reason = self._present.get(timeout=DEADLINE_S)
        assert reason == "Success", reason
        return is_present

    def _open(self, client: paho.Client, clean: bool) -> None:
        if self._is_5:
            client.connect(self._place.host, self._place.port, clean_start=clean, properties=connect_properties(clean))
        else:
            client.connect(self._place.host, self._place.port)
        client.loop_start()

    def subscribe(self, filter: str, qos: int, terms: dict[str, str] | None = None) -> None:
        assert self._client is not None
        self._client.subscribe(filter, qos, properties=subscribe_properties(terms) if self._is_5 else None)
        assert self._refused.get(timeout=DEADLINE_S) == [False]

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        assert self._client is not None
        told = self._client.publish(topic, payload, qos, retain)
        told.wait_for_publish(DEADLINE_S)
        assert told.is_published()

    def next(self) -> Came:
        return self._came.get(timeout=DEADLINE_S)

    def disconnect(self) -> None:
        assert self._client is not None
        gone = threading.Event()
        self._client.on_disconnect = lambda *_: gone.set()
        self._client.disconnect()
        assert gone.wait(DEADLINE_S)
        self._client.loop_stop()
        self._client = None

    def drop(self) -> None:
        assert self._client is not None
        connection = self._client.socket()
        assert connection is not None
        shut(connection.fileno())
        self._client.loop_stop()
        self._client = None

    def close(self) -> None:
        if self._client is not None:
            self.disconnect()
