"""The doctor's look at the process Penstock would run in: kernels, open files, clock, Java."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

from penstock import kernels as kernel_package
from penstock.cli.doctor.finding import Finding, Verdict
from penstock.cli.output import time_text
from penstock.core.clock import SystemClock
from penstock.core.errors import DirectoryFormat
from penstock.core.types import Compression
from penstock.log import batch as batches
from penstock.log.columns import Columns
from penstock.log.disk import RealDisk
from penstock.log.upkeep.checkpoint import read_checkpoint

_MESSAGES, _MESSAGE_BYTES = 500, 256
_MEASURED_S = 0.1
# What this same check finds where kernels are compiled: x86-64, 2026-11.
_COMPILED_NS = 50
# Segments, journal, maps of readers and, later, sockets share the limit.
_FILES_WANTED = 1024
_JAVA_S = 20.0
_EARLIEST_SANE_MS = 1_700_000_000_000


def kernels() -> Finding:
    is_compiled, cost_ns = kernel_package.compiled(), _nanoseconds_per_message()
    facts: dict[str, object] = {"compiled": is_compiled, "encode_ns_per_message": round(cost_ns)}
    cost = f"{cost_ns:.0f} ns to encode a message of {_MESSAGE_BYTES} bytes"
    if is_compiled:
        return Finding("kernels", Verdict.OK, f"compiled: {cost}", facts)
    text = f"not compiled: {cost}, compiled ones take about {_COMPILED_NS}; install a C compiler, then Penstock again"
    return Finding("kernels", Verdict.WARNING, text, facts)


def open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    facts: dict[str, object] = {"soft": soft, "hard": hard, "wanted": _FILES_WANTED}
    text = f"{soft} may be open, {hard} after `ulimit -n`"
    if soft != resource.RLIM_INFINITY and soft < _FILES_WANTED:
        return Finding("open files", Verdict.WARNING, f"{text}: allow {_FILES_WANTED} at least", facts)
    return Finding("open files", Verdict.OK, text, facts)


def clock(directory: Path) -> Finding:
    """A clock that went back makes new records carry the time of the newest old one until it has caught up."""
    now_ms, newest_ms = SystemClock().now_ms(), _newest_timestamp(directory)
    facts: dict[str, object] = {"now_ms": now_ms, "newest_record_ms": newest_ms}
    if now_ms < _EARLIEST_SANE_MS:
        return Finding("clock", Verdict.PROBLEM, f"says {time_text(now_ms)}, which cannot be: set it", facts)
    if newest_ms > now_ms:
        text = f"says {time_text(now_ms)}, but there is a record of {time_text(newest_ms)}: the clock went back; set it"
        return Finding("clock", Verdict.WARNING, text, facts)
    return Finding("clock", Verdict.OK, f"says {time_text(now_ms)}", facts)


def java() -> Finding:
    """Only Spark jobs need it."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home, "bin"))) if home else None
    program = program or shutil.which("java")
    advice = (
        "only Spark jobs need it: install a JRE of 17 or newer (apt install openjdk-17-jre-headless), set JAVA_HOME"
    )
    if program is None:
        return Finding("java", Verdict.OK, f"not found; {advice}", {"version": None})
    try:
        ran = subprocess.run([program, "-version"], capture_output=True, timeout=_JAVA_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("java", Verdict.WARNING, f"{program} does not run ({error}); {advice}", {"version": None})
    said = (ran.stderr or ran.stdout).decode(errors="replace").splitlines()
    return Finding("java", Verdict.OK, f"{said[0] if said else '?'}: {program}", {"version": said[0] if said else None})


def _newest_timestamp(directory: Path) -> int:
    """Of the records the checkpoint names; 0 if there are none."""
    try:
        checkpoint = read_checkpoint(RealDisk(directory)) if directory.is_dir() else None
    except DirectoryFormat:
        return 0  # damaged, as the look at the directory says
    if checkpoint is None:
        return 0
    active = [state.active for state in checkpoint.logs if state.active is not None]
    sealed = [info for state in checkpoint.logs for info in state.sealed]
    return max((info.max_timestamp for info in [*active, *sealed]), default=0)


def _nanoseconds_per_message() -> float:
    columns = Columns.of([bytes(_MESSAGE_BYTES)] * _MESSAGES)
    rounds, begun = 0, time.perf_counter_ns()
    while (taken_ns := time.perf_counter_ns() - begun) < _MEASURED_S * 1e9:
        batches.seal(batches.encode(columns, Compression.NONE), 0, 0, 0)
        rounds += 1
    return taken_ns / (rounds * _MESSAGES)
