"""Rules applied: rows that hold to all of them go on, others are dropped, end the query, or go to a sink."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.spark.pipelines.declaration import FAIL
from penstock.spark.pipelines.graph import Judged

REFUSED_BY = "rule {} of {} does not hold for a row"
"""what the error of a rule that fails says: its name and place, nothing of the row"""
_RULE = "__rule"
Condition = tuple[Judged, Column]
"""a rule, and what holds for every good row"""


def judge(frame: DataFrame, conditions: Sequence[Condition]) -> tuple[DataFrame, DataFrame]:
    """What goes on, and what was refused, with the name of the first rule that it does not hold to. A condition that
    is null does not hold. Ends the query where a rule says so."""
    verdict = reduce(_with_rule, reversed(conditions), F.lit(None).cast("string"))
    judged = frame.withColumn(_RULE, verdict)
    return judged.where(F.col(_RULE).isNull()).drop(_RULE), judged.where(F.col(_RULE).isNotNull())


def _with_rule(otherwise: Column, condition: Condition) -> Column:
    rule, holds = condition
    is_bad = ~F.coalesce(holds, F.lit(False))
    verdict = F.raise_error(REFUSED_BY.format(rule.name, rule.of)) if rule.otherwise == FAIL else F.lit(rule.name)
    return F.when(is_bad, verdict.cast("string")).otherwise(otherwise)


def dead_letters(refused: DataFrame, sink: str, rules: Iterable[Judged], of: str, row: Column) -> DataFrame:
    """Those that go to a sink: rule, of, row (as JSON, or a malformed value as it is) and when that was."""
    names = [rule.name for rule in rules if rule.sink == sink]
    return refused.where(F.col(_RULE).isin(names)).select(
        F.col(_RULE).alias("rule"),
        F.lit(of).alias("of"),
        row.alias("row"),
        F.current_timestamp().alias("refused_at"),
    )
