"""The scene's workers: a group that shares the readings of a durable queue, and who looks at its dead letters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from examples.scene.devices import Reading, Readings
from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.errors import MqttRefused
from penstock.client.mqtt.message import Message
from penstock.client.mqtt.options import MqttOptions
from penstock.client.mqtt.settling import Verdict
from penstock.codecs.mqtt.properties import Properties

QUEUE, GROUP, LETTERS = "readings", "workers", "$dlq/readings"
SETTINGS = {
    "name": QUEUE,
    "topics": ["devices/+/reading"],
    "partitions": 6,
    "retry_policy": {"max_retries": 3, "initial_backoff": "300ms", "max_backoff": "1200ms"},
    "retention": {"time": "1h"},
}
# What a worker would do with a reading.
_WORK_S = 0.005
_SHOWN_BYTES = 200

Say = Callable[[str], None]


class Worker:
    def __init__(self, number: int, options: MqttOptions, readings: Readings, say: Say) -> None:
        self._name, self._options, self._readings, self._say = f"worker {number}", options, readings, say

    async def run(self) -> None:
        terms = Properties(user_properties=(("consumer-group", GROUP), ("prefetch", "50")))
        async with AsyncMqttClient(self._options) as client:
            await client.subscribe(f"$queue/{QUEUE}", qos=1, properties=terms)
            async for message in client.messages():
                await self._handle(client, message)

    async def _handle(self, client: AsyncMqttClient, message: Message) -> None:
        try:
            reading = parse_reading(message.payload)
        except ValueError as error:
            self._say(f"{self._name} cannot handle {shown(message)}, delivery {message.header('delivery-count')}")
            await self._settle(client, Verdict.NACK, message, str(error))
            return
        await asyncio.sleep(_WORK_S)
        if await self._settle(client, Verdict.ACK, message, ""):
            self._readings.was_handled(reading)

    async def _settle(self, client: AsyncMqttClient, verdict: Verdict, message: Message, reason: str) -> bool:
        """False if the message was taken back meanwhile: somebody else has it, or will."""
        try:
            await client.settle(verdict, message, reason=reason)
        except MqttRefused:
            return False
        return True


class Letters:
    """Shows each dead letter once, also over several runs: it is a group of its own."""

    def __init__(self, options: MqttOptions, readings: Readings, say: Say) -> None:
        self._options, self._readings, self._say = options, readings, say

    async def run(self) -> None:
        terms = Properties(user_properties=(("consumer-group", "scene"), ("ack-mode", "puback")))
        async with AsyncMqttClient(self._options) as client:
            await client.subscribe(LETTERS, qos=1, properties=terms)
            async for letter in client.messages():
                self._show(letter)

    def _show(self, letter: Message) -> None:
        why = f"{letter.header('dlq-reason')}: {letter.header('dlq-detail')}"
        self._say(f"dead letter in {LETTERS}: {shown(letter)}; group {letter.header('dlq-group')}, {why}")
        self._readings.was_given_up(_object(letter.payload))


def parse_reading(payload: bytes) -> Reading:
    """ValueError for what is none."""
    reading = _object(payload)
    if not isinstance(reading.get("celsius"), int | float):
        raise ValueError("celsius is not a number")
    return reading


def _object(payload: bytes) -> Reading:
    """Empty if the payload is not the JSON of an object: anybody may publish."""
    try:
        found = json.loads(payload)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def shown(message: Message) -> str:
    return message.payload[:_SHOWN_BYTES].decode(errors="backslashreplace")
