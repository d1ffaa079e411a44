"""`python -m tests.spark.driver JSON`: a driver of its own, to be killed. The JSON is what run_driver() is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.spark.faulty_sinks import DRIVER, FAULTY, killing_once, slow_once
from tests.spark.pipelines import Pipeline, Step
from tests.spark.sessions import CLUSTER, LOCAL, small_session

__all__ = ["CLUSTER", "run_driver"]

_ROOT = Path(__file__).parents[2]
_LONGEST_S = 1200


def run_driver(pipeline: Pipeline, *, is_killed: bool, step: str = "", master: str = LOCAL, epochs: int = 0) -> None:
    """In another process, to its end, or for so many epochs. `step`: `killing` has a task killed, `twice` makes some so
    slow that others run beside them, in a cluster."""
    said = {**pipeline._asdict(), "checkpoint": str(pipeline.checkpoint), "step": step, "master": master}
    command = [sys.executable, "-m", "tests.spark.driver", json.dumps({**said, "epochs": epochs})]
    ran = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=_LONGEST_S)
    assert (ran.returncode != 0) == is_killed, ran.stdout[-2000:] + ran.stderr[-6000:]


def main(said: Mapping[str, str | int]) -> None:
    checkpoint = str(said["checkpoint"])
    os.environ[DRIVER] = f"{checkpoint}.driver"
    pipeline = Pipeline(str(said["url"]), Path(checkpoint), str(said["sink"]), int(said["max_offsets"]))
    with small_session(Path(f"{checkpoint}.spark"), str(said["master"])) as spark:
        for faulty in FAULTY:
            spark.dataSource.register(faulty)
        # The JVM is the driver; its process id is asked for in the JVM, as it may have been started by a script.
        pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]  # by py4j
        Path(os.environ[DRIVER]).write_text(str(pid))
        query = pipeline.start(spark, _step(str(said["step"]), checkpoint))
        while not query.awaitTermination(1):
            if said["epochs"] and len(list((pipeline.checkpoint / "commits").glob("[0-9]*"))) >= int(said["epochs"]):
                query.stop()


def _step(name: str, checkpoint: str) -> Step | None:
    functions = {"killing": killing_once(f"{checkpoint}.killed"), "twice": slow_once()}
    function = functions.get(name)
    return None if function is None else lambda rows: rows.mapInArrow(function, "key binary, value binary")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
