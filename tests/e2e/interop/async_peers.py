"""aiomqtt and gmqtt as peers: each has an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

import aiomqtt
import gmqtt  # type: ignore[import-untyped]  # it says nothing of its types
from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY
from tests.e2e.interop.peers import (
    DEADLINE_S,
    FOR_LONG_S,
    WS_PATH,
    Came,
    Place,
    Will,
    connect_properties,
    shut,
    subscribe_properties,
)

T = TypeVar("T")


class Looped:
    """A loop in a thread; `wait` runs something on it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, DEADLINE_S), self._loop).result()

    def end(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cancel_rest(), self._loop).result(DEADLINE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_rest(self) -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class AiomqttPeer(Looped):
    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place = place
        self._client: aiomqtt.Client | None = None

    def connect(self, client_id: str, *, clean: bool = True, will: Will | None = None) -> bool:
        return self.wait(self._connect(client_id, clean, will))

    async def _connect(self, client_id: str, clean: bool, will: Will | None) -> bool:
        is_5 = self._place.version == 5
        transport: Literal["tcp", "websockets"] = "websockets" if self._place.is_websocket else "tcp"
        self._client = aiomqtt.Client(
            self._place.host,
            self._place.port,
            identifier=client_id,
            protocol=aiomqtt.ProtocolVersion.V5 if is_5 else aiomqtt.ProtocolVersion.V311,
            clean_session=None if is_5 else clean,
            clean_start=clean if is_5 else MQTT_CLEAN_START_FIRST_ONLY,
            transport=transport,
            websocket_path=WS_PATH if self._place.is_websocket else None,
            will=None if will is None else aiomqtt.Will(will.topic, will.payload, 1),
            properties=connect_properties(clean) if is_5 else None,
        )
        await self._client.__aenter__()
        return False  # it does not tell

    def subscribe(self, filter: str, qos: int, terms: dict[str, str] | None = None) -> None:
        assert self._client is not None
        properties = subscribe_properties(terms) if self._place.version == 5 else None
        self.wait(self._client.subscribe(filter, qos, properties=properties))

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        assert self._client is not None
        self.wait(self._client.publish(topic, payload, qos, retain))

    def next(self) -> Came:
        return self.wait(self._next())

    async def _next(self) -> Came:
        assert self._client is not None
        async for came in self._client.messages:
            assert isinstance(came.payload, bytes)
            return Came(str(came.topic), came.payload, came.qos, bool(came.retain))
        raise AssertionError("disconnected")

    def disconnect(self) -> None:
        assert self._client is not None
        self.wait(self._client.__aexit__(None, None, None))
        self._client = None

    def drop(self) -> None:
        assert self._client is not None
        connection = self._client._client.socket()
        assert connection is not None
        shut(connection.fileno())
        self.wait(asyncio.wait([self._client._disconnected]))
        assert self._client._disconnected.exception() is not None
        self._client = None

    def close(self) -> None:
        if self._client is not None:
            self.disconnect()
        self.end()


class GmqttPeer(Looped):
    def __init__(self, place: Place) -> None:
        super().__init__()
        assert not place.is_websocket, "gmqtt has no WebSocket"
        self._place = place
        self._client: gmqtt.Client | None = None
        self._came: queue.Queue[Came] = queue.Queue()
        self._subscribed: queue.Queue[object] = queue.Queue()
        self._is_present = False

    def connect(self, client_id: str, *, clean: bool = True, will: Will | None = None) -> bool:
        self.wait(self._connect(client_id, clean, will))
        return self._is_present

    async def _connect(self, client_id: str, clean: bool, will: Will | None) -> None:
        expiry = {"session_expiry_interval": FOR_LONG_S} if self._place.version == 5 and not clean else {}
        said = None if will is None else gmqtt.Message(will.topic, will.payload, qos=1)
        client = self._client = gmqtt.Client(client_id, clean_session=clean, will_message=said, **expiry)
        client.set_config({"reconnect_retries": 0})
        client.on_connect = self._on_connect
        client.on_message = self._on_message
        client.on_subscribe = lambda *said: self._subscribed.put(said)
        await client.connect(self._place.host, self._place.port, version=self._place.version)

    def _on_connect(self, client: object, flags: int, code: int, properties: object) -> None:
        self._is_present = bool(flags & 1)

    def _on_message(self, client: object, topic: str, payload: bytes, qos: int, properties: dict[str, object]) -> int:
        self._came.put(Came(topic, bytes(payload), qos, bool(properties.get("retain"))))
        return 0

    def subscribe(self, filter: str, qos: int, terms: dict[str, str] | None = None) -> None:
        async def work() -> None:
            assert self._client is not None
            said = {"user_property": list(terms.items())} if terms and self._place.version == 5 else {}
            self._client.subscribe(gmqtt.Subscription(filter, qos=qos), **said)

        self.wait(work())
        self._subscribed.get(timeout=DEADLINE_S)

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        async def work() -> None:
            assert self._client is not None
            self._client.publish(topic, payload, qos=qos, retain=retain)
            await self._client._wait_qos_queue_drained()

        self.wait(work())

    def next(self) -> Came:
        return self._came.get(timeout=DEADLINE_S)

    def disconnect(self) -> None:
        assert self._client is not None
        self.wait(self._client.disconnect())
        self._client = None

    def drop(self) -> None:
        async def work() -> None:
            assert self._client is not None
            self._client._is_active = False
            self._client._connection._transport.abort()

        self.wait(work())
        self._client = None

    def close(self) -> None:
        if self._client is not None:
            self.disconnect()
        self.end()
