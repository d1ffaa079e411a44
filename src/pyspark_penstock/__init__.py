"""Spark looks for modules named so and registers their DefaultSource: `format("penstock")` needs nothing else."""

from penstock.spark.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
