"""The process of the Flight listener: `python -m penstock.gateways.flight.child LINE INTAKE`."""

from __future__ import annotations

import socket
import sys

from penstock.gateways.beside.child import bound_memory, leave, serve
from penstock.gateways.beside.server_intake import ServerIntake
from penstock.gateways.flight.messages import Options
from penstock.gateways.flight.questions import FlightLine

# gRPC takes a request of any size before anybody has looked at it. Threads and libraries reserve some of the first.
_OWN_BYTES, _STREAM_BYTES = 1 << 30, 64 << 20


def main(line_descriptor: int, intake_descriptor: int) -> int:
    # Flight sends the traceback of an error to the client, who has no use for places in this machine's files.
    sys.tracebacklimit = 0
    line = FlightLine(socket.socket(fileno=line_descriptor))
    intake = ServerIntake(socket.socket(fileno=intake_descriptor))

    def begin() -> int:
        from penstock.gateways.flight.service import FlightService

        options = line.options(Options)
        service = FlightService(options, line, intake)
        bound_memory(_OWN_BYTES + options.max_streams * _STREAM_BYTES)
        return int(service.port)

    return serve(line, intake, begin)


if __name__ == "__main__":
    leave(main(*map(int, sys.argv[1:3])))
