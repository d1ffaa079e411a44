"""A command group that imports a command only when it runs, so that help and version come at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """`attribute` of `penstock.cli.<module>`; `summary` is its line in the group's help."""

    module: str
    attribute: str
    summary: str

    def load(self) -> click.Command:
        command = getattr(import_module(f"penstock.cli.{self.module}"), self.attribute)
        assert isinstance(command, click.Command)
        return command


class LazyGroup(click.Group):
    """Lists its commands in the order of the table."""

    def __init__(self, *args: object, table: Mapping[str, LazyCommand], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # passed on as click.group gave them
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """UsageError with the nearest names for a command that is not there."""
        if args and not args[0].startswith("-") and args[0] not in self.table:
            raise click.UsageError(self._unknown(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def _unknown(self, word: str) -> str:
        from difflib import get_close_matches

        near = get_close_matches(word, self.table, n=3, cutoff=0.6)
        return f"No such command {word!r}." + (f" Did you mean {' or '.join(map(repr, near))}?" if near else "")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self.table.get(cmd_name)
        return None if found is None else found.load()

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Without importing what is completed."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=command.summary)
            for name, command in self.table.items()
            if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self.table.items()])
