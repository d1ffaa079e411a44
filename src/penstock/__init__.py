"""Penstock: a durable message broker for Python teams.

`penstock.open()` and `penstock.open_async()` are the broker inside a process; `penstock.Client` and
`penstock.aio.Client` talk to a server over HTTP, `penstock.MqttClient` and `penstock.AsyncMqttClient` over MQTT,
`penstock.FlightClient` over Arrow Flight. What they need is imported when they are first asked for."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from penstock.core.errors import UnsupportedPlatform
from penstock.version import VERSION as __version__

if TYPE_CHECKING:
    from penstock.broker.broker import BrokerOptions
    from penstock.client.flight.client import FlightClient
    from penstock.client.http.client import Client
    from penstock.client.mqtt.async_client import AsyncMqttClient
    from penstock.client.mqtt.client import MqttClient
    from penstock.client.mqtt.options import MqttOptions
    from penstock.core.errors import PenstockError
    from penstock.embedded.async_database import AsyncDatabase, open_async
    from penstock.embedded.consumer import AsyncConsumer, Consumer
    from penstock.embedded.database import Database, open
    from penstock.embedded.handlers import Reject, Retry
    from penstock.embedded.message import AsyncMessage, Message, MessageBatch, StoredMessage
    from penstock.log.columns import Columns

if sys.platform not in ("linux", "darwin"):
    raise UnsupportedPlatform(f"Penstock runs on Linux, and on macOS for development; this is {sys.platform}")

__all__ = [
    "AsyncConsumer",
    "AsyncDatabase",
    "AsyncMessage",
    "AsyncMqttClient",
    "BrokerOptions",
    "Client",
    "Columns",
    "Consumer",
    "Database",
    "FlightClient",
    "Message",
    "MessageBatch",
    "MqttClient",
    "MqttOptions",
    "PenstockError",
    "Reject",
    "Retry",
    "StoredMessage",
    "__version__",
    "open",
    "open_async",
]

_HOME = {
    "AsyncMqttClient": "client.mqtt.async_client",
    "AsyncConsumer": "embedded.consumer",
    "AsyncDatabase": "embedded.async_database",
    "AsyncMessage": "embedded.message",
    "BrokerOptions": "broker.broker",
    "Client": "client.http.client",
    "Columns": "log.columns",
    "Consumer": "embedded.consumer",
    "Database": "embedded.database",
    "FlightClient": "client.flight.client",
    "Message": "embedded.message",
    "MessageBatch": "embedded.message",
    "MqttClient": "client.mqtt.client",
    "MqttOptions": "client.mqtt.options",
    "PenstockError": "core.errors",
    "Reject": "embedded.handlers",
    "Retry": "embedded.handlers",
    "StoredMessage": "embedded.message",
    "open": "embedded.database",
    "open_async": "embedded.async_database",
}


def __getattr__(name: str) -> object:
    if (home := _HOME.get(name)) is None:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    found: object = getattr(import_module(f"penstock.{home}"), name)
    globals()[name] = found
    return found
