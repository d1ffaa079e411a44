"""`python -m tests.spark.million PLACE ROWS SEED`: numbers from queue to queue through Spark, with drivers, tasks and
brokers killed on the way and tasks that run twice; each comes out once. The control without the key has duplicates."""

from __future__ import annotations

import random
import sys
import threading
from pathlib import Path

from tests.spark.driver import CLUSTER, run_driver
from tests.spark.pipelines import OUTPUT, Pipeline, assert_each_once, copies, declare
from tests.support.mortal_server import MortalServer, mortal_server

EPOCHS = 40
_FAULTS = ("dying-before-commit", "dying-after-commit")
_ROUNDS = 3


def million(place: Path, rows: int, seed: int) -> str:
    """What happened, in a few words."""
    draw = random.Random(seed)
    with mortal_server(place / "server") as server:
        declare(server, rows)
        pipeline = Pipeline(server.flight_url, place / "checkpoint", max_offsets=max(rows // EPOCHS, 1))
        for sink in draw.choices(_FAULTS, k=_ROUNDS):
            run_driver(pipeline._replace(sink=sink), is_killed=True)
        run_driver(pipeline, is_killed=False, step="twice", master=CLUSTER, epochs=EPOCHS // 8)
        kills = _run_with_kills(server, pipeline, draw)
        assert_each_once(server, rows)
        server.http.purge(OUTPUT)
        duplicates = _without_the_key(server, pipeline._replace(checkpoint=place / "control", max_offsets=rows))
    killed = f"{_ROUNDS} drivers, a task and {kills} brokers killed"
    return f"{rows:,} rows once each, {killed}; without the key {duplicates:,} twice"


def _run_with_kills(server: MortalServer, pipeline: Pipeline, draw: random.Random) -> int:
    """Every few seconds, until the driver has ended, which has a task killed too."""
    done, kills = threading.Event(), 0
    driver = threading.Thread(target=_drive, args=(pipeline, done))
    driver.start()
    while not done.wait(draw.uniform(3, 15)):
        server.kill()
        server.start()
        kills += 1
    driver.join()
    return kills


def _drive(pipeline: Pipeline, done: threading.Event) -> None:
    try:
        run_driver(pipeline, is_killed=False, step="killing")
    finally:
        done.set()


def _without_the_key(server: MortalServer, control: Pipeline) -> int:
    before = server.http.queue(OUTPUT).messages
    run_driver(control._replace(sink="keyless-dying-after-commit"), is_killed=True)
    run_driver(control._replace(sink="keyless"), is_killed=False)
    duplicates = sum(times - 1 for times in copies(server).values())
    assert duplicates, f"{before} and no duplicates: the control shows nothing"
    return duplicates


if __name__ == "__main__":
    print(million(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
