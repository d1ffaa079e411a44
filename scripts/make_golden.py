"""Makes tests/golden: small data directories of this format version, and the records that opening them must give.

Run it once for a new format version, never again for an old one: the files are what released versions wrote."""

from __future__ import annotations

import base64
import gzip
import io
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from penstock.core.metrics import ShardMetrics
from penstock.core.types import Compression, Durability, TimestampMs
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.disk import RealDisk
from penstock.log.engine import Engine
from penstock.log.journal.journal import JournalOptions
from penstock.log.names import log_name
from penstock.log.options import ShardOptions
from penstock.log.partition import Log
from penstock.log.records import Compaction, Edit, LogSettings, Retention
from penstock.log.segments.index import places
from penstock.log.segments.keeper import KeeperOptions
from penstock.log.upkeep.compaction import execute, plan_compaction
from penstock.log.upkeep.format_file import FORMAT_VERSION
from penstock.log.upkeep.recovery import recover

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
OPTIONS = ShardOptions(
    journal=JournalOptions(file_bytes=16 << 10, limit_bytes=64 << 10, max_frame_bytes=8 << 10),
    keeper=KeeperOptions(flush_bytes=1 << 10, checkpoint_bytes=1 << 20, checkpoint_s=1e9),
    disk_reserve_bytes=0,
)
Contents = dict[str, dict[str, object]]


class GoldenClock:
    """A second for every look at it, so that the same run gives the same bytes."""

    def __init__(self) -> None:
        self.seconds = 0

    def now_ms(self) -> TimestampMs:
        self.seconds += 1
        return TimestampMs(1_700_000_000_000 + 1000 * self.seconds)

    def monotonic(self) -> float:
        return float(self.seconds)


def open_engine(directory: Path) -> Engine:
    disk, clock, metrics = RealDisk(directory), GoldenClock(), ShardMetrics()
    return Engine(disk, clock, OPTIONS, metrics, recover(disk, clock, OPTIONS, metrics), lambda call: call())


def contents(engine: Engine) -> Contents:
    """All that a reader can know of every log: bounds, epochs, settings, records."""
    engine.keeper.step()
    engine.keeper.flush_all()
    return {log.name: _log_contents(engine, log) for log in engine.logs.values() if log.number}


def _log_contents(engine: Engine, log: Log) -> dict[str, object]:
    view = engine.keeper.views[log.number]
    files = [(segment.path, segment.info.bytes) for segment in view.sealed]
    files += [(view.active.path, view.active.info.bytes)] if view.active is not None else []
    records: list[list[object]] = []
    for path, size in files:
        data = engine.keeper.files.map(path)
        for place in places(data, 0, size):
            batch = Batch.parse(data[place.position : place.position + place.bytes])
            records += [_fields(batch, i) for i in range(len(batch)) if batch.offsets()[i] >= log.start]
    return {
        "number": log.number,
        "start": log.start,
        "end": log.end,
        "epochs": [[epoch.epoch, epoch.start, epoch.previous_end] for epoch in log.bounds.epochs],
        "durability": log.settings.durability.name,
        "compression": log.settings.compression.name,
        "records": records,
    }


def _fields(batch: Batch, row: int) -> list[object]:
    fields = batch.key(row), batch.value(row), batch.topic(row), batch.properties(row), batch.native(row)
    packed = [None if field is None else base64.b64encode(field).decode() for field in fields]
    return [batch.offsets()[row], batch.timestamps()[row], batch.header.epoch, batch.expiry(row), *packed]


def _done(error: object) -> None:
    if error is not None:
        raise SystemExit(f"a commit failed: {error}")


def _commit(engine: Engine, *parts: tuple[Log, Columns]) -> None:
    engine.stage(list(parts), _done)
    engine.commit.step(sync=True)


def _edit(engine: Engine, log: Log, edit: Edit) -> None:
    engine.stage_edit(log, edit, _done)
    engine.commit.step(sync=True)


def _every_column(first: int, count: int) -> Columns:
    numbers = range(first, first + count)
    return Columns.of(
        [b"value %d " % i * (i % 7) for i in numbers],
        keys=[b"key %d" % (i % 5) if i % 3 else b"" for i in numbers],
        topics=[b"site/%d/temperature" % (i % 4) for i in numbers],
        properties=[b"\x26\x00\x04unit\x00\x01C" for _ in numbers],
        native=[b"native %d" % i for i in numbers],
        expiry=[1_900_000_000_000 + i if i % 2 else 0 for i in numbers],
    )


