"""`penstock serve`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from penstock.cli.output import output_option, print_done
from penstock.core.errors import InvalidSetting

if TYPE_CHECKING:
    from penstock.server.config import Config

BAD_CONFIGURATION = 2
_FILE = click.Path(path_type=Path)


@click.command()
@click.option("-c", "--config", "file", metavar="FILE", type=_FILE, help="Configuration file (YAML).")
@click.option("--data", metavar="DIR", help="Data directory.  [default: data_dir, or ./penstock-data]")
@click.option("--dev", is_flag=True, help="Development mode: everyone on this machine is admin, without login.")
@click.option(
    "--set",
    "changes",
    metavar="KEY=VALUE",
    multiple=True,
    help="Override a setting, like listeners.mqtt.port=0. Can be repeated.",
)
@click.option(
    "--ready-file",
    metavar="FILE",
    type=_FILE,
    help="Write this file with the ports when all listeners accept connections.",
)
@click.option("--check", is_flag=True, help="Check the configuration, list what is insecure, and exit.")
@output_option(text="Output format of --check.")
@click.pass_context
def serve(
    context: click.Context,
    file: Path | None,
    data: str | None,
    dev: bool,
    changes: tuple[str, ...],
    ready_file: Path | None,
    check: bool,
    output: str,
) -> int:
    """Run the server until SIGTERM or Ctrl-C.

    Settings are taken from --set, then from variables like PENSTOCK_LISTENERS__MQTT__PORT, then from the file, then
    from the defaults; docs/configuration.md lists all of them. SIGHUP reloads them, SIGUSR1 turns debug logging on and
    off. Exit codes: 0 after a clean shutdown, 2 for a bad configuration, 1 for everything else.

    \b
    Examples:
      penstock serve --dev
      penstock serve -c penstock.yaml --data /var/lib/penstock
      penstock serve --dev --set listeners.mqtt.port=0 --ready-file /tmp/ready.json
      penstock serve -c penstock.yaml --check
    """
    from penstock.server.config import load

    flags = [*_shorthands(context, data, dev), *changes]
    try:
        if check:
            return _check(load(file, os.environ, flags), output)
        return _run(lambda: load(file, os.environ, flags), ready_file)
    except InvalidSetting as error:
        click.echo(f"penstock: error: {error}", err=True)
        return BAD_CONFIGURATION


def _shorthands(context: click.Context, data: str | None, dev: bool) -> list[str]:
    """What other options say, as --set would."""
    flags = [] if data is None else [f"data_dir={data}"]
    if dev:
        flags.append("auth.development_mode=true")
    root = context.find_root()
    given = [
        option
        for option in ("log_level", "log_format")
        if root.get_parameter_source(option) is ParameterSource.COMMANDLINE
    ]
    return flags + [f"{option.replace('_', '.')}={root.params[option]}" for option in given]


def _check(config: Config, output: str) -> int:
    from penstock.server.event_loop import loop_factory
    from penstock.server.server import check_files
    from penstock.server.weaknesses import weaknesses

    check_files(config)
    loop_factory(config.loop)
    insecure, listeners = list(weaknesses(config)), list(config.listeners.all_switched_on())
    good = f"the configuration is good, listeners: {', '.join(listeners) or 'none'}"
    text = "\n".join([*(f"insecure: {weakness}" for weakness in insecure), good])
    print_done(output, text, insecure=insecure, listeners=listeners)
    return 0


def _run(load: Callable[[], Config], ready_file: Path | None) -> int:
    from penstock.server.process import Process
    from penstock.server.runtime import open_runtime

    return Process(load, open_runtime, click.echo, ready_file).run()
