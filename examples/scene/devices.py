"""The scene's devices: each tells that it is alive (QoS 0) and what it measures (QoS 1), and one goes wrong once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.options import MqttOptions
from penstock.codecs.mqtt.packets import Will
from penstock.codecs.mqtt.properties import Properties

INTERVAL_S = 0.1
# Late enough that the table is seen without it first.
POISON_AFTER_S = 2.0
_ONLINE, _OFFLINE = b"online", b"offline"

_PAST_INTERVAL = timedelta(seconds=5)
_A_MINUTE = 12

Reading = dict[str, object]


class Measured(NamedTuple):
    celsius: float | str
    at: datetime


class Readings:
    """Those of this run, named `pump-1 17`: what was published and what became of it."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.acknowledged = self.handled = self.given_up = 0
        self._under_way: set[str] = set()
        self.none_left = asyncio.Event()
        """set while each was handled or given up"""
        self.none_left.set()

    @property
    def left(self) -> int:
        return len(self._under_way)

    def publishing(self, reading: Reading) -> None:
        self._under_way.add(_name_of(reading))
        self.none_left.clear()

    def was_handled(self, reading: Reading) -> None:
        self.handled += self._settled(reading)

    def was_given_up(self, reading: Reading) -> None:
        self.given_up += self._settled(reading)

    def _settled(self, reading: Reading) -> bool:
        """False for one that is not of this run, or came twice."""
        name = _name_of(reading)
        if reading.get("run") != self.run or name not in self._under_way:
            return False
        self._under_way.discard(name)
        if not self._under_way:
            self.none_left.set()
        return True


class Device:
    def __init__(self, name: str, options: MqttOptions, readings: Readings, say: Callable[[str], None]) -> None:
        self.name, self._readings, self._say = name, readings, say
        self._status = f"devices/{name}/status"
        will = Will(self._status, _OFFLINE, qos=1, retain=True)
        self._options = replace(options, client_id=name, will=will)

    async def run(self, stopping: asyncio.Event, poison_after_s: float, past: Sequence[Measured] = ()) -> None:
        """Until it is told to stop; first what it measured while it had no connection. One reading, the first after so
        long, is none."""
        poison_at_s = time.monotonic() + poison_after_s
        async with AsyncMqttClient(self._options) as client:
            await client.publish(self._status, _ONLINE, qos=1, retain=True)
            for number, measured in enumerate(past):
                await self._publish(client, number, measured)
            number = len(past)
            while not stopping.is_set():
                is_poison = time.monotonic() >= poison_at_s
                if is_poison:
                    poison_at_s = math.inf
                await client.publish(f"devices/{self.name}/heartbeat", str(number))
                await self._report(client, number, is_poison)
                number += 1
                await _pause(stopping, INTERVAL_S)
            await client.publish(self._status, _OFFLINE, qos=1, retain=True)

    async def _report(self, client: AsyncMqttClient, number: int, is_poison: bool) -> None:
        if is_poison:
            self._say(f"{self.name} sends a reading that no worker can handle; its later ones wait behind it")
        await self._publish(client, number, Measured("hot" if is_poison else _temperature(), datetime.now(UTC)))

    async def _publish(self, client: AsyncMqttClient, number: int, measured: Measured) -> None:
        reading: Reading = {"run": self._readings.run, "device": self.name, "number": number}
        reading |= {"celsius": measured.celsius, "at": measured.at.isoformat()}
        self._readings.publishing(reading)
        # Readings with one key stay in their order, also through failures.
        key = Properties(user_properties=(("partition-key", self.name),))
        await client.publish(f"devices/{self.name}/reading", json.dumps(reading), qos=1, properties=key)
        self._readings.acknowledged += 1


def past_minutes(minutes: int, hot_minute: int | None = None) -> list[Measured]:
    """What a device measured before now, in one of these minutes far too hot."""
    begin = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=minutes)
    return [
        Measured(_temperature() + (40 if number // _A_MINUTE == hot_minute else 0), begin + number * _PAST_INTERVAL)
        for number in range(minutes * _A_MINUTE)
    ]


def _temperature() -> float:
    return round(min(random.gauss(60, 5), 79.9), 1)


def _name_of(reading: Reading) -> str:
    return f"{reading.get('device')} {reading.get('number')}"


async def _pause(stopping: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopping.wait()
