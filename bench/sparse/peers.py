"""Penstock as a user starts it, with queues that come to be when they are written to, as by default; only without a
depth limit, which a round would reach."""

from __future__ import annotations

import json
from pathlib import Path

from bench.mqtt.peers import Broker, certificate, serve_penstock

_NO_DEPTH_LIMIT = {"templates": [{"match": "*", "settings": {"limits": {"max_queue_depth": 0}}}]}


def start_penstock(directory: Path) -> Broker:
    return _penstock(directory, "mqtt", {})


def start_tls_penstock(directory: Path) -> Broker:
    file = str(certificate(directory))
    return _penstock(directory, "mqtts", {"mqtts": {"port": 0, "tls": {"certificate": file, "key": file}}})


def _penstock(directory: Path, listener: str, listeners: dict[str, object]) -> Broker:
    """JSON is YAML."""
    settings = json.dumps({"broker": _NO_DEPTH_LIMIT, "listeners": listeners})
    server, addresses = serve_penstock(directory, settings, listener, "http")
    return Broker("Penstock", addresses[listener], server, http=addresses["http"])
