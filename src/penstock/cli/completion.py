"""`penstock completion`: the completion script of a shell."""

from __future__ import annotations

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(_SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for bash, zsh or fish.

    \b
    Examples:
      penstock completion bash > ~/.local/share/bash-completion/completions/penstock
      penstock completion zsh > "${fpath[1]}/_penstock"
      penstock completion fish > ~/.config/fish/completions/penstock.fish
    """
    from click.shell_completion import get_completion_class

    from penstock.cli.main import COMPLETION_VARIABLE, penstock

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(penstock, {}, "penstock", COMPLETION_VARIABLE).source())
