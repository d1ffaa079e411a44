"""`penstock dlq redrive` and `penstock dlq drop`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import click

from penstock.cli.completions import queue_argument
from penstock.cli.connections import destructive, on_server, refuse_unless_confirmed
from penstock.cli.dlq.letter_arguments import Letters, letter_options
from penstock.cli.failures import FAILED
from penstock.cli.output import DATA_FORMATS, Advance, output_option, print_data, progress_bar
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.core.errors import PenstockError

# Of one request: what has been done is seen on the bar, and no request waits for longer than a few seconds.
_MOST = 5000
_SECONDS = 5


@dataclass(slots=True)
class Report:
    """How far it has come. `left`: how many were asked for and stay, by the reason why."""

    done: int = 0
    left: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


Step = Callable[[AsyncClient, int], Awaitable[Report]]
"""does up to so many"""


@click.command()
@queue_argument
@letter_options
@click.option("--to", metavar="QUEUE", help="Publish to this queue.  [default: the one each came from]")
@click.option(
    "--all-groups", is_flag=True, help="Redeliver to all groups, not only the one that gave up on the message."
)
@click.option(
    "--rate", metavar="N", type=click.FloatRange(min=0, min_open=True), help="At most N dead letters per second."
)
@click.option("--dry-run", is_flag=True, help="Show how many would be redriven; change nothing.")
@target_options
@output_option()
def redrive(
    target: Target,
    queue: str,
    letters: Letters,
    to: str | None,
    all_groups: bool,
    rate: float | None,
    dry_run: bool,
    output: str,
) -> int:
    """Publish dead letters again: all of them, or those selected by the options.

    A message is delivered only to the group that gave up on it, unless --all-groups is given; with --to another queue,
    all of that queue's groups get it. Each message is published and removed from the dead letters in one commit, so an
    interrupted redrive can simply be run again. The exit code is 1 if some of the selected dead letters could not be
    redriven.

    \b
    Examples:
      penstock dlq redrive orders --dry-run
      penstock dlq redrive orders --id '$dlq/orders@2:3:0'
      penstock dlq redrive orders --group billing --reason max-retries --rate 50
      penstock dlq redrive orders --to orders-repair -n 100
    """

    async def step(client: AsyncClient, most: int) -> Report:
        report = await client.redrive(
            queue,
            letters.ids,
            **letters.which,
            to=to,
            to_all_groups=all_groups,
            rate=rate,
            limit=letters.limit if dry_run else most,
            dry_run=dry_run,
        )
        return Report(report.retried, report.left, report.missing)

    most = _MOST if rate is None else max(1, min(_MOST, round(rate * _SECONDS)))
    return _run(target, step, letters, most, _Words("redriven", dry_run), output)


@click.command()
@queue_argument
@letter_options
@click.option("--all", "is_all", is_flag=True, help="All dead letters.")
@destructive
@target_options
@output_option()
def drop(target: Target, queue: str, letters: Letters, is_all: bool, yes: bool, dry_run: bool, output: str) -> int:
    """Discard dead letters without redriving them. Select them with the options, or use --all.

    \b
    Examples:
      penstock dlq drop orders --id '$dlq/orders@2:3:0' --yes
      penstock dlq drop orders --reason rejected --dry-run
      penstock dlq drop orders --all --yes
    """
    if letters.is_everything != is_all:
        raise click.UsageError("select the dead letters to drop (--id, --group, --reason, --source), or use --all")
    if not dry_run:
        refuse_unless_confirmed(target, yes, f"Drop dead letters of queue {queue!r}?")

    async def step(client: AsyncClient, most: int) -> Report:
        limit = letters.limit if dry_run else most
        report = await client.drop_dead_letters(queue, letters.ids, **letters.which, limit=limit, dry_run=dry_run)
        return Report(report.dropped, {}, report.missing)

    return _run(target, step, letters, _MOST, _Words("dropped", dry_run), output)


@dataclass(frozen=True, slots=True)
class _Words:
    verb: str
    is_dry: bool

    @property
    def done(self) -> str:
        return f"would be {self.verb}" if self.is_dry else self.verb


def _run(target: Target, step: Step, letters: Letters, most: int, words: _Words, output: str) -> int:
    """With a bar; what was done before a failure is told, as it is done for good."""
    seen = Report()

    async def act(client: AsyncClient) -> None:
        if words.is_dry:
            _add(seen, await step(client, 0))
        else:
            await _all(client, step, letters, most, seen, lambda what, done, total: advance(what, done, total))

    with progress_bar(words.verb) as advance:
        try:
            on_server(target, act)
        except PenstockError:
            if seen.done:
                click.echo(f"penstock: {_letters(seen.done)} {words.verb} before it failed", err=True)
            raise
    _print(seen, words, output)
    return FAILED if seen.left or seen.missing else 0


async def _all(client: AsyncClient, step: Step, letters: Letters, most: int, seen: Report, advance: Advance) -> None:
    """Ids are asked for once: what the first request has done is missing in a second."""
    while True:
        wanted = most if letters.limit is None else min(most, letters.limit - seen.done)
        report = await step(client, max(wanted, len(letters.ids)))
        _add(seen, report)
        advance("letters", seen.done, letters.limit or seen.done)
        if letters.ids or report.done < wanted or seen.done == letters.limit:
            return


def _add(seen: Report, more: Report) -> None:
    """Those that are left are left again by every request."""
    seen.done += more.done
    seen.left, seen.missing = more.left, more.missing


def _print(report: Report, words: _Words, output: str) -> None:
    if output in DATA_FORMATS:
        left = [{"reason": reason, "letters": count} for reason, count in report.left.items()]
        dry = {"dry_run": True} if words.is_dry else {}
        print_data({words.verb: report.done, "left": left, "missing": report.missing, **dry}, output)
        return
    click.echo(f"{_letters(report.done)} {words.done}")
    for reason, count in report.left.items():
        click.echo(f"{_letters(count)} left: {reason}; use --to or --all-groups, or fix the cause", err=True)
    for identity in report.missing:
        click.echo(f"no dead letter {identity}: it was redriven or dropped, or never existed", err=True)


def _letters(count: int) -> str:
    return "1 letter" if count == 1 else f"{count:,} letters"
