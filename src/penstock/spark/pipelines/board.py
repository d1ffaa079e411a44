"""What happens in a pipeline, as log lines."""

from __future__ import annotations

import logging

from penstock.spark.pipelines.failures import FailureKind
from penstock.spark.pipelines.progress import Progress

LOG = logging.getLogger("penstock.pipeline")


class LogBoard:
    """An event a line; a micro-batch without rows is none."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline

    def started(self, sink: str) -> None:
        LOG.info("sink started pipeline=%s sink=%s", self._pipeline, sink)

    def progressed(self, progress: Progress) -> None:
        if progress.rows:
            LOG.info(
                "micro-batch written pipeline=%s sink=%s batch=%d rows=%d rows_per_s=%.0f batch_ms=%d lag=%d lags=%s",
                self._pipeline,
                progress.sink,
                progress.batch,
                progress.rows,
                progress.rows_per_s,
                progress.batch_ms,
                progress.lag,
                ",".join(f"{queue}:{lag}" for queue, lag in progress.lags.items()),
            )

    def failed(self, sink: str, kind: FailureKind, reason: str, pause_s: float | None) -> None:
        then = "none" if pause_s is None else f"{pause_s:g}s"
        LOG.warning(
            "sink failed pipeline=%s sink=%s kind=%s retry_in=%s reason=%s", self._pipeline, sink, kind, then, reason
        )

    def ended(self, sink: str) -> None:
        LOG.info("sink ended pipeline=%s sink=%s", self._pipeline, sink)
