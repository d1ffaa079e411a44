"""Collected numbers in the words of OpenTelemetry. Needs the extra `otlp`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from penstock.telemetry.samples import Distribution, Family, Kind, Quantiles, Samples, Series
from penstock.version import VERSION

_UNITS = {"seconds": "s", "bytes": "By"}


def metrics_data(samples: Samples, resource: Mapping[str, str], started_ns: int, now_ns: int) -> MetricsData:
    """Names are those of the text. What is a summary there is a gauge for each quantile here: OpenTelemetry knows
    summaries only as a legacy."""
    times = started_ns, now_ns
    metrics = [_metric(family, found, times) for family, found in samples.items() if found]
    scope = ScopeMetrics(InstrumentationScope("penstock", VERSION), metrics, "")
    return MetricsData([ResourceMetrics(Resource(dict(resource)), [scope], "")])


def _metric(family: Family, found: Series, times: tuple[int, int]) -> Metric:
    return Metric(family.name, family.help, _unit(family.name), _data(family.kind, found, times))


def _data(kind: Kind, found: Series, times: tuple[int, int]) -> Sum | Gauge | HistogramData:
    cumulative = AggregationTemporality.CUMULATIVE
    if kind is Kind.HISTOGRAM:
        return HistogramData(list(_histograms(found, times)), cumulative)
    points = list(_numbers(found, times))
    return Sum(points, cumulative, is_monotonic=True) if kind is Kind.COUNTER else Gauge(points)


def _numbers(found: Series, times: tuple[int, int]) -> Iterator[NumberDataPoint]:
    for labels, value in found:
        if isinstance(value, int | float):
            yield NumberDataPoint(dict(labels.pairs), *times, value)
        elif isinstance(value, Quantiles):
            for quantile, each in value.values:
                if not math.isnan(each):
                    yield NumberDataPoint({**dict(labels.pairs), "quantile": str(quantile)}, *times, each)


def _histograms(found: Series, times: tuple[int, int]) -> Iterator[HistogramDataPoint]:
    for labels, value in found:
        if isinstance(value, Distribution):
            yield HistogramDataPoint(
                dict(labels.pairs),
                *times,
                count=value.count,
                sum=value.total,
                bucket_counts=value.counts,
                explicit_bounds=value.bounds,
                min=None,  # type: ignore[arg-type]  # not known; the field is optional and left out
                max=None,  # type: ignore[arg-type]  # as above
            )


def _unit(name: str) -> str:
    words = name.removesuffix("_total").split("_")
    return next((unit for word, unit in _UNITS.items() if word in words), "1")
