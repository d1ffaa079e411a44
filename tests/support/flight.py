"""Short words for tests that read queues over Arrow Flight."""

from __future__ import annotations

import json
import time

import pyarrow as pa
from pyarrow import flight

_PATIENCE_S = 20.0


def descriptor(queue: str, **wanted: object) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(json.dumps({"queue": queue, **wanted}).encode())


def ticket(queue: str, **wanted: object) -> flight.Ticket:
    asked = {"queue": queue, "namespace": "default", "partition": 0, "start": 0, "stop": 0, **wanted}
    return flight.Ticket(json.dumps(asked).encode())


def read(
    client: flight.FlightClient, queue: str, options: flight.FlightCallOptions | None = None, **wanted: object
) -> pa.Table:
    """All partitions, one after the other."""
    info = client.get_flight_info(descriptor(queue, **wanted), options)
    tables = [client.do_get(endpoint.ticket, options).read_all() for endpoint in info.endpoints]
    return pa.concat_tables(tables)


def wait_for_rows(
    client: flight.FlightClient, queue: str, count: int, options: flight.FlightCallOptions | None = None
) -> None:
    """What was acknowledged is in the files, and so in a table, a moment later; a queue that was declared too."""
    end = time.monotonic() + _PATIENCE_S
    while not _has_rows(client, queue, count, options):
        assert time.monotonic() < end, f"less than {count} rows"
        time.sleep(0.02)


def _has_rows(client: flight.FlightClient, queue: str, count: int, options: flight.FlightCallOptions | None) -> bool:
    try:
        found: int = read(client, queue, options, columns=["offset"]).num_rows
    except pa.ArrowKeyError:
        return False
    return found >= count


def bearer(token: str) -> flight.FlightCallOptions:
    return flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])
