"""`penstock version`."""

from __future__ import annotations

import click

from penstock.version import VERSION


@click.command()
def version() -> None:
    """Print the version.

    \b
    Example:
      penstock version
    """
    click.echo(VERSION)
