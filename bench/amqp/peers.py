"""Penstock and RabbitMQ as AMQP 0.9.1 meets them, both as by default: what is confirmed is on the disk."""

from __future__ import annotations

from pathlib import Path

from bench.mqtt.peers import Broker, serve_penstock


def start_penstock(directory: Path) -> Broker:
    server, addresses = serve_penstock(directory, "{}", "amqp", "mqtt")
    return Broker("Penstock", addresses["amqp"], server, http=addresses["mqtt"])
