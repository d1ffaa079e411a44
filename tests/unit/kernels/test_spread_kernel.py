from __future__ import annotations

import random
from array import array
from itertools import accumulate

import pytest

from penstock.core.errors import InvalidArgument, TooLarge
from penstock.core.types import LogName, LogNumber
from penstock.kernels import spread as kernel
from penstock.log.batch import encode, seal
from penstock.log.columns import Columns, Spans
from penstock.log.journal.spread import Spread
from penstock.log.partition import Log
from penstock.log.reading.bounds import Bounds
from penstock.log.records import LogSettings

_OPTIONAL = ("keys", "topics", "properties", "native", "expiry")


def words(values: list[int]) -> array[int]:
    return array("q", values)


def logs(count: int) -> list[Log]:
    return [Log(LogNumber(i), LogName(f"log-{i}"), LogSettings(), Bounds()) for i in range(count)]


def some_columns(rng: random.Random, count: int) -> Columns:
    def texts(most: int) -> list[bytes]:
        return [rng.randbytes(rng.randrange(most)) for _ in range(count)]

    columns: dict[str, list[bytes]] = {name: texts(20) for name in _OPTIONAL[:-1] if rng.random() < 0.5}
    if "topics" in columns:
        columns["topics"] = [b"topic/%d" % rng.randrange(5) for _ in range(count)]
    expiry = [rng.randrange(1 << 50) for _ in range(count)] if rng.random() < 0.5 else None
    made = Columns.of(texts(300), expiry=expiry, **columns)
    made.producer_id, made.producer_epoch, made.base_sequence = rng.randrange(1 << 64), rng.randrange(1 << 16), 7
    return made


def one_by_one(
    columns: Columns, counts: list[int], firsts: array[int], epochs: array[int], times: array[int]
) -> list[bytes]:
    made = []
    for i, stop in enumerate(accumulate(counts)):
        batch = encode(columns.part(stop - counts[i], stop))
        seal(batch, firsts[i], epochs[i], times[i])
        made.append(bytes(batch))
    return made


@pytest.mark.parametrize("seed", range(30))
def test_batches_for_many_logs_are_those_made_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    counts = [rng.randrange(1, 8) for _ in range(rng.randrange(1, 20))]
    columns = some_columns(rng, sum(counts))
    firsts = words([rng.randrange(1 << 62) for _ in counts])
    epochs = words([rng.randrange(1 << 32) for _ in counts])
    times = words([rng.randrange(1 << 50) for _ in counts])
    spread = Spread(columns, array("i", counts), logs(len(counts)))
    assert [bytes(batch) for batch in spread.sealed(firsts, epochs, times)] == one_by_one(
        columns, counts, firsts, epochs, times
    )


@pytest.mark.parametrize("counts", [[3, 0], [2, 2], [2], [4, -1]])
def test_rows_and_logs_have_to_match(counts: list[int]) -> None:
    spread = Spread(Columns.of([b"a", b"b", b"c"]), array("i", counts), logs(len(counts)))
    zeros = words([0] * len(counts))
    with pytest.raises(InvalidArgument):
        spread.sealed(zeros, zeros, zeros)


@pytest.mark.parametrize(
    "columns",
    [
        Columns(2, b"abc", Spans(array("i", [0, 1]), array("i", [1, 4]))),
        Columns(2, b"abc", Spans(array("i", [0, 2]), array("i", [1, 1]))),
        Columns(2, b"abc", Spans(array("i", [0, 1]), array("i", [1]))),
        Columns(
            2,
            b"abc",
            Spans(array("i", [0, 1]), array("i", [1, 2])),
            topic_index=array("i", [0, 1]),
            topics=Spans(array("i", [0]), array("i", [1])),
        ),
    ],
)
def test_what_leaves_its_source_is_refused(columns: Columns) -> None:
    spread = Spread(columns, array("i", [1, 1]), logs(2))
    with pytest.raises(InvalidArgument):
        spread.sealed(words([0, 0]), words([0, 0]), words([0, 0]))


@pytest.mark.parametrize(("firsts", "epochs", "times"), [([-1], [0], [0]), ([0], [1 << 32], [0]), ([0], [0], [-1])])
def test_a_stamp_out_of_range_is_refused(firsts: list[int], epochs: list[int], times: list[int]) -> None:
    spread = Spread(Columns.of([b"a"]), array("i", [1]), logs(1))
    with pytest.raises(InvalidArgument):
        spread.sealed(words(firsts), words(epochs), words(times))


def test_too_much_is_refused_before_it_is_made() -> None:
    columns = Columns.of([bytes(100), bytes(100)])
    empty = array("i"), array("i")
    rows = kernel.Rows(
        columns.source,
        128,
        array("q"),
        array("i"),
        empty,
        empty,
        empty,
        empty,
        (columns.value.starts, columns.value.ends),
    )
    words = array("q", [0, 0])
    with pytest.raises(TooLarge, match="batch body"):
        kernel.build(100, rows, array("i", [1, 1]), words, words, words, 0, 0, 0)
    with pytest.raises(TooLarge, match="the commit"):
        kernel.build(300, rows, array("i", [1, 1]), words, words, words, 0, 0, 0)
