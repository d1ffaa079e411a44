"""pyspark.daemon, whose workers end without a word when Spark has let go of them.

Spark closes the socket of a worker that it does not need any more; over Unix sockets the last flush of the worker then
fails, which pyspark.daemon prints as an error. session_builder() names this module for sessions on this machine."""

from __future__ import annotations

import builtins
import socket
from collections.abc import Callable

from pyspark import daemon

Worker = Callable[[socket.socket, bool], int]
# A worker that returns 0 is asked for its next task, which one whose socket is closed would fail at for ever.
_ENDS = 1


def quiet(worker: Worker) -> Worker:
    def run(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except BrokenPipeError:
            return _ENDS

    return run


def say(*words: object, **options: object) -> None:
    """print() for pyspark.daemon, but for what means nothing."""
    if not any("BrokenPipeError" in str(word) for word in words):
        builtins.print(*words, **options)  # type: ignore[call-overload]  # as it was called


def main() -> None:
    daemon.worker = quiet(daemon.worker)  # type: ignore[assignment]  # called as the other one
    setattr(daemon, "print", say)  # noqa: B010  # a name of the module hides the builtin
    daemon.manager()


if __name__ == "__main__":
    main()
