"""`penstock pipeline check` and `penstock pipeline plan`: a declared pipeline looked at, not started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.output import DATA_FORMATS, output_option, print_data
from penstock.cli.pipeline.file import BAD_PIPELINE, checked, file_argument, has_spark, need_spark, telling_problems

if TYPE_CHECKING:
    from penstock.spark.pipelines.checks import BadParts
    from penstock.spark.pipelines.document import Document
    from penstock.spark.pipelines.problems import BadPipeline, Problem


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path), required=False)
@click.option(
    "--spark/--no-spark", "with_spark", default=None, help="Also check with Spark.  [default: if Spark is installed]"
)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of pipeline files, for editors, and exit.")
@output_option("text", "json")
@telling_problems
def check(file: Path | None, with_spark: bool | None, schema: bool, output: str) -> int:
    """Check a declared pipeline: keys, values, names and cycles, and with Spark also queries, columns and types.

    All errors are reported at once, with line and column. Nothing is started and no data is read. Exit codes: 0 if
    there are no errors, 2 otherwise.

    \b
    Examples:
      penstock pipeline check devices.yaml
      penstock pipeline check devices.yaml --no-spark
      penstock pipeline check devices.yaml -o json
      penstock pipeline check --schema > pipeline.schema.json
    """
    if schema:
        from penstock.spark.pipelines.json_schema import pipeline_schema

        print_data(pipeline_schema(), "json" if output == "text" else output)
        return 0
    if file is None:
        raise click.UsageError("give FILE: the declaration, YAML or Python")
    return _check_as_data(file, with_spark, output) if output in DATA_FORMATS else _check_as_text(file, with_spark)


def _check_as_text(file: Path, with_spark: bool | None) -> int:
    document, oddities, is_whole = _checked(file, with_spark)
    for line in oddities:
        click.echo(f"penstock: warning: {file}: {line}", err=True)
    pipeline = document.pipeline
    counts = f"sources {len(pipeline.sources)}, steps {len(pipeline.steps)}, sinks {len(pipeline.sinks)}"
    click.echo(
        f"{file}: {pipeline.name} is well declared: {counts}{'' if is_whole else '; Spark has not looked at it'}"
    )
    return 0


def _check_as_data(file: Path, with_spark: bool | None, output: str) -> int:
    from penstock.spark.pipelines.problems import BadPipeline

    try:
        _, oddities, is_whole = _checked(file, with_spark)
    except BadPipeline as error:
        print_data({"file": str(file), "is_good": False, "problems": _problems(error)}, output)
        return BAD_PIPELINE
    facts = {"file": str(file), "is_good": True, "problems": [], "warnings": oddities, "is_checked_by_spark": is_whole}
    print_data(facts, output)
    return 0


def _checked(file: Path, with_spark: bool | None) -> tuple[Document, list[str], bool]:
    from penstock.spark.pipelines.checks import BadParts
    from penstock.spark.pipelines.problems import BadPipeline

    try:
        document, oddities = checked(file)
    except BadParts as error:
        raise BadPipeline(error.file, [*error.problems, *_more_by_spark(error, with_spark)]) from None
    is_whole = has_spark(_is_remote(document)) if with_spark is None else with_spark
    if is_whole:
        need_spark()
        from penstock.spark.pipelines.session_check import check_with_spark

        check_with_spark(document)
    return document, oddities, is_whole


def _more_by_spark(error: BadParts, with_spark: bool | None) -> list[Problem]:
    """What is wrong is told without Spark too, even to those who asked for it."""
    if with_spark is False or not has_spark(_is_remote(error.document)):
        return []
    from penstock.spark.pipelines.session_check import more_with_spark

    return list(more_with_spark(error))


def _is_remote(document: Document) -> bool:
    return document.pipeline.spark.remote is not None


def _problems(error: BadPipeline) -> list[dict[str, object]]:
    return [
        {
            "line": problem.mark.line if problem.mark else None,
            "column": problem.mark.column if problem.mark else None,
            "path": problem.path,
            "reason": problem.reason,
            "nearest": problem.nearest,
        }
        for problem in error.problems
    ]


@click.command()
@file_argument
@output_option("text", "json")
@telling_problems
def plan(file: Path, output: str) -> int:
    """Show what a declared pipeline would do: sources, steps in order, rules, sinks and their checkpoints.

    Nothing is started, and Spark is not needed.

    \b
    Examples:
      penstock pipeline plan devices.yaml
      penstock pipeline plan devices.yaml -o json
    """
    from penstock.spark.pipelines.plan import plan_lines, plan_of

    document, _ = checked(file)
    if output in DATA_FORMATS:
        print_data(plan_of(document), output)
    else:
        for line in plan_lines(document):
            click.echo(line)
    return 0
