"""What the listener raises, as the client says it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import flight

from penstock.client.errors import ConnectionLost
from penstock.client.flight.problems import FlightRefused, code_of, problem_of
from penstock.core.errors import (
    DiskLow,
    ErrorCode,
    InvalidArgument,
    NoSuchQueue,
    PenstockError,
    PipelineKnown,
    QueueFull,
)
from penstock.gateways.flight.problems import problem_of as raised_for

AROUND = ". Detail: Python exception: x: y\n. gRPC client debug context: UNAVAILABLE:{}. Client context: OK"


@pytest.mark.parametrize(
    ("error", "kind", "is_passing"),
    [
        (QueueFull("orders", 5, 5), flight.FlightUnavailableError, True),
        (DiskLow(1, 2), flight.FlightUnavailableError, True),
        (NoSuchQueue("orders"), pa.ArrowKeyError, False),
        (PipelineKnown("totals", "a", "b"), pa.ArrowInvalid, False),
        (InvalidArgument("partition 9: there are 3"), pa.ArrowInvalid, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PenstockError) else "",
)
def test_a_refusal_crosses_with_code_and_text(error: PenstockError, kind: type[Exception], is_passing: bool) -> None:
    raised = raised_for(error)
    assert isinstance(raised, kind)
    said = str(raised.args[0])
    before = "Flight returned unavailable error, with message: " if kind is flight.FlightUnavailableError else ""
    for text in (said, before + said, before + said + AROUND.format(said)):
        found = problem_of(kind(text))
        assert isinstance(found, FlightRefused)
        assert (found.code, found.reason, found.is_passing) == (error.code, str(error), is_passing)


def test_what_the_network_does_is_a_connection_lost_and_the_rest_a_refusal() -> None:
    lost = problem_of(flight.FlightUnavailableError("Flight returned unavailable error, with message: Socket closed"))
    assert isinstance(lost, ConnectionLost)
    assert str(lost).endswith(": Socket closed")
    refused = problem_of(pa.ArrowInvalid("Tried to write record batch with different schema"))
    assert refused.code is ErrorCode.REFUSED
    assert code_of("of-a-newer-server") is ErrorCode.REFUSED
