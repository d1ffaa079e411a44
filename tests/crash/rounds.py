"""Load, crash, look, again: the rounds that tests run a few of and a soak many."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.appends import check_verified
from tests.crash.history import Contents, Event, Opening, Promises, encode_event, read_back, read_events
from tests.crash.writer import OPTIONS
from tests.support.faults import Image, kill, mounted, python, stopped, wait_until

from penstock.core.types import Durability

IMAGE_BYTES = 96 << 20
Report = Callable[[str], None]


@dataclass
class Fire:
    """A place with a history, in which writers are started and ended."""

    place: Path
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    runs: int = 0

    @property
    def history(self) -> Path:
        return self.place / "history"

    @property
    def errors(self) -> Path:
        return self.place / "errors"

    def start(self, directory: Path) -> subprocess.Popen[bytes]:
        self.runs += 1
        command: list[str | Path] = ["-m", "tests.crash.writer", directory, self.history, "--run", str(self.runs)]
        return python(*command, *self.arguments, environment=self.environment, errors=self.errors)

    def events(self) -> list[Event]:
        return read_events(self.history) if self.history.exists() else []

    def said(self, words: str) -> int:
        """How often standard error has it."""
        return self.errors.read_text().count(words)

    def lines(self) -> int:
        return self.history.read_bytes().count(b"\n") if self.history.exists() else 0

    def wait_for_opening(self, process: subprocess.Popen[bytes]) -> None:
        told = encode_event(Opening(self.runs))
        self.wait(process, lambda: self.history.exists() and told in self.history.read_bytes(), "opening")

    def wait_for_lines(self, process: subprocess.Popen[bytes], count: int) -> None:
        """So many more events than there are now."""
        wanted = self.lines() + count
        self.wait(process, lambda: self.lines() >= wanted, f"{count} more events")

    def wait_until_said(self, process: subprocess.Popen[bytes], words: str, times: int) -> None:
        self.wait(process, lambda: self.said(words) >= times, words)

    def wait(self, process: subprocess.Popen[bytes], holds: Callable[[], bool], what: str) -> None:
        wait_until(lambda: process.poll() is not None or holds(), what)
        assert process.poll() is None, self.errors.read_text()

    def look(self, directory: Path) -> dict[str, Contents]:
        """As it would be recovered: a copy is opened, so that the next writer meets the crash itself."""
        copy = self.place / "looked-at"
        shutil.copytree(directory, copy)
        try:
            return read_back(copy, OPTIONS)
        finally:
            shutil.rmtree(copy)


def kill_rounds(place: Path, seed: int, rounds: int, report: Report = lambda text: None) -> Promises:
    """kill -9 under load, in the middle of recovery too, again and again in one directory."""
    rng, fire, promises = random.Random(seed), Fire(place), Promises(Durability.INTERVAL)
    directory = place / "data"
    for number in range(rounds):
        process = fire.start(directory)
        try:
            fire.wait_for_opening(process)
            if rng.random() < 0.8:
                fire.wait_for_lines(process, rng.randrange(20, 3000))
        finally:
            kill(process)
        if not (directory / "format").exists():
            assert not promises.acknowledged
            continue  # killed before it had made the directory its own
        check_verified(directory)
        promises.check(fire.events(), fire.look(directory))
        report(f"kill {number + 1}/{rounds}: {promises.acknowledged} acknowledged commits checked")
    return promises


def power_cut_rounds(
    place: Path,
    seed: int,
    rounds: int,
    report: Report = lambda text: None,
    environment: dict[str, str] | None = None,
    arguments: tuple[str, ...] = (),
) -> Promises:
    """Cut the power under load; the next writer goes on with what the medium held at that moment."""
    rng, promises = random.Random(seed), Promises(Durability.COMMIT)
    fire = Fire(place, environment or {}, arguments)
    image = Image.make(place / "image-0", IMAGE_BYTES)
    for number in range(rounds):
        after = power_cut(fire, image, place / f"image-{number + 1}", rng.randrange(50, 4000))
        image.path.unlink()
        image = after
        looked = image.copy(place / "image-looked-at")
        with mounted(looked, place / "mount") as mount:
            check_verified(mount / "data")
            promises.check(fire.events(), read_back(mount / "data", OPTIONS))
        looked.path.unlink()
        report(f"power cut {number + 1}/{rounds}: {promises.acknowledged} acknowledged commits checked")
    image.path.unlink()
    return promises


def power_cut(fire: Fire, image: Image, after: Path, lines: int) -> Image:
    """What was told until the writer stood still is what the cut image is held against."""
    with mounted(image, fire.place / "mount") as mount:
        process = fire.start(mount / "data")
        try:
            fire.wait_for_lines(process, lines)
            with stopped(process):
                copy = image.copy(after)
                process.kill()
        finally:
            kill(process)
    return copy
