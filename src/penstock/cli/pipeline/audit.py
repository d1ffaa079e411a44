"""`penstock pipeline audit`: is everything there, once, in order, and settled as it was?"""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.failures import FAILED
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_table, progress_bar, size_text
from penstock.cli.pipeline.options import Running, data_option, running_options
from penstock.core.errors import LogDamaged
from penstock.jobs.audit import audit_job, damaged_report
from penstock.jobs.findings import AuditReport, Finding, Verdict
from penstock.jobs.job import run


@click.command()
@data_option
@running_options
@output_option("table", "json")
def audit(directory: Path, running: Running, output: str) -> int:
    """Check everything in a data directory and print a verdict; the exit code is 1 unless it is ok.

    Checks checksums and structure of every batch; gaps, duplicates and order of offsets and times; the state of groups
    and producers and the dead letters against the stored messages; committed epochs; and the journal, if no server is
    running on the directory. Offsets removed by retention, compaction, a trim or a crash are not reported. Nothing is
    changed, and a running server is not disturbed.

    \b
    Verdicts:
      ok            no problems found
      inconsistent  no byte is damaged, but records are missing or contradict each other
      damaged       bytes are missing or wrong

    \b
    Examples:
      penstock pipeline audit --data ./data
      penstock pipeline audit --data ./data -o json
      penstock pipeline audit --data ./data --master 'local[*]'
    """
    report = _audited(directory, running)
    if output in DATA_FORMATS:
        print_data(_as_json(report), output)
    else:
        _print(report)
    return 0 if report.verdict is Verdict.OK else FAILED


def _audited(directory: Path, running: Running) -> AuditReport:
    try:
        job = audit_job(directory)
    except LogDamaged as error:
        return damaged_report(directory, error)
    size_bytes = sum(map(job.size, job.pieces))
    with running.runner(size_bytes, len(job.pieces)) as runner, progress_bar("auditing") as advance:
        return run(job, runner, advance)


def _print(report: AuditReport) -> None:
    checked = report.checked
    click.echo(
        f"{report.directory}: {checked.records:,} records in {checked.batches:,} batches, "
        f"{size_text(checked.size_bytes)} in {checked.segments:,} segments of {checked.logs:,} logs; "
        f"{checked.settlements:,} settlements of {checked.groups:,} groups, {checked.producer_calls:,} producer calls, "
        f"{checked.dead_letters:,} dead letters, {checked.journal_frames:,} journal frames"
    )
    if report.findings:
        rows = [(f.kind.value, f.log, f.file, _number(f.offset), f.reason) for f in report.findings]
        print_table(("finding", "log", "file", "offset", "reason"), rows, numbers=("offset",))
        if report.more_findings:
            click.echo(f"and {report.more_findings:,} more")
        for kind, advice in {finding.kind: finding.advice for finding in report.findings}.items():
            click.echo(f"{kind.value}: {advice}")
    click.echo(f"verdict: {report.verdict.value}")


def _number(offset: int) -> str:
    return "" if offset < 0 else str(offset)


def _as_json(report: AuditReport) -> dict[str, object]:
    return {
        "directory": report.directory,
        "state": report.state.value,
        "verdict": report.verdict.value,
        "checked": report.checked,
        "findings": list(map(_finding, report.findings)),
        "more_findings": report.more_findings,
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "kind": finding.kind.value,
        "log": finding.log,
        "file": finding.file,
        "position": None if finding.position < 0 else finding.position,
        "offset": None if finding.offset < 0 else finding.offset,
        "reason": finding.reason,
        "advice": finding.advice,
    }
