"""Load on queues, crash, again, and in the end a look at all that was told."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.crash.queue_clients import GROUPS
from tests.crash.rounds import IMAGE_BYTES, Fire, Report, power_cut
from tests.support.auditing import silent
from tests.support.faults import PATIENCE_S, Image, kill, mounted, python
from tests.support.queue_history import read_events
from tests.support.queue_promises import Findings, check


@dataclass
class QueueFire(Fire):
    """A place with a history, in which brokers are started and ended."""

    def start(self, directory: Path) -> subprocess.Popen[bytes]:
        return self._start(directory, *self.arguments)

    def drain(self, directory: Path) -> Findings:
        """Settle everything, then hold the history against what queues promise."""
        process = self._start(directory, "--drain")
        try:
            assert process.wait(PATIENCE_S) == 0, self.errors.read_text()
        finally:
            kill(process)
        return check(read_events(self.history), GROUPS)

    def _start(self, directory: Path, *arguments: str) -> subprocess.Popen[bytes]:
        self.runs += 1
        command: list[str | Path] = ["-m", "tests.crash.queue_worker", directory, self.history, "--run", str(self.runs)]
        return python(*command, *arguments, environment=self.environment, errors=self.errors)


def queue_kill_rounds(place: Path, seed: int, rounds: int, report: Report = lambda text: None) -> Findings:
    """kill -9 while producing and consuming, in the middle of recovery too, again and again in one directory; an audit
    of what is left finds nothing."""
    rng, fire, directory = random.Random(seed), QueueFire(place), place / "data"
    for number in range(rounds):
        process = fire.start(directory)
        try:
            fire.wait_for_opening(process)
            if rng.random() < 0.85:
                fire.wait_for_lines(process, rng.randrange(20, 3000))
        finally:
            kill(process)
        if (directory / "format").exists():  # else it was killed before it had made the directory its own
            silent(directory)
        report(f"kill {number + 1}/{rounds}: {fire.lines()} events")
    found = fire.drain(directory)
    silent(directory)
    return found


def queue_power_cut_rounds(
    place: Path, seed: int, rounds: int, report: Report = lambda text: None, arguments: tuple[str, ...] = ()
) -> Findings:
    """Cut the power while producing and consuming; the next broker goes on with what the medium held."""
    rng, fire = random.Random(seed), QueueFire(place, arguments=arguments)
    image = Image.make(place / "image-0", IMAGE_BYTES)
    for number in range(rounds):
        after = power_cut(fire, image, place / f"image-{number + 1}", rng.randrange(50, 4000))
        image.path.unlink()
        image = after
        report(f"power cut {number + 1}/{rounds}: {fire.lines()} events")
    with mounted(image, place / "mount") as mount:
        found = fire.drain(mount / "data")
    image.path.unlink()
    return found
