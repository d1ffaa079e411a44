"""Penstock with a door for HTTP, and the handler that it is held against."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.http import bare
from bench.mqtt.mqtt_speech import QUEUE
from bench.mqtt.peers import Broker, serve_penstock
from bench.mqtt.servers import HOST, Server, accepts, free_port

LIVE_QUEUE = "live"
"""one partition, so that the ids of its events go up by one"""
_PENSTOCK = f"""
queues:
  - name: {QUEUE}
    topics: ["bench/#"]
    partitions: 10
    limits: {{max_queue_depth: 0}}
  - name: {LIVE_QUEUE}
    partitions: 1
    limits: {{max_queue_depth: 0}}
"""


def start_penstock(directory: Path) -> Broker:
    """Its address is that of HTTP."""
    server, addresses = serve_penstock(directory, _PENSTOCK, "http")
    return Broker("Penstock", addresses["http"], server)


def start_with_mqtt(directory: Path) -> tuple[Broker, tuple[str, int]]:
    """A broker for MQTT, and the address of its HTTP."""
    server, addresses = serve_penstock(directory, _PENSTOCK, "mqtt", "http")
    return Broker("Penstock", addresses["mqtt"], server), addresses["http"]


def start_bare(directory: Path) -> Broker:
    """-P: the modules beside the program are none of its own."""
    port = free_port()
    server = Server("Starlette", [sys.executable, "-P", str(bare.__file__), str(port)], directory)
    server.wait(accepts(port))
    return Broker("Starlette", (HOST, port), server)
