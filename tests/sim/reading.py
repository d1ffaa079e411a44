"""Reading a shard's logs straight from their files, and holding them against the model."""

from __future__ import annotations

from collections.abc import Iterable

from tests.sim.model import Logs, ModelLog
from tests.support.simdisk import SimDisk

from penstock.core.types import LogNumber
from penstock.log.engine import Engine
from penstock.log.names import CATALOGUE_NUMBER
from penstock.log.partition import Log
from penstock.log.reading.bounds import Bounds
from penstock.log.reading.reading import LogReader
from penstock.log.segments.index import places
from penstock.log.segments.segments import WrittenView
from penstock.log.segments.side_segments import imported_version
from penstock.log.upkeep.recovery import Recovered


def batches_in(disk: SimDisk, view: WrittenView) -> list[bytes]:
    """The batches in the files; what the view says of each file is checked."""
    found: list[bytes] = []
    segments = [(segment.path, segment.info) for segment in view.sealed]
    if view.active is not None:
        segments.append((view.active.path, view.active.info))
    for path, info in segments:
        file = disk.open_read(path)
        data = file.map()[: info.bytes]
        file.close()
        there = list(places(data, 0, len(data)))
        assert sum(place.bytes for place in there) == info.bytes, f"{path}: {info.bytes} bytes are not all batches"
        assert sum(place.records for place in there) == info.records, f"{path}: not {info.records} records"
        assert not there or there[0].first == info.base, f"{path} begins with {there[0].first}"
        assert not there or there[-1].max_timestamp == info.max_timestamp, f"{path}: greatest timestamp"
        found += [bytes(data[place.position : place.position + place.bytes]) for place in there]
    return found


def check_bounds(number: int, expected: ModelLog, bounds: Bounds) -> None:
    epochs = tuple((epoch.epoch, epoch.start, epoch.previous_end) for epoch in bounds.epochs)
    found = (bounds.start, bounds.end, epochs)
    wanted = (expected.start, expected.end, expected.epochs)
    assert found == wanted, f"log {number}: start, end, epochs are {found}, should be {wanted}"


def check_recovered(disk: SimDisk, expected: Logs, opened: Recovered) -> None:
    """Every log is there, whole, and nothing else."""
    assert not opened.faults, f"faults after a crash: {opened.faults}"
    keeper = opened.keeper
    assert set(keeper.logs) - {CATALOGUE_NUMBER} == set(expected), "the set of logs"
    for number, log in expected.items():
        written = keeper.logs[LogNumber(number)]
        assert (written.name, written.settings) == (log.name, log.settings), f"settings of log {number}"
        assert opened.catalogue.numbers[log.name] == number
        assert not written.stopped, f"log {number} stays stopped though nothing fails any more: {written.stopped}"
        check_bounds(number, log, written.bounds)
        check_batches(number, log, batches_in(disk, written.view()))


def check_batches(number: int, expected: ModelLog, found: list[bytes]) -> None:
    """Files may begin below the log's start, with batches that are gone for readers."""
    wanted = expected.kept()
    below = len(found) - len(wanted)
    assert below >= 0, f"log {number}: {len(found)} batches, should be {len(wanted)}"
    assert found[below:] == wanted, f"log {number}: the batches differ"
    gone = {batch.data for batch in expected.batches if batch.end <= expected.start}
    assert set(found[:below]) <= gone, f"log {number}: batches below the start differ"


def check_readable(reader: LogReader, log: Log, expected: ModelLog) -> None:
    """What a reader in the process is shown, from the files and the hot tail: all that is committed, and no more."""
    wanted = [batch.data for batch in expected.batches if batch.end > log.start and batch.first < log.visible_end]
    found = [bytes(data) for data in reader.batches(log, log.start)]
    assert found == wanted, f"log {log.number}: {len(found)} batches are read, should be {len(wanted)}"


def files_below(disk: SimDisk, directory: str) -> Iterable[str]:
    for name in disk.list(directory):
        path = f"{directory}/{name}" if directory else name
        try:
            yield from files_below(disk, path)
        except NotADirectoryError:
            yield path


def _version(path: str) -> int:
    parts = path.rpartition("/")[2].split(".")
    return int(parts[1]) if len(parts) > 2 else 0


def check_no_strays(disk: SimDisk, engine: Engine) -> None:
    """After a checkpoint: no segment file that no log knows, unless a frame adopts it that the keeper has not taken.
    What was cut off beside it goes with the next one, what was trimmed or deleted with the next cut."""
    logs = engine.keeper.logs.values()
    known = {path for log in logs for path in log.paths()}
    outlived = {path for log in logs for path in (*log.outlived, *log.dropped)} | engine.keeper.files.leftovers
    going = tuple(f"{log.directory}/" for log in engine.keeper.going)
    coming = imported_version(engine.keeper.taken_sequence)
    files = {path for path in files_below(disk, "logs") if path.endswith(".seg") and not path.startswith(going)}
    found = {path for path in files if _version(path) < coming}
    assert known <= found <= known | outlived, f"strays {found - known - outlived}, missing {known - found}"
