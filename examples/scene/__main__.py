"""`python -m examples.scene`: a server at work, seen live."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from examples.scene.play import Scene
from examples.stage import Stage, run
from penstock.cli.arguments import DIRECTORY
from penstock.cli.failures import FAILED
from penstock.cli.pipeline.file import has_spark

_SECONDS_WITHOUT_TERMINAL = 20.0


@click.command()
@click.option("--data", type=DIRECTORY, default=Path("penstock-data"), show_default=True, help="Data directory.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="Stop after this many seconds.  [default: at Ctrl-C; without a terminal after 20]",
)
@click.option(
    "--devices", type=click.IntRange(1, 100), default=10, show_default=True, help="Number of devices that publish."
)
@click.option(
    "--pipeline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Pipeline file to run beside the server.",
)
def scene(data: Path, seconds: float | None, devices: int, pipeline: Path | None) -> int:
    """Start a server on free ports and show it at work: orders over HTTP, devices that publish over MQTT, three workers
    that share a durable queue, and a message that nobody can process and that becomes a dead letter. The data is kept.

    With --pipeline, Spark runs beside it: it reads the queue of readings, writes readings that are too hot to the queue
    `alerts`, which a client consumes over MQTT, and writes a table of averages per minute and device.

    \b
    Examples:
      python -m examples.scene
      python -m examples.scene --data ./scene-data --seconds 30
      python -m examples.scene --pipeline examples/pipeline/devices.yaml
    """
    if seconds is None and not sys.stdout.isatty():
        seconds = _SECONDS_WITHOUT_TERMINAL
    stage = Stage()
    if pipeline is not None and not has_spark():
        stage.say("the pipeline is left out: it needs Java 17 and pip install 'penstock[spark,sql]'")
        pipeline = None
    return 0 if asyncio.run(Scene(data, seconds, devices, stage, pipeline).run()) else FAILED


if __name__ == "__main__":
    run(scene)
