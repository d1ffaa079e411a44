"""`penstock version`."""

from __future__ import annotations

import click

from penstock.cli.output import output_option, print_done
from penstock.version import VERSION


@click.command()
@output_option()
def version(output: str) -> None:
    """Print the version.

    \b
    Example:
      penstock version
    """
    print_done(output, VERSION, version=VERSION)
