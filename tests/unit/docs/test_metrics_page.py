"""docs/howto/metrics.md names every family that there is, as it is."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.core.metrics import LATENCY_BOUNDS_S
from penstock.telemetry.families import FAMILIES
from penstock.telemetry.quantiles import QUANTILES
from penstock.telemetry.samples import Family
from penstock.telemetry.sources import MetricOptions

PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "metrics.md").read_text(encoding="utf-8")


def row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind.value} | {labels} | {family.help} |"


def test_the_table_is_that_of_the_code() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| `(penstock|mqtt)_", line)]
    assert rows == [row(family) for family in FAMILIES], "\n" + "\n".join(row(family) for family in FAMILIES)


def test_no_family_is_there_twice() -> None:
    names = [family.name for family in FAMILIES]
    assert len(names) == len(set(names))


def test_alerts_ask_for_families_that_there_are() -> None:
    known = {family.name for family in FAMILIES}
    asked = re.findall(r"\b(?:penstock|mqtt)_[a-z_]+", "\n".join(re.findall(r"expr: (.*)", PAGE)))
    assert asked
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} <= known


def test_limits_and_bounds_are_those_of_the_code() -> None:
    options = MetricOptions()
    assert f"the first {options.max_queues:,} queues" in PAGE
    assert f"the first {options.max_groups:,} groups" in PAGE
    assert f"{options.max_partitions:,} of them" in PAGE
    assert ", ".join(f"{bound:g}" for bound in LATENCY_BOUNDS_S) in PAGE
    assert ", ".join(map(str, QUANTILES)) in PAGE
