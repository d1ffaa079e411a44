"""Rows on their way to a server."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

import pyarrow as pa
from pyarrow import flight

from penstock.client.errors import ConnectionLost
from penstock.client.flight.problems import FlightRefused, code_of, problem_of, translated
from penstock.client.flight.values import Placed, StagedRange
from penstock.core.errors import InvalidArgument

logger = logging.getLogger("penstock.client.flight")

# Enough to keep the server's disk busy while the next are on their way.
_WINDOW_BATCHES = 4
# A server takes 32 MiB at a time; smaller ones keep fewer bytes under way. Below a frame, so that each is all or none.
_BATCH_BYTES = 4 << 20

Open = Callable[[pa.Schema], tuple[flight.FlightStreamWriter, flight.FlightMetadataReader]]


class PutStream:
    """One DoPut. Batches are sent ahead of their answers, so many of them; answers come in the order of batches. One
    thread. What fails raises FlightRefused or ConnectionLost: batches that were not answered may be stored or not."""

    def __init__(self, open: Open) -> None:
        self._open = open
        self._writer: flight.FlightStreamWriter | None = None
        self._answers: flight.FlightMetadataReader | None = None
        self._waiting: deque[int] = deque()

    def write(self, batch: pa.RecordBatch) -> Iterator[dict[str, object]]:
        """The answers to earlier batches that were waited for."""
        if self._writer is None:
            with translated():
                self._writer, self._answers = self._open(batch.schema)
        elif len(self._waiting) >= _WINDOW_BATCHES:
            yield self._answer()
        try:
            self._writer.write_batch(batch)
        except (pa.ArrowException, OSError) as error:
            raise self._reason(error) from error
        self._waiting.append(batch.num_rows)

    def finish(self) -> Iterator[dict[str, object]]:
        """The answers that are still to come; then it is over."""
        if self._writer is None:
            return
        while self._waiting:
            yield self._answer()
        writer, self._writer = self._writer, None
        with translated():
            writer.close()

    def cancel(self) -> None:
        """No more is sent, and no answer is waited for."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except (pa.ArrowException, OSError):
                return  # whoever cancels has its reason

    def _answer(self) -> dict[str, object]:
        assert self._answers is not None
        try:
            data = self._answers.read()
        except (pa.ArrowException, OSError) as error:
            raise self._reason(error) from error
        if data is None:
            raise self._reason(None)
        said: dict[str, object] = json.loads(data.to_pybytes())
        if isinstance(refused := said.get("error"), dict):
            self.cancel()
            raise FlightRefused(code_of(refused["code"]), refused["reason"])
        if (created := said.get("created_queue")) is not None:
            logger.warning("created queue %r, which did not exist", created)
        if (rows := self._waiting.popleft()) != said["rows"]:
            raise ConnectionLost(f"the server answered {said['rows']} rows where {rows} were sent")
        return said

    def _reason(self, error: Exception | None) -> FlightRefused | ConnectionLost:
        """Of a call that has ended: closing it tells why."""
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                writer.close()
        except (pa.ArrowException, OSError) as found:
            error = found
        return ConnectionLost("the server ended the stream") if error is None else problem_of(error)


class Stager:
    """Stages batches of one task, in a stream that stays open. Use as a context: left without an error, all is staged
    and `ranges` is complete. One thread."""

    def __init__(self, open: Open) -> None:
        self._stream = PutStream(open)
        self.ranges: list[StagedRange] = []
        """that are stored durably, in the order of rows"""

    def __enter__(self) -> Stager:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.finish()
        else:
            self.cancel()

    def cancel(self) -> None:
        """No more is staged, and the stream ends."""
        self._stream.cancel()

    def stage(self, batch: pa.RecordBatch | pa.Table) -> list[StagedRange]:
        """Sent when it returns. The ranges of earlier batches that were answered meanwhile, also kept in `ranges`."""
        known = len(self.ranges)
        for each in batches_of(batch):
            for said in self._stream.write(each):
                self._note(said)
        return self.ranges[known:]

    def finish(self) -> list[StagedRange]:
        """The ranges of all other batches, once they are durable."""
        known = len(self.ranges)
        for said in self._stream.finish():
            self._note(said)
        return self.ranges[known:]

    def _note(self, said: dict[str, object]) -> None:
        staged = said["staged"]
        assert isinstance(staged, list)
        self.ranges += [StagedRange(**each) for each in staged]


def append(open: Open, data: pa.RecordBatch | pa.Table) -> list[Placed]:
    stream, placed = PutStream(open), list[Placed]()
    try:
        for batch in batches_of(data):
            placed += [place for said in stream.write(batch) for place in _placed(said)]
        placed += [place for said in stream.finish() for place in _placed(said)]
    except BaseException:
        stream.cancel()
        raise
    return placed


def _placed(said: dict[str, object]) -> Iterator[Placed]:
    places = said["placed"]
    assert isinstance(places, list)
    return (Placed(*place) for place in places)


def batches_of(data: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
    """None of them large."""
    if isinstance(data, pa.Table):
        for batch in data.to_batches():
            yield from batches_of(batch)
    elif not isinstance(data, pa.RecordBatch):
        raise InvalidArgument(f"rows come as a pyarrow RecordBatch or Table, not as {type(data).__name__}")
    elif data.num_rows:
        count = -(-data.nbytes // _BATCH_BYTES) or 1
        rows = max(1, -(-data.num_rows // count))
        for at in range(0, data.num_rows, rows):
            yield data.slice(at, rows)


def stream_of(batches: Sequence[pa.RecordBatch]) -> bytes:
    """As bytes, of batches of one schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
