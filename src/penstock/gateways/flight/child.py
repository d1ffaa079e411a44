"""The process of the Flight listener: `python -m penstock.gateways.flight.child DESCRIPTOR`, started by the server."""

from __future__ import annotations

import os
import signal
import socket
import sys

from penstock.gateways.flight.asking import ServerLine
from penstock.gateways.flight.messages import CannotStart, Listening


def main(descriptor: int) -> int:
    """Until the server is gone, however it went."""
    # Ctrl-C reaches this process too; the server decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Flight sends the traceback of an error to the client, who has no use for places in this machine's files.
    sys.tracebacklimit = 0
    line = ServerLine(socket.socket(fileno=descriptor))
    try:
        from penstock.gateways.flight.service import FlightService

        service = FlightService(line.options(), line)
    except Exception as error:
        line.say(CannotStart(f"{type(error).__name__}: {error}"))
        return 1
    line.say(Listening(service.port))
    line.listen()
    return 0


if __name__ == "__main__":
    status = main(int(sys.argv[1]))
    sys.stderr.flush()
    # Streams may be in the middle of a batch, in threads that nothing else would end.
    os._exit(status)
