from __future__ import annotations

import asyncio
import math

from tests.support.metrics import of, read

from penstock.core.metrics import Histogram
from penstock.telemetry.breather import Breather
from penstock.telemetry.samples import (
    NO_LABELS,
    Distribution,
    Family,
    Kind,
    Labels,
    Quantiles,
    Samples,
    Series,
    Value,
)
from penstock.telemetry.text import lines_of, write


def written(kind: Kind, *samples: tuple[Labels, Value]) -> str:
    page: Samples = {Family("some_name", kind, "What it is."): Series(*samples)}
    return asyncio.run(write(page, Breather())).decode()


def test_a_family_says_what_it_is_before_its_numbers() -> None:
    text = written(Kind.COUNTER, (Labels(("queue", "orders")), 3), (NO_LABELS, 0.5))
    assert (
        text == '# HELP some_name What it is.\n# TYPE some_name counter\nsome_name{queue="orders"} 3\nsome_name 0.5\n'
    )


def test_a_family_without_numbers_is_left_out() -> None:
    assert written(Kind.COUNTER) == ""


def test_names_from_clients_cannot_break_out_of_their_quotes() -> None:
    hostile = 'a"} 1\nevil{x="\\'
    text = written(Kind.GAUGE, (Labels(("queue", hostile)), 1))
    assert len(text.splitlines()) == 3
    assert of(read(text.encode()), "some_name", queue=hostile) == 1


def test_a_lone_surrogate_does_not_stop_the_page() -> None:
    assert "some_name" in written(Kind.GAUGE, (Labels(("queue", "a\ud800b")), 1))


def test_long_names_are_cut_and_stay_apart() -> None:
    [(_, first)] = Labels(("group", "x" * 60_000)).pairs
    [(_, second)] = Labels(("group", "x" * 60_001)).pairs
    assert len(first) < 256 and first != second


def test_buckets_of_a_histogram_add_up() -> None:
    histogram = Histogram((0.5, 1.0))
    for value in (0.1, 0.7, 0.7, 5.0):
        histogram.observe(value)
    found = Distribution(histogram.bounds, list(histogram.counts), histogram.total)
    assert list(lines_of("h", Labels(("queue", "q")), found)) == [
        'h_bucket{queue="q",le="0.5"} 1\n',
        'h_bucket{queue="q",le="1.0"} 3\n',
        'h_bucket{queue="q",le="+Inf"} 4\n',
        'h_sum{queue="q"} 6.5\n',
        'h_count{queue="q"} 4\n',
    ]


def test_a_summary_has_its_quantiles_sum_and_count() -> None:
    value = Quantiles([(0.5, 0.005), (0.99, math.nan)], 1.5, 3)
    assert list(lines_of("s", NO_LABELS, value)) == [
        's{quantile="0.5"} 0.005\n',
        's{quantile="0.99"} NaN\n',
        "s_sum 1.5\n",
        "s_count 3\n",
    ]


def test_others_have_a_turn_while_a_long_page_is_written() -> None:
    family = Family("some_name", Kind.GAUGE, "What it is.")
    page: Samples = {family: Series(*[(Labels(("queue", str(number))), number) for number in range(20_000)])}

    async def turns_meanwhile() -> int:
        turns, is_done = 0, asyncio.Event()

        async def count() -> None:
            nonlocal turns
            while not is_done.is_set():
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
        await write(page, Breather(slice_s=0.0))
        is_done.set()
        await counting
        return turns

    assert asyncio.run(turns_meanwhile()) >= 20_000 // 50
