"""Connections to servers that outlive a task: Spark's workers do one task after the other."""

from __future__ import annotations

import os
from functools import lru_cache

from penstock.client.flight import FlightClient
from penstock.spark.address import ServerAddress

# One for each server that queries of this process read from and write to.
_KEPT = 8


def connection(server: ServerAddress) -> FlightClient:
    """The client of this process, which all share and nobody closes. It finds a server again that was away."""
    return _connection(server, os.getpid())


@lru_cache(_KEPT)
def _connection(server: ServerAddress, pid: int) -> FlightClient:
    """A client does not survive a fork."""
    return server.connect()
