"""The life of a door's process, which the server starts with the descriptors of two sockets."""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from penstock.gateways.beside.lines import CannotStart, Listening
from penstock.gateways.beside.server_intake import ServerIntake
from penstock.gateways.beside.server_line import AnswerT, ServerLine


def serve(line: ServerLine[AnswerT], intake: ServerIntake, begin: Callable[[], int]) -> int:
    """Until the server is gone, however it went. `begin` gives the port that clients can connect to."""
    # Ctrl-C reaches this process too; the server decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        port = begin()
    except Exception as error:
        line.say(CannotStart(f"{type(error).__name__}: {error}"))
        return 1
    threading.Thread(target=_listen, args=[intake], name="penstock-intake", daemon=True).start()
    line.say(Listening(port))
    line.listen()
    return 0


def bound_memory(wanted_bytes: int) -> None:
    """Who sends more than can be held ends this process, which the server starts again, and no other."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = wanted_bytes if hard == resource.RLIM_INFINITY else min(wanted_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def leave(status: int) -> NoReturn:
    """Streams may be in the middle of something, in threads that nothing else would end."""
    sys.stderr.flush()
    os._exit(status)


def _listen(intake: ServerIntake) -> None:
    """Without its answers, everybody who writes would wait for ever: the server starts another process."""
    try:
        intake.listen()
    finally:
        os._exit(1)
