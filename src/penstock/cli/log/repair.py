"""`penstock log repair`: look first, then mend, and keep what is taken out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from penstock.cli.arguments import directory_argument, log_option
from penstock.cli.directory import DataDirectory
from penstock.cli.failures import FAILED
from penstock.cli.output import DATA_FORMATS, output_option, print_data
from penstock.core.errors import JournalDamaged
from penstock.core.types import LogName
from penstock.log.disk import RealDisk
from penstock.log.offline.repair import RepairMethod, RepairPlan, RepairReport, apply_repair, plan_repair

# Least loss first: the order in which the ways are shown when none is named.
METHODS: tuple[RepairMethod, ...] = ("rebuild", "skip", "cut")


@click.command()
@directory_argument
@log_option("Only this log.  [default: every log]")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    help="rebuild: restore damaged data from the journal or from data kept aside. skip: leave damaged batches "
    "out and keep the rest. cut: end the log before the damage.",
)
@click.option("--journal", is_flag=True, help="Repair the journal: drop the frames that cannot be read.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@output_option()
def repair(
    directory: Path,
    name: LogName | None,
    method: RepairMethod | None,
    journal: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> int:
    """Repair a damaged data directory that no process has open.

    Without --method or --journal, the command shows what each method would do and changes nothing. Otherwise it shows
    what it is going to do and asks for confirmation; without a terminal it needs --yes. Removed data is kept in
    DIR/aside. A log that was cut continues 2^32 offsets further on, so that no offset ever refers to two messages.

    The exit code is 1 if there is damage left that the method cannot repair.

    \b
    Examples:
      penstock log repair ./data
      penstock log repair ./data --log numbers --method skip --dry-run
      penstock log repair ./data --log numbers --method cut --yes
      penstock log repair ./data --journal --yes
    """
    if method is not None and journal:
        raise click.UsageError("--method repairs logs and --journal repairs the journal: give one of them")
    if journal and name is not None:
        raise click.UsageError("the journal is shared by all logs: leave --log out")
    disk = RealDisk(DataDirectory.at(directory).path)
    chosen: RepairMethod | None = "journal" if journal else method
    if chosen is None:
        return _show_ways(disk, name, output)
    return _mend(disk, plan_repair(disk, name, chosen), dry_run, yes, output)


def _show_ways(disk: RealDisk, name: LogName | None, output: str) -> int:
    try:
        plans = [plan_repair(disk, name, method) for method in METHODS]
    except JournalDamaged:
        plans = [plan_repair(disk, None, "journal")]
    if output in DATA_FORMATS:
        print_data({"plans": [_plan_json(plan) for plan in plans]}, output)
    elif not any(plan.findings for plan in plans):
        click.echo("nothing to repair")
    else:
        _print_lines("found:", plans[0].findings)
        for plan in plans:
            _print_actions(plan)
        click.echo("Nothing was changed: choose a method.")
    return 0


def _mend(disk: RealDisk, plan: RepairPlan, dry_run: bool, yes: bool, output: str) -> int:
    if output not in DATA_FORMATS:
        _print_plan(plan)
    is_wanted = bool(plan.actions) and not dry_run and (yes or _is_confirmed())
    report = apply_repair(disk, plan) if is_wanted else None
    if output in DATA_FORMATS:
        print_data(_plan_json(plan) | {"applied": report is not None, "aside": report.aside if report else ()}, output)
    else:
        _print_outcome(plan, report)
    return FAILED if plan.left else 0


def _is_confirmed() -> bool:
    return sys.stdin.isatty() and click.confirm("Do this?", err=True)


def _print_plan(plan: RepairPlan) -> None:
    if not plan.findings:
        click.echo("nothing to repair")
        return
    _print_lines("found:", plan.findings)
    _print_actions(plan)


def _print_actions(plan: RepairPlan) -> None:
    option = "--journal" if plan.method == "journal" else f"--method {plan.method}"
    _print_lines(f"{option} would:", plan.actions)
    _print_lines(f"{option} cannot mend:", plan.left)


def _print_outcome(plan: RepairPlan, report: RepairReport | None) -> None:
    if report is not None:
        click.echo("done")
        _print_lines("kept aside:", report.aside)
    elif plan.actions:
        click.echo("Nothing was changed: run it with --yes to do this.")


def _print_lines(title: str, lines: Iterable[str]) -> None:
    if listed := list(lines):
        click.echo(title)
        for line in listed:
            click.echo(f"  {line}")


def _plan_json(plan: RepairPlan) -> dict[str, object]:
    return {
        "log": plan.log_name,
        "method": plan.method,
        "findings": plan.findings,
        "actions": plan.actions,
        "left": plan.left,
    }
