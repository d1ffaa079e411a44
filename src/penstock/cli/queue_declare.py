"""`penstock queue create`, `update`, `pause`, `resume`, `purge` and `delete`."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.broker.broker import Broker
from penstock.broker.describing import QueueDescription, describe_queue
from penstock.cli.arguments import DIRECTORY, directory_argument
from penstock.cli.opened import namespace_option, on_broker, queue_argument, refuse_unless_confirmed, yes_option
from penstock.cli.output import output_option, print_json
from penstock.cli.setting_arguments import settings_options, written_settings


@click.command()
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.argument("name", metavar="[NAME]", required=False)
@namespace_option
@click.option("--partitions", metavar="N", type=int, help="How many.  [default: 10]")
@settings_options
@click.option("--if-absent", is_flag=True, help="Be content with a queue that is there, whatever its settings.")
@output_option("text", "json")
def create(
    directory: Path,
    name: str | None,
    namespace: str,
    partitions: int | None,
    file: Path | None,
    changes: tuple[str, ...],
    if_absent: bool,
    output: str,
) -> None:
    """Declare a queue; the directory is made if it is not there.

    Settings that are not given come from the templates that match the name, then from the defaults. NAME may be left
    out if the file has it.

    \b
    Examples:
      penstock queue create ./data orders --partitions 4
      penstock queue create ./data shop/mail --set retry_policy.max_retries=3 --set limits.message_ttl=24h
      penstock queue create ./data --file orders.json
    """
    written = written_settings(file, changes)
    written |= {"name": name} if name is not None else {}
    written |= {"partitions": partitions} if partitions is not None else {}
    written.setdefault("namespace", namespace)
    if "name" not in written:
        raise click.UsageError("a queue needs a name: give NAME, or a file with one")

    async def act(broker: Broker) -> QueueDescription:
        return await describe_queue(await broker.declare(written, if_absent=if_absent), broker.now())

    made = on_broker(directory, act, may_create=True)
    if output == "json":
        print_json(made)
    else:
        click.echo(f"queue {made.name}: declared, partitions: {made.settings['partitions']}")


@click.command()
@directory_argument
@queue_argument
@namespace_option
@settings_options
@output_option("text", "json")
def update(
    directory: Path, queue: str, namespace: str, file: Path | None, changes: tuple[str, ...], output: str
) -> None:
    """Change settings of a queue.

    What is not named stays. The name, the namespace and strict ordering cannot change, and partitions only grow.

    \b
    Examples:
      penstock queue update ./data orders --set limits.max_queue_depth=500000
      penstock queue update ./data orders --set partitions=8 --set 'topics=["sales/#"]'
    """
    written = written_settings(file, changes)
    if not written:
        raise click.UsageError("nothing to change: give --set or --file")

    async def act(broker: Broker) -> QueueDescription:
        found = broker.queue(queue, namespace)
        await broker.declaring.change(found, written)
        return await describe_queue(found, broker.now())

    changed = on_broker(directory, act)
    if output == "json":
        print_json(changed)
    else:
        click.echo(f"queue {changed.name}: changed")


@click.command()
@directory_argument
@queue_argument
@namespace_option
def pause(directory: Path, queue: str, namespace: str) -> None:
    """Hand out no messages of a queue, to any group, until it is resumed. It goes on taking messages in.

    \b
    Examples:
      penstock queue pause ./data orders
    """
    _set_paused(directory, queue, namespace, is_paused=True)


@click.command()
@directory_argument
@queue_argument
@namespace_option
def resume(directory: Path, queue: str, namespace: str) -> None:
    """Hand out messages of a paused queue again.

    \b
    Examples:
      penstock queue resume ./data orders
    """
    _set_paused(directory, queue, namespace, is_paused=False)


def _set_paused(directory: Path, queue: str, namespace: str, *, is_paused: bool) -> None:
    async def act(broker: Broker) -> str:
        found = broker.queue(queue, namespace)
        await broker.declaring.pause(found, is_paused)
        return found.name

    click.echo(f"queue {on_broker(directory, act)}: {'paused' if is_paused else 'resumed'}")


@click.command()
@directory_argument
@queue_argument
@namespace_option
@yes_option
def purge(directory: Path, queue: str, namespace: str, yes: bool) -> None:
    """Throw all messages of a queue away, for every group. The queue and its groups stay.

    \b
    Examples:
      penstock queue purge ./data orders --yes
    """
    refuse_unless_confirmed(yes, f"Throw all messages of queue {queue!r} away?")

    async def act(broker: Broker) -> int:
        return await broker.declaring.purge(broker.queue(queue, namespace))

    click.echo(f"queue {queue}: {on_broker(directory, act):,} messages purged")


@click.command()
@directory_argument
@queue_argument
@namespace_option
@yes_option
def delete(directory: Path, queue: str, namespace: str, yes: bool) -> None:
    """Delete a queue with its messages and groups. Its dead letters are a queue of their own and stay.

    \b
    Examples:
      penstock queue delete ./data orders --yes
    """
    refuse_unless_confirmed(yes, f"Delete queue {queue!r} with its messages and groups?")

    async def act(broker: Broker) -> None:
        await broker.declaring.delete(broker.queue(queue, namespace))

    on_broker(directory, act)
    click.echo(f"queue {queue}: deleted")
