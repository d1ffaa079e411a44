"""The client that speaks Arrow Flight: queues as tables, read and written by the batch."""

from penstock.client.flight.client import FlightClient
from penstock.client.flight.problems import FlightRefused
from penstock.client.flight.reading import Rows
from penstock.client.flight.values import Committed, CommittedPlace, Partition, PartitionRange, Placed, StagedRange
from penstock.client.flight.writing import Stager

__all__ = [
    "Committed",
    "CommittedPlace",
    "FlightClient",
    "FlightRefused",
    "Partition",
    "PartitionRange",
    "Placed",
    "Rows",
    "StagedRange",
    "Stager",
]
