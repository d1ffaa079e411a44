"""Processes of Spark that do one task after the other."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from itertools import count

# Set by Spark for those that it uses again: pyspark.daemon, which looks for garbage after every task of theirs.
_REUSED = "SPARK_REUSE_WORKER"
# By then a process has read, written and loaded what it needs for both.
_FIRST_TASKS = 10
_tasks = count(1)


def task_begins() -> None:
    """What is there behind the first tasks and their garbage is modules, which stay and are not to be looked through
    any more: that took 40 ms of a processor, longer than the task of a small micro-batch."""
    if 1 < next(_tasks) <= _FIRST_TASKS and os.environ.get(_REUSED):
        gc.freeze()


class QuietTraceback:
    """The module `traceback` for pyspark.daemon, which prints nothing of a pipe that Spark has closed."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            traceback.print_exc()


def ends_quietly() -> None:
    """In a process in which Spark plans or commits, and in no other. Its daemon is Spark's own, whatever the session
    names: over Unix sockets it prints a traceback when Spark lets go of the process, of a query that failed or after a
    minute without work. Other errors it prints as before."""
    main = sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", None) == "pyspark.daemon":
        setattr(main, "traceback", QuietTraceback)  # noqa: B010  # a name that this module does not know
