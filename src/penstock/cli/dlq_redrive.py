"""`penstock dlq redrive` and `penstock dlq drop`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import click

from penstock.broker import redrive as redriving
from penstock.broker.broker import Broker
from penstock.broker.letters import dead_letter_queue_of
from penstock.broker.redrive import Progress, RedriveOptions, Report
from penstock.cli.arguments import directory_argument
from penstock.cli.failures import FAILED
from penstock.cli.letter_arguments import selection, selection_options
from penstock.cli.opened import namespace_option, on_broker, queue_argument, refuse_unless_confirmed, yes_option
from penstock.cli.output import output_option, print_json, progress_bar
from penstock.core.errors import PenstockError


@click.command()
@directory_argument
@queue_argument
@namespace_option
@selection_options
@click.option("--to", "target", metavar="QUEUE", help="Publish to this queue.  [default: the one each came from]")
@click.option("--all-groups", is_flag=True, help="For all groups, not only the one that gave up on a message.")
@click.option("--rate", metavar="N", type=click.FloatRange(min=0, min_open=True), help="At most N letters a second.")
@output_option("text", "json")
def redrive(
    directory: Path,
    queue: str,
    namespace: str,
    ids: tuple[str, ...],
    groups: tuple[str, ...],
    reasons: tuple[str, ...],
    sources: tuple[str, ...],
    limit: int | None,
    target: str | None,
    all_groups: bool,
    rate: float | None,
    output: str,
) -> int:
    """Publish dead letters again: all that wait, or those that the options choose.

    Only the group that gave up on a message gets it, unless all are asked for; in another queue than its own, all
    groups get it. Publishing and striking off the list are one commit: interrupted at any moment, run it again and it
    goes on with what is left. Exit code 1 if letters that were asked for stay.

    \b
    Examples:
      penstock dlq redrive ./data orders
      penstock dlq redrive ./data orders --id '$dlq/orders@2:3:0'
      penstock dlq redrive ./data orders --group billing --reason max-retries --rate 50
      penstock dlq redrive ./data orders --to orders-repair -n 100
    """
    chosen = selection(ids, groups, reasons, sources)

    async def act(broker: Broker, progress: Progress) -> Report:
        to = None if target is None else broker.queue(target, namespace)
        options = RedriveOptions(chosen, to, all_groups, rate, limit)
        if (found := dead_letter_queue_of(broker, queue, namespace)) is None:
            return Report(missing=set(ids))
        return await redriving.redrive(broker, found, options, progress)

    return _run(directory, act, "redriven", output)


@click.command()
@directory_argument
@queue_argument
@namespace_option
@selection_options
@click.option("--all", "is_all", is_flag=True, help="All letters that wait.")
@yes_option
@output_option("text", "json")
def drop(
    directory: Path,
    queue: str,
    namespace: str,
    ids: tuple[str, ...],
    groups: tuple[str, ...],
    reasons: tuple[str, ...],
    sources: tuple[str, ...],
    limit: int | None,
    is_all: bool,
    yes: bool,
    output: str,
) -> int:
    """Settle dead letters without redriving them: they are listed no more. Name those that are meant, or --all.

    \b
    Examples:
      penstock dlq drop ./data orders --id '$dlq/orders@2:3:0' --yes
      penstock dlq drop ./data orders --reason rejected --yes
      penstock dlq drop ./data orders --all --yes
    """
    chosen = selection(ids, groups, reasons, sources)
    if chosen.is_everything != is_all:
        raise click.UsageError("say which letters are to be dropped (--id, --group, --reason, --source), or --all")
    refuse_unless_confirmed(yes, f"Drop dead letters of queue {queue!r}?")

    async def act(broker: Broker, progress: Progress) -> Report:
        if (found := dead_letter_queue_of(broker, queue, namespace)) is None:
            return Report(missing=set(ids))
        return await redriving.drop(broker, found, chosen, limit, progress)

    return _run(directory, act, "dropped", output)


def _run(directory: Path, act: Callable[[Broker, Progress], Awaitable[Report]], verb: str, output: str) -> int:
    """With a bar; what was done before a failure is told, as it is done for good."""
    seen = Report()

    def note(report: Report) -> None:
        nonlocal seen
        seen = report
        advance(verb, report.seen, report.total)

    with progress_bar(verb) as advance:
        try:
            seen = on_broker(directory, lambda broker: act(broker, note))
        except PenstockError:
            if seen.done:
                click.echo(f"penstock: {_letters(seen.done)} {verb} before it failed", err=True)
            raise
    _print(seen, verb, output)
    return FAILED if seen.left or seen.missing else 0


def _print(report: Report, verb: str, output: str) -> None:
    if output == "json":
        left = [{"reason": reason, "letters": count} for reason, count in report.left.items()]
        print_json({verb: report.done, "left": left, "missing": sorted(report.missing)})
        return
    click.echo(f"{_letters(report.done)} {verb}")
    for reason, count in report.left.items():
        click.echo(f"{_letters(count)} left: {reason}; use --to or --all-groups, or put that right", err=True)
    for identity in sorted(report.missing):
        click.echo(f"no letter {identity} waits: it was redriven or dropped, or there never was one", err=True)


def _letters(count: int) -> str:
    return "1 letter" if count == 1 else f"{count:,} letters"
