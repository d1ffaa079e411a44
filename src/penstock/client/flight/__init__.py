"""The client that speaks Arrow Flight: queues as tables, read and written by the batch."""

from penstock.client.flight.client import FlightClient
from penstock.client.flight.problems import FlightRefused
from penstock.client.flight.reading import Rows
from penstock.client.flight.values import Partition

__all__ = ["FlightClient", "FlightRefused", "Partition", "Rows"]
