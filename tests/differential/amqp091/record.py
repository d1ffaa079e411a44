"""Writes down what a real RabbitMQ says: `python -m tests.differential.amqp091.record errors`."""

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
from tests.differential.amqp091.mistakes import MISTAKES
from tests.differential.amqp091.scenes import SCENES
from tests.differential.amqp091.script import Script
from tests.differential.amqp091.stage import Stage, Transcript
from tests.support.rabbitmq import VERSION, rabbitmq

HERE = Path(__file__).parent
ERRORS = HERE / "recorded_errors.json"
SCENES_FILE = HERE / "recorded_scenes.json"
_CLOSES = {"channel.close": "channel", "connection.close": "connection"}


def transcript_of(address: tuple[str, int], script: Script) -> Transcript:
    stage = Stage(address)
    try:
        return stage.run(script)
    finally:
        stage.close()


def outcome(transcript: Transcript) -> dict[str, Any]:
    """Of the last step in which a channel or a connection was closed; `level` is none where nothing was."""
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
    return {"level": None, "came": transcript[-1]}


def recorded_errors() -> Mapping[str, dict[str, Any]]:
    found: Mapping[str, dict[str, Any]] = json.loads(ERRORS.read_text())["errors"]
    return found


def _record_errors(address: tuple[str, int], only: str) -> dict[str, Any]:
    found = {}
    for name, script in MISTAKES.items():
        if only not in name:
            continue
        begun = time.monotonic()
        found[name] = outcome(transcript_of(address, script))
        print(f"{time.monotonic() - begun:5.2f} s  {name}: {found[name].get('text')}", file=sys.stderr)
    return {"of": f"RabbitMQ {VERSION}", "errors": found}


def _record_scenes(address: tuple[str, int], only: str) -> dict[str, Any]:
    found = {}
    for name, script in SCENES.items():
        if only not in name:
            continue
        begun = time.monotonic()
        found[name] = transcript_of(address, script)
        print(f"{time.monotonic() - begun:5.2f} s  {name}", file=sys.stderr)
    return {"of": f"RabbitMQ {VERSION}", "scenes": found}


WHAT = {"errors": (_record_errors, ERRORS), "scenes": (_record_scenes, SCENES_FILE)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--only", default="", help="those whose name has this in it; printed, not written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, rabbitmq(Path(directory), SETTINGS) as server:
        record, file = WHAT[options.what]
        said = record(("127.0.0.1", server.port), options.only)
    text = json.dumps(said, indent=1, ensure_ascii=False) + "\n"
    if options.only:
        print(text)
    else:
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
