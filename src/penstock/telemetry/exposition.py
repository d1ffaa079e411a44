"""All numbers at once: collected, and written as text."""

from __future__ import annotations

from penstock.telemetry.breather import Breather
from penstock.telemetry.families import FAMILIES
from penstock.telemetry.process import collect_process
from penstock.telemetry.queues import QueueNumbers
from penstock.telemetry.samples import Samples, Series
from penstock.telemetry.sources import MetricOptions, MetricSources
from penstock.telemetry.text import write


async def exposition(sources: MetricSources, options: MetricOptions) -> bytes:
    """The answer to a scrape, as text.CONTENT_TYPE. Others have their turn meanwhile, so numbers of different queues
    may be some ms apart."""
    async with sources.memory.collecting:
        return await write(await _collect(sources, options), Breather())


async def collect(sources: MetricSources, options: MetricOptions) -> Samples:
    """The same, for whoever sends them in another form."""
    async with sources.memory.collecting:
        return await _collect(sources, options)


async def _collect(sources: MetricSources, options: MetricOptions) -> Samples:
    out: Samples = {family: Series() for family in FAMILIES}
    sources.memory.ages.begin()
    if options.server:
        collect_process(sources, out)
    await QueueNumbers(sources, options, out, Breather()).collect()
    return out
