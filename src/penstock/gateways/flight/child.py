"""The process of the Flight listener: `python -m penstock.gateways.flight.child LINE INTAKE`, started by the server
with the descriptors of two sockets."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
import threading

from penstock.gateways.flight.asking import ServerLine
from penstock.gateways.flight.messages import CannotStart, Listening, Options
from penstock.gateways.flight.sending import ServerIntake

# gRPC takes a request of any size before anybody has looked at it. Threads and libraries reserve some of the first.
_OWN_BYTES, _STREAM_BYTES = 1 << 30, 64 << 20


def main(line_descriptor: int, intake_descriptor: int) -> int:
    """Until the server is gone, however it went."""
    # Ctrl-C reaches this process too; the server decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Flight sends the traceback of an error to the client, who has no use for places in this machine's files.
    sys.tracebacklimit = 0
    line = ServerLine(socket.socket(fileno=line_descriptor))
    intake = ServerIntake(socket.socket(fileno=intake_descriptor))
    try:
        from penstock.gateways.flight.service import FlightService

        options = line.options()
        service = FlightService(options, line, intake)
        _bound_memory(options)
    except Exception as error:
        line.say(CannotStart(f"{type(error).__name__}: {error}"))
        return 1
    threading.Thread(target=intake.listen, name="penstock-flight-intake", daemon=True).start()
    line.say(Listening(service.port))
    line.listen()
    return 0


def _bound_memory(options: Options) -> None:
    """Who sends more than can be held ends this process, which the server starts again, and no other."""
    wanted = _OWN_BYTES + options.max_streams * _STREAM_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


if __name__ == "__main__":
    status = main(*map(int, sys.argv[1:3]))
    sys.stderr.flush()
    # Streams may be in the middle of a batch, in threads that nothing else would end.
    os._exit(status)
