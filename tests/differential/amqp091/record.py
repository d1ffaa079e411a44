"""Writes down what a real RabbitMQ says: `python -m tests.differential.amqp091.record errors` and the like."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.differential.amqp091.brokers import SETTINGS
from tests.differential.amqp091.compare import played, written
from tests.differential.amqp091.mistakes import MISTAKES
from tests.differential.amqp091.scenes import SCENES
from tests.differential.amqp091.script import Script, from_plain, to_plain
from tests.differential.amqp091.stage import Transcript
from tests.support.rabbitmq import VERSION, rabbitmq

HERE = Path(__file__).parent
ERRORS = HERE / "recorded_errors.json"
SCENES_FILE = HERE / "recorded_scenes.json"
SCRIPTS = HERE / "recorded_scripts.json"
RECORDED_SEEDS = 25
_CLOSES = {"channel.close": "channel", "connection.close": "connection"}


def outcome(transcript: Transcript) -> dict[str, Any]:
    """Of the last step in which a channel or a connection was closed; `level` is none where nothing was, and then it
    is the last step of which something came."""
    for came in reversed(transcript):
        for what in [what for each in came.values() for what in each]:
            if (level := _CLOSES.get(what.get("method", ""))) is not None:
                return {
                    "level": level,
                    "code": what["reply_code"],
                    "text": what["reply_text"],
                    "class": what["failing_class"],
                    "method": what["failing_method"],
                    "came": came,
                }
    return {"level": None, "came": next((came for came in reversed(transcript) if came), {})}


def recorded_errors() -> Mapping[str, dict[str, Any]]:
    found: Mapping[str, dict[str, Any]] = json.loads(ERRORS.read_text())["errors"]
    return found


def recorded_scenes() -> Mapping[str, Transcript]:
    found: Mapping[str, Transcript] = json.loads(SCENES_FILE.read_text())["scenes"]
    return found


def recorded_scripts() -> Mapping[str, tuple[Script, Transcript]]:
    found = json.loads(SCRIPTS.read_text())["scripts"]
    return {
        seed: ([from_plain(step) for step, _ in steps], [came for _, came in steps]) for seed, steps in found.items()
    }


def _record_errors(address: tuple[str, int], only: str) -> dict[str, Any]:
    found = {}
    for name, script in MISTAKES.items():
        if only not in name:
            continue
        begun = time.monotonic()
        found[name] = outcome(played(address, script))
        print(f"{time.monotonic() - begun:5.2f} s  {name}: {found[name].get('text')}", file=sys.stderr)
    return {"of": f"RabbitMQ {VERSION}", "errors": found}


def _record_scenes(address: tuple[str, int], only: str) -> dict[str, Any]:
    found = {}
    for name, script in SCENES.items():
        if only not in name:
            continue
        begun = time.monotonic()
        found[name] = played(address, script)
        print(f"{time.monotonic() - begun:5.2f} s  {name}", file=sys.stderr)
    return {"of": f"RabbitMQ {VERSION}", "scenes": found}


def _record_scripts(address: tuple[str, int], only: str) -> dict[str, Any]:
    found = {}
    for seed in range(RECORDED_SEEDS):
        script, transcript = written(address, seed)
        found[str(seed)] = [[to_plain(step), came] for step, came in zip(script, transcript, strict=True)]
        print(f"seed {seed}: {len(script)} steps", file=sys.stderr)
    return {"of": f"RabbitMQ {VERSION}", "scripts": found}


def _written(said: dict[str, Any]) -> str:
    """Of scripts, a step is a line."""
    if "scripts" not in said:
        return json.dumps(said, indent=1, ensure_ascii=False) + "\n"
    scripts = [
        f"{json.dumps(seed)}: [\n" + ",\n".join(json.dumps(step, ensure_ascii=False) for step in steps) + "\n]"
        for seed, steps in said["scripts"].items()
    ]
    return f'{{"of": {json.dumps(said["of"])}, "scripts": {{\n' + ",\n".join(scripts) + "\n}}\n"


WHAT = {
    "errors": (_record_errors, ERRORS),
    "scenes": (_record_scenes, SCENES_FILE),
    "scripts": (_record_scripts, SCRIPTS),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--only", default="", help="those whose name has this in it; printed, not written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, rabbitmq(Path(directory), SETTINGS) as server:
        record, file = WHAT[options.what]
        said = record(("127.0.0.1", server.port), options.only)
    text = _written(said)
    if options.only:
        print(text)
    else:
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