def write_all(engine: Engine) -> None:
    """What the format can hold: every compression, every column, every edit."""
    settings = {
        "plain": LogSettings(segment_bytes=2048, retention=Retention(time_s=86400.0)),
        "lz4": LogSettings(compression=Compression.LZ4, segment_bytes=4096),
        "zstd": LogSettings(compression=Compression.ZSTD, durability=Durability.INTERVAL),
        "trimmed": LogSettings(segment_bytes=1024),
        "edited": LogSettings(),
        "compacted": LogSettings(segment_bytes=1024, compaction=Compaction(lag_s=0.0, dirty_ratio=0.0)),
        "empty": LogSettings(durability=Durability.MEMORY),
        "deleted": LogSettings(),
    }
    created = engine.stage_create([(log_name("golden", name, "ü/0"), value) for name, value in settings.items()], _done)
    logs = dict(zip(settings, created, strict=True))
    for i in range(0, 60, 6):
        _commit(engine, *[(logs[name], _every_column(i, 6)) for name in ("plain", "lz4", "zstd")])
        _commit(
            engine, (logs["trimmed"], Columns.of([b"x" * 100, b"y" * 100])), (logs["deleted"], Columns.of([b"gone"]))
        )
        keyed = Columns.of([b"%d" % i * 40, b"last", b""], keys=[b"often", b"once %d" % i, b"tombstone"])
        _commit(engine, (logs["compacted"], keyed))
    _write_edits(engine, logs["edited"])
    _edit(engine, logs["trimmed"], Edit(start=7))
    engine.stage_delete(logs["deleted"], _done)
    engine.commit.step(sync=True)
    engine.keeper.write_checkpoint()
    _compact(engine, logs["compacted"])


def _write_edits(engine: Engine, log: Log) -> None:
    """Epochs, a gap, and a cut inside what was written."""
    _commit(engine, (log, Columns.of([b"epoch 0", b"still"])))
    _edit(engine, log, Edit(epoch=3))
    _commit(engine, (log, Columns.of([b"epoch 3"])))
    _edit(engine, log, Edit(end=log.end + (1 << 32)))
    _commit(engine, (log, Columns.of([b"behind the gap"])))
    cut = log.end
    _commit(engine, (log, Columns.of([b"cut off"])))
    engine.stage_truncate(log, cut, cut, None, _done)
    _commit(engine, (log, Columns.of([b"in its place"])))


def _compact(engine: Engine, log: Log) -> None:
    sealed = engine.keeper.checkpointed_state(log.number).sealed
    view = engine.keeper.views[log.number]
    plan = plan_compaction(log.name, view, sealed, log.settings, TimestampMs(1_800_000_000_000))
    if plan is None or (edit := execute(plan, engine.keeper.files.disk).edit) is None:
        raise SystemExit("nothing was compacted: the golden directory would lack it")
    _edit(engine, log, edit)


def write_clean(directory: Path) -> Contents:
    engine = open_engine(directory)
    write_all(engine)
    expected = contents(engine)
    if not engine.keeper.write_checkpoint(clean=True):
        raise SystemExit("no checkpoint could be written")
    _let_go(engine)
    return expected


def write_crashed(directory: Path) -> Contents:
    """As clean, then a restart and work that only the journal holds, the last frame of it torn."""
    write_clean(directory)
    engine = open_engine(directory)
    logs = {log.name.split("/")[1]: log for log in engine.logs.values() if log.number}
    for i in range(60, 90, 6):
        _commit(engine, *[(logs[name], _every_column(i, 6)) for name in ("plain", "lz4")])
    _edit(engine, logs["plain"], Edit(start=20))
    [late] = engine.stage_create([(log_name("golden", "late"), LogSettings())], _done)
    _commit(engine, (late, Columns.of([b"only in the journal"])))
    _let_go(engine)
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "copy"
        shutil.copytree(directory, copy)
        expected = contents(open_engine(copy))
    _tear(directory)
    return expected


def _tear(directory: Path) -> None:
    """Half of a frame that nobody acknowledged."""
    slot = max((directory / "journal").iterdir(), key=lambda path: path.read_bytes()[16:24][::-1])
    data = slot.read_bytes()
    last = data.rfind(b"PSTF")
    size = 40 + int.from_bytes(data[last + 32 : last + 36], "little")
    torn = bytearray(data[last : last + size // 16 * 8])
    torn[16:24] = (int.from_bytes(torn[16:24], "little") + 1).to_bytes(8, "little")
    slot.write_bytes(data[: last + size] + torn + data[last + size + len(torn) :])


def _let_go(engine: Engine) -> None:
    engine.journal.close()
    engine.keeper.close()


def pack(directory: Path, archive: Path) -> None:
    """The same bytes for the same files: sorted, without times and owners."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(directory.rglob("*")):
            info = tarfile.TarInfo(str(path.relative_to(directory)))
            info.mode, info.type = (0o755, tarfile.DIRTYPE) if path.is_dir() else (0o644, tarfile.REGTYPE)
            data = b"" if path.is_dir() else path.read_bytes()
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    archive.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


def make(name: str, write: Callable[[Path], Contents], target: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        expected = write(Path(place))
        pack(Path(place), target / f"{name}.tar.gz")
    text = json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=False)
    (target / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"{name}: {(target / f'{name}.tar.gz').stat().st_size} bytes")


def main(target: Path) -> None:
    target.mkdir(exist_ok=True)
    make(f"format-{FORMAT_VERSION}-clean", write_clean, target)
    make(f"format-{FORMAT_VERSION}-crashed", write_crashed, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN)
