"""The client that speaks Arrow Flight: queues as tables, read and written by the batch."""

from penstock.client.flight.client import FlightClient
from penstock.client.flight.problems import FlightRefused
from penstock.client.flight.put_stream import Stager
from penstock.client.flight.rows import Rows
from penstock.client.flight.values import Committed, CommittedPlace, Partition, PartitionRange, Placed, StagedRange

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
