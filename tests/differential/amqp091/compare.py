"""Two transcripts of one script held against each other, and scripts made short as long as they differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.differential.amqp091.author import Author
from tests.differential.amqp091.deviations import normalised
from tests.differential.amqp091.script import Say, Script, Step, runnable, to_plain
from tests.differential.amqp091.stage import Stage, Transcript

Address = tuple[str, int]


@dataclass(frozen=True)
class Difference:
    step: int
    said: Step
    expected: Mapping[str, Any]
    got: Mapping[str, Any]

    def __str__(self) -> str:
        return (
            f"step {self.step}: {json.dumps(to_plain(self.said), ensure_ascii=False)}\n"
            f"  RabbitMQ: {json.dumps(self.expected, ensure_ascii=False)}\n"
            f"  here:     {json.dumps(self.got, ensure_ascii=False)}"
        )


def difference(script: Script, expected: Transcript, got: Transcript) -> Difference | None:
    """The first; what comes behind it may follow from it."""
    for number, (said, theirs, ours) in enumerate(zip(script, expected, got, strict=True)):
        is_publish = isinstance(said, Say) and said.method == "basic.publish"
        if (first := normalised(theirs, is_publish)) != (second := normalised(ours, is_publish)):
            return Difference(number, said, first, second)
    return None


def played(address: Address, script: Script) -> Transcript:
    stage = Stage(address)
    try:
        return stage.run(script)
    finally:
        stage.close()


def written(address: Address, seed: int) -> tuple[Script, Transcript]:
    """A script, and what the broker said to it while it was written."""
    author, stage = Author(seed), Stage(address)
    script: list[Step] = []
    transcript: Transcript = []
    try:
        while len(script) < author.steps:
            step = author.next()
            script.append(step)
            transcript.append(stage.step(step))
            author.see(step, transcript[-1])
    finally:
        stage.close()
    return script, transcript


def shrunk(script: Sequence[Step], differs: Callable[[Script], bool]) -> Script:
    """Delta debugging: parts are left out, smaller and smaller ones, as long as it differs."""
    parts = 2
    while len(script) > 1:
        size = max(1, len(script) // parts)
        for start in range(0, len(script), size):
            shorter = [*script[:start], *script[start + size :]]
            if shorter and differs(shorter):
                script, parts = shorter, max(parts - 1, 2)
                break
        else:
            if size == 1:
                return script
            parts = min(parts * 2, len(script))
    return script


def judged(reference: Address, here: Address, seed: int) -> str | None:
    """None if both say the same; else a short script that shows where they do not."""
    script, expected = written(reference, seed)
    found = difference(script, expected, played(here, script))
    if found is None:
        return None

    def between(shorter: Script) -> Difference | None:
        return difference(shorter, played(reference, shorter), played(here, shorter))

    script = list(script[: found.step + 1])
    if between(script) is None:
        return f"seed {seed}, not again when it was run twice:\n{found}\n{runnable(script, f'seed {seed}')}"

    def is_still_that(shorter: Script) -> bool:
        other = between(shorter)
        return other is not None and other.said == found.said

    script = list(shrunk(script, is_still_that))
    return f"seed {seed}:\n{between(script)}\n{runnable(script, f'seed {seed}')}"
