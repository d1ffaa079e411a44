"""Prometheus' own tool reads the page of metrics and the alerts of docs/howto/metrics.md."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.e2e.conftest import not_tested
from tests.support.broker import stage
from tests.support.metrics import sources_of
from tests.support.servers import INSTALL_HINT

from penstock.telemetry.exposition import exposition
from penstock.telemetry.sources import MetricOptions

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "metrics.md"
_ALERTS = re.compile(r"^```yaml\n(groups:\n.*?)^```", re.MULTILINE | re.DOTALL)


def promtool(*arguments: str, given: bytes = b"") -> None:
    command = shutil.which("promtool")
    if command is None:
        not_tested("promtool", f"it is not installed: {INSTALL_HINT}")
    done = subprocess.run([command, *arguments], input=given, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b""), (done.stdout, done.stderr)


async def page_of(directory: Path, options: MetricOptions) -> bytes:
    """Of a broker with queues in two namespaces, some beyond the limit, and names that only clients would choose."""
    async with stage(directory) as made, sources_of(made) as sources:
        for name in ('say "hello"', "back\\slash", "schön", "q4", "q5"):
            for namespace in ("default", "tenant"):
                queue = await made.queue(name, 2, namespace=namespace)
                await made.put(queue, b"m", keys=[b"k"])
                await made.receive(await made.consumer(queue, "g"))
        return await exposition(sources, options)


@pytest.mark.parametrize("options", [MetricOptions(max_queues=6), MetricOptions(partitions=True, max_partitions=5)])
def test_promtool_finds_nothing_to_say_about_the_metrics(tmp_path: Path, options: MetricOptions) -> None:
    promtool("check", "metrics", given=asyncio.run(page_of(tmp_path, options)))


def test_promtool_takes_the_alerts_of_the_page(tmp_path: Path) -> None:
    [alerts] = _ALERTS.findall(PAGE.read_text(encoding="utf-8"))
    rules = tmp_path / "alerts.yaml"
    rules.write_text(alerts)
    promtool("check", "rules", str(rules))
