"""kill -9 while stored and volatile queues get the same messages: the stored ones have all that was acknowledged, the
volatile ones are gone with their bindings, and what only they had was never on the disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.crash.volatile_worker import MARK
from tests.support.loop import run

from penstock.broker.broker import Broker
from penstock.log.batch import Batch

ROUNDS, EACH = 4, 40


def acknowledged(directory: Path) -> int:
    """What a worker said before it was killed."""
    said = 0
    command = [sys.executable, "-m", "tests.crash.volatile_worker", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        for count, line in enumerate(worker.stdout):
            said = int(line)
            if count == EACH:
                worker.kill()
        worker.wait()
    return said


async def look(directory: Path, said: int) -> None:
    broker = await Broker.open(directory)
    try:
        assert [queue.name for queue in broker.queues] == ["stored"]
        bound = {(each.destination.name, each.key) for each in broker.exchanges.bindings("default")}
        assert bound == {("stored", "k")}
        logs = {log.name for log in broker.shard.logs}
        assert not any("own" in name or "same" in name or "brief" in name for name in logs)
        data = broker.queue("stored").units[0].data
        values = [row.value for batch in broker.shard.reader.batches(data, data.start) for row in Batch.parse(batch)]
        assert values == [b"%d" % number for number in range(len(values))]
        assert len(values) >= said
    finally:
        await broker.close()


def test_what_is_stored_is_whole_and_what_is_volatile_is_gone(tmp_path: Path) -> None:
    for _ in range(ROUNDS):
        said = acknowledged(tmp_path)
        assert said > 0
        for path in tmp_path.rglob("*"):
            assert not path.is_file() or MARK not in path.read_bytes()
        run(look(tmp_path, said))
