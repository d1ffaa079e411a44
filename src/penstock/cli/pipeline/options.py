"""What all jobs are asked with: where the data is, and who does the work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from penstock.cli.arguments import EXISTING_DIRECTORY
from penstock.cli.failures import NotThere
from penstock.core.errors import UnsupportedPlatform
from penstock.jobs.files import COMPRESSIONS
from penstock.jobs.job import Runner
from penstock.jobs.local import runner_for
from penstock.queues.names import DEFAULT_NAMESPACE

data_option = click.option(
    "--data",
    "directory",
    metavar="DIR",
    envvar="PENSTOCK_DATA",
    required=True,
    type=EXISTING_DIRECTORY,
    help="Data directory; a server may be running on it.",
)

namespace_option = click.option(
    "--namespace", metavar="NAME", default=DEFAULT_NAMESPACE, show_default=True, help="Namespace of the queues."
)
compression_option = click.option(
    "--compression", type=click.Choice(COMPRESSIONS), default="zstd", show_default=True, help="Compression of files."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")


def queues_of(directory: Path, patterns: Sequence[str], namespace: str) -> list[str]:
    """Queues by names and patterns, each once. NotThere for what matches none."""
    from penstock.tables.table import TableDirectory  # an audit does without pyarrow

    opened = TableDirectory(directory)
    with closing(opened):
        known = opened.queues(namespace)
        found: dict[str, None] = {}
        for pattern in patterns:
            name = opened.named(pattern, namespace)
            matching = [name] if name in known else opened.matching(pattern, namespace)
            if not matching:
                listed = ", ".join(known[:10]) or "none"
                raise NotThere(f"no queue {pattern!r} in {directory}, namespace {namespace!r}; there are {listed}")
            found |= dict.fromkeys(matching)
        return list(found)


@dataclass(frozen=True, slots=True)
class Running:
    """Who does the work: Spark where a master or a remote one is named, else this machine."""

    master: str | None = None
    remote: str | None = None
    processes: int | None = None

    @contextmanager
    def runner(self, size_bytes: int, pieces: int) -> Iterator[Runner]:
        """For a job of that size."""
        if self.master is None and self.remote is None:
            yield runner_for(size_bytes, pieces, self.processes)
            return
        try:
            from penstock.spark.jobs import OnSpark, job_session
        except ImportError as error:
            raise UnsupportedPlatform(
                f"--master and --remote need Spark ({error}): pip install 'penstock[spark]', or leave them out"
            ) from error
        with job_session(self.master, self.remote) as session:
            yield OnSpark(session)


def running_options(command: Callable[..., object]) -> Callable[..., object]:
    """--master, --remote and --processes, as the parameter `running`."""

    @functools.wraps(command)
    def called(
        *args: object, master: str | None, remote: str | None, processes: int | None, **kwargs: object
    ) -> object:
        if sum(given is not None for given in (master, remote, processes)) > 1:
            raise click.UsageError("--master, --remote and --processes exclude each other: give one of them")
        return command(*args, running=Running(master, remote, processes), **kwargs)

    for option in (
        click.option(
            "--processes",
            metavar="N",
            type=click.IntRange(min=1),
            help="Number of local processes.  [default: by size]",
        ),
        click.option("--remote", metavar="URL", help="Run on this Spark Connect server: sc://HOST:15002."),
        click.option("--master", metavar="MASTER", help="Run on this Spark master: 'local[*]' or spark://HOST:7077."),
    ):
        called = option(called)
    return called
