"""Results for people, a line a number, and for programs, as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import Comparison, Series, Spread, Unit
from bench.place import FileSystem
from penstock import kernels
from penstock.log.threads import SWITCH_INTERVAL_S
from penstock.version import VERSION

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def number_text(value: float, unit: Unit) -> str:
    """Three digits and the unit that suits them."""
    if unit is Unit.COUNT:
        return f"{value:,.0f}"
    steps = _TIMES if unit is Unit.SECONDS else _SIZES
    scale, name = next((step for step in steps if abs(value) >= step[0]), steps[-1])
    return f"{value / scale:.3g} {name}" if abs(value) < 999.5 * scale else f"{value / scale:.0f} {name}"


def comparison_lines(comparison: Comparison) -> list[str]:
    lines = [_series_line(comparison.subject, "  ")]
    if comparison.baseline is not None:
        lines.append(_series_line(comparison.baseline, "    against "))
    if (ratio := comparison.ratio) is not None:
        lines.append(_ratio_line(comparison, ratio))
    lines += [f"      {name}: {text}" for name, text in comparison.notes.items()]
    return lines


def _series_line(series: Series, indent: str) -> str:
    spread = series.spread
    low, high = number_text(spread.low, series.unit), number_text(spread.high, series.unit)
    line = f"{indent + series.name:<62}{number_text(spread.median, series.unit):>9}  ({low} - {high})"
    if not series.bytes:
        return line
    rate = f", {number_text(series.bytes / spread.median, Unit.BYTES)}/s" if series.unit is Unit.SECONDS else ""
    return f"{line}  {number_text(series.bytes, Unit.BYTES)}{rate}"


def _ratio_line(comparison: Comparison, ratio: Spread) -> str:
    name = f"    ratio of {comparison.kind.value}"
    line = f"{name:<62}{ratio.median:>9.3g}  ({ratio.low:.3g} - {ratio.high:.3g})"
    if comparison.target is None:
        return line
    verdict = "met" if comparison.is_met else "MISSED"
    return f"{line}  target {comparison.target.bound} {comparison.target.value:g}: {verdict}"


def conditions(file_system: FileSystem, quick: bool) -> dict[str, object]:
    """What a number means nothing without."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "penstock": VERSION,
        "python": platform.python_version(),
        "kernels": "compiled" if kernels.compiled() else "uncompiled",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "file_system": asdict(file_system),
        "switch_interval_s": SWITCH_INTERVAL_S,
        "quick": quick,
        "command": " ".join(["python", "-m", "bench", *sys.argv[1:]]),
    }


def condition_lines(found: dict[str, object], file_system: FileSystem) -> list[str]:
    size = "a quick run: sizes of 1 %, ratios mean little" if found["quick"] else "a full run"
    return [
        f"penstock {found['penstock']}, Python {found['python']}, kernels {found['kernels']}, {found['system']}, "
        f"{found['processors']} processors, load {found['load_average']:.2f}",
        f"file system {file_system.kind} ({file_system.device} on {file_system.mount}); "
        f"sys.setswitchinterval({found['switch_interval_s']}); {size}",
        "median of 5 rounds (lowest - highest), subject and baseline in turn",
    ]


def as_json(comparison: Comparison) -> dict[str, object]:
    ratio, baseline = comparison.ratio, comparison.baseline
    return {
        "subject": _series_json(comparison.subject),
        "baseline": None if baseline is None else _series_json(baseline),
        "ratio_kind": comparison.kind.value,
        "ratio": None if ratio is None else asdict(ratio),
        "target": None if comparison.target is None else asdict(comparison.target),
        "met": comparison.is_met,
        "notes": dict(comparison.notes),
    }


def _series_json(series: Series) -> dict[str, object]:
    return {
        "name": series.name,
        "unit": series.unit.value,
        "bytes": series.bytes,
        "samples": list(series.samples),
        **asdict(series.spread),
    }


def write_json(
    path: Path, found: dict[str, object], results: dict[str, Sequence[Comparison]], failures: dict[str, str]
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    benchmarks = {name: [as_json(comparison) for comparison in results[name]] for name in results}
    path.write_text(json.dumps({"conditions": found, "benchmarks": benchmarks, "failures": failures}, indent=1) + "\n")
