"""`MqttClient`: the client for threads. An event loop in a thread of its own does the work of `AsyncMqttClient`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Self, TypeVar

from penstock.client.loop_thread import LoopThread
from penstock.client.mqtt.async_client import AsyncMqttClient, Filter
from penstock.client.mqtt.message import Message
from penstock.client.mqtt.options import MqttOptions
from penstock.client.mqtt.settling import Verdict
from penstock.codecs.mqtt.packets import ConnAck
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.closing import Closing
from penstock.core.errors import Closed

T = TypeVar("T")


class MqttClient(Closing):
    """Use with `with`; any thread may call it. Each method does what that of AsyncMqttClient does, and waits for it."""

    def __init__(self, options: MqttOptions = MqttOptions()) -> None:  # noqa: B008  # a frozen value
        self._client = AsyncMqttClient(options)
        self._thread = LoopThread("penstock-client", "the client is not connected: use `with`, or connect() a new one")

    def __enter__(self) -> Self:
        self.connect()
        return self

    @property
    def client_id(self) -> str:
        return self._client.client_id

    @property
    def is_connected(self) -> bool:
        return self._client.is_connected

    def connect(self) -> ConnAck:
        self._thread.start()
        try:
            return self._run(self._client.connect())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Calls that wait end with Closed. Calling it again does nothing."""
        self._thread.close(self._client.close)

    def publish(
        self,
        topic: str,
        payload: bytes | str = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> ReasonCode:
        return self._run(self._client.publish(topic, payload, qos=qos, retain=retain, properties=properties))

    def subscribe(
        self, *filters: Filter, qos: int = 0, properties: Properties = NO_PROPERTIES
    ) -> tuple[ReasonCode, ...]:
        return self._run(self._client.subscribe(*filters, qos=qos, properties=properties))

    def unsubscribe(self, *filters: str) -> tuple[ReasonCode, ...]:
        return self._run(self._client.unsubscribe(*filters))

    def receive(self, timeout_s: float | None = None) -> Message:
        """TimeoutError if none comes in time."""
        return self._run(self._receive(timeout_s))

    def messages(self) -> Iterator[Message]:
        """Until close()."""
        while True:
            try:
                message = self.receive()
            except Closed:
                return
            yield message

    def ack(self, message: Message) -> None:
        self._run(self._ack(message))

    def settle(
        self, verdict: Verdict, *messages: Message, delay_s: float | None = None, reason: str = ""
    ) -> ReasonCode:
        return self._run(self._client.settle(verdict, *messages, delay_s=delay_s, reason=reason))

    async def _receive(self, timeout_s: float | None) -> Message:
        async with asyncio.timeout(timeout_s):
            return await self._client.receive()

    async def _ack(self, message: Message) -> None:
        self._client.ack(message)

    def _run(self, work: Coroutine[object, None, T]) -> T:
        return self._thread.run(work)
