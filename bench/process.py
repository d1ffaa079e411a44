"""This process as the system sees it, and calls in a process of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from penstock.log.threads import SWITCH_INTERVAL_S

P = ParamSpec("P")
T = TypeVar("T")


class BenchmarkFailed(Exception):
    """A benchmark broke, which is not the same as a target missed."""


def resident_bytes() -> int:
    return _status_kib("VmRSS:") << 10


def peak_resident_bytes() -> int:
    return _status_kib("VmHWM:") << 10


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _status_kib(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise BenchmarkFailed(f"the system does not tell {field.rstrip(':')} of a process")


def isolated(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of the call, made in a fresh interpreter: its memory, threads and kernels are its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_report, args=(sender, call, args, kwargs))
    child.start()
    sender.close()
    try:
        outcome: T | _Failure = receiver.recv()
    except EOFError:
        child.join()
        raise BenchmarkFailed(f"the process ended with {child.exitcode}") from None
    child.join()
    if isinstance(outcome, _Failure):
        raise BenchmarkFailed(outcome.text)
    return outcome


def killed_after(
    call: Callable[Concatenate[Connection, P], None], *args: P.args, **kwargs: P.kwargs
) -> tuple[float, ...]:
    """What the call sent before it killed its own process with SIGKILL."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=call, args=(sender, *args), kwargs=kwargs)
    child.start()
    sender.close()
    try:
        result: tuple[float, ...] = receiver.recv()
    except EOFError:
        result = ()
    child.join()
    if child.exitcode != -signal.SIGKILL:
        raise BenchmarkFailed(f"a process that was to kill itself ended with {child.exitcode}")
    return result


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """For processes started inside."""
    old = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in old.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Failure:
    def __init__(self, text: str) -> None:
        self.text = text


def _report(
    sender: Connection, call: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        sender.send(call(*args, **kwargs))
    except BaseException:
        sender.send(_Failure(traceback.format_exc()))
        raise SystemExit(1) from None
