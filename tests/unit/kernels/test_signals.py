"""Holding handlers back. The main thread runs the tests, and it is the one that has handlers."""

from __future__ import annotations

import _thread
import ctypes
import os
import signal
import threading
from collections.abc import Iterator

import pytest

signals = pytest.importorskip("penstock.kernels._signals")

from penstock.kernels._signals import HeldSignals  # noqa: E402  # compiled, or all of this is skipped


class Enough(Exception):
    pass


def raise_enough(*_: object) -> None:
    raise Enough


@pytest.fixture
def held() -> HeldSignals:
    return HeldSignals(threading.main_thread().ident or 0)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = [(number, signal.signal(number, raise_enough)) for number in (signal.SIGUSR1, signal.SIGINT)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


def spin() -> int:
    """Enough instructions for a handler that is due to run."""
    return sum(number for number in range(1000))


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGINT])
def test_a_handler_runs_after_the_block_and_what_it_raises_is_raised_there(
    held: HeldSignals, number: signal.Signals
) -> None:
    is_whole = False
    with pytest.raises(Enough), held:
        os.kill(os.getpid(), number)
        spin()
        is_whole = True
    assert is_whole
    assert signal.getsignal(number) is raise_enough


def test_an_interrupt_that_is_only_simulated_waits_too(held: HeldSignals) -> None:
    is_whole = False
    with pytest.raises(Enough), held:
        _thread.interrupt_main()
        spin()
        is_whole = True
    assert is_whole


def test_nested_blocks_end_with_the_outermost(held: HeldSignals) -> None:
    inner_is_over = False
    with pytest.raises(Enough), held:
        with held:
            signal.raise_signal(signal.SIGUSR1)
        inner_is_over = spin() > 0
    assert inner_is_over


def test_every_signal_is_answered_once_although_a_handler_raises(held: HeldSignals) -> None:
    seen: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    with pytest.raises(Enough), held:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGUSR1)
        spin()
        assert not seen
    assert seen == [signal.SIGUSR1]
    signal.raise_signal(signal.SIGUSR1)
    assert seen == [signal.SIGUSR1] * 2


def test_what_is_ignored_stays_ignored_and_flags_stay_as_they_were(held: HeldSignals) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.siginterrupt(signal.SIGINT, False)
    with held:
        signal.raise_signal(signal.SIGUSR1)
        spin()
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    restarts = 0x10000000  # SA_RESTART, where the kernel shows it
    assert _flags_of(signal.SIGINT) & restarts


def _flags_of(number: int) -> int:
    """As the system has them: Python does not tell."""
    buffer = ctypes.create_string_buffer(256)
    assert ctypes.CDLL(None).sigaction(number, None, buffer) == 0
    # struct sigaction of glibc on 64 bits: handler, mask of 128 bytes, flags.
    return int.from_bytes(buffer.raw[136:140], "little")


def test_in_other_threads_nothing_is_held(held: HeldSignals) -> None:
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with held:
            entered.set()
            leave.wait()

    thread = threading.Thread(target=stay)
    thread.start()
    entered.wait()
    with pytest.raises(Enough):
        signal.raise_signal(signal.SIGUSR1)
        spin()
    leave.set()
    thread.join()


def test_the_child_of_a_fork_inside_a_block_has_its_handlers(held: HeldSignals) -> None:
    reading, writing = os.pipe()
    with held:
        child = os.fork()
        if child == 0:
            held.begin_anew()
            told = b"held"
            try:
                signal.raise_signal(signal.SIGUSR1)
                spin()
            except Enough:
                told = b"free"
            os.write(writing, told)
            os._exit(0)
    os.close(writing)
    assert os.read(reading, 10) == b"free"
    os.close(reading)
    assert os.waitpid(child, 0)[1] == 0
