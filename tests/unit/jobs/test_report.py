"""A report of queues that worked: what it counts is what the broker says, and its page holds all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.core.errors import InvalidArgument, NoSuchQueue
from penstock.embedded.consumer import Consumer
from penstock.embedded.message import Message
from penstock.jobs.job import run
from penstock.jobs.local import InProcesses, InThisProcess
from penstock.jobs.ranges import TimeSpan
from penstock.jobs.report import QueueReport, plan_report
from penstock.jobs.report_counts import RowCounts, TimeCounts
from penstock.jobs.report_page import page
from penstock.jobs.report_plots import nice_ticks, number_text

_VOID = {"meta", "rect", "polygon", "polyline", "line", "br"}


def reports(directory: Path, *queues: str, span: TimeSpan | None = None) -> list[QueueReport]:
    return run(plan_report(directory, queues, "default", span or TimeSpan()), InThisProcess())


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 orders: `billing` settled them all, 3 as dead letters, one after it failed twice; `mail` settled none."""
    directory = tmp_path_factory.mktemp("worked")
    with penstock.open(directory) as database:
        database.declare("orders", partitions=2, retry_policy={"initial_backoff": "1ms"})
        database.put_many("orders", [b"x" * 100] * 300, keys=[b"k%d" % (number % 10) for number in range(300)])
        with database.consume("orders", group="mail") as messages:
            taken(messages)
        with database.consume("orders", group="billing") as messages:
            failing = taken(messages)
            failing.retry(delay=0)
            for number in range(301):
                message = taken(messages)
                if message.id == failing.id and message.delivery_count < 3:
                    message.retry(delay=0)
                elif number < 3:
                    message.dead_letter("no such customer")
                else:
                    message.ack()
        database.declare("empty<i>", partitions=1)
        lags = {group.name: group.lag for group in database.groups("orders")}
    assert lags == {"mail": 300, "billing": 0}
    return directory


def taken(messages: Consumer) -> Message:
    message = messages.get(timeout=10)
    assert message is not None
    return message


def test_rows_groups_and_dead_letters_are_counted(worked: Path) -> None:
    empty, orders = reports(worked)
    assert (orders.queue, orders.rows.rows, orders.rows.size_bytes) == ("orders", 300, 30_000)
    assert orders.rows.keys.rows.most_common(1)[0][1] == 30
    assert {group: counts.lag for group, counts in orders.groups.items()} == {"mail": 300, "billing": 0}
    assert orders.letters == {("rejected", "billing"): 3}
    billing, mail = orders.groups["billing"], orders.groups["mail"]
    assert billing.latencies.total() == 300
    assert mail.latencies.total() == 0
    assert (billing.retried, billing.failures) == (1, 2)
    assert billing.oldest_ms is None and mail.oldest_ms is not None
    assert (empty.queue, empty.rows.rows, empty.groups) == ("empty<i>", 0, {})


def test_processes_count_the_same(worked: Path) -> None:
    job = plan_report(worked, ["orders"], "default", TimeSpan())
    assert run(job, InProcesses(2)) == run(job, InThisProcess())


def test_a_time_chooses_what_is_counted(worked: Path) -> None:
    [orders] = reports(worked, "orders", span=TimeSpan(since_ms=4_000_000_000_000))
    assert orders.rows.rows == 0
    assert orders.groups["billing"].latencies.total() == 0
    assert orders.groups["mail"].lag == 300


def test_settlements_are_known_since_the_oldest_snapshot(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as database:
        database.declare("orders", partitions=1)
        with database.consume("orders", group="billing") as messages:
            for _ in range(3):
                database.put_many("orders", [b"x"] * 50)
                messages.ack_many([taken(messages) for _ in range(50)])
    [orders] = reports(tmp_path, "orders")
    assert orders.groups["billing"].latencies.total() == 150


def test_a_queue_that_is_not_there_is_said(worked: Path, tmp_path: Path) -> None:
    with pytest.raises(NoSuchQueue):
        reports(worked, "ordrs")
    with penstock.open(tmp_path):
        pass
    with pytest.raises(InvalidArgument, match="nothing to report"):
        reports(tmp_path)


class _Outline(HTMLParser):
    """Fails for tags that do not close; notes what the page would fetch, and what plots say."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def outline(worked: Path) -> Iterator[_Outline]:
    text = page(reports(worked), "Queues & <more>", 1_800_000_000_000)
    assert "<more>" not in text and "empty<i>" not in text
    found = _Outline()
    found.feed(text)
    assert found.open == []
    yield found


def test_the_page_needs_nothing_else_and_runs_nothing(outline: _Outline) -> None:
    tags = {tag for tag, _ in outline.seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "use", "image"}
    links = [attributes["href"] or "" for tag, attributes in outline.seen if tag == "a"]
    assert links and all(link.startswith("#") for link in links)


def test_every_plot_has_a_title_a_description_and_a_table(outline: _Outline) -> None:
    plots = [attributes for tag, attributes in outline.seen if tag == "svg" and attributes.get("role") == "img"]
    ids = [attributes["id"] for tag, attributes in outline.seen if tag in ("title", "desc") and "id" in attributes]
    assert len(plots) == 4 == len([tag for tag, _ in outline.seen if tag == "details"])
    assert sorted(" ".join(plot["aria-labelledby"] or "" for plot in plots).split()) == sorted(filter(None, ids))
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("first_ms", "last_ms", "labels"),
    [
        (0, 45_000, ["08:00:00", "08:00:45"]),
        (30_000, 90_000, ["01-15 08:00", "01-15 08:01"]),
        (0, 600_000, ["01-15 08:00", "01-15 08:10"]),
    ],
)
def test_both_ends_of_the_time_axis_can_be_told_apart(first_ms: int, last_ms: int, labels: list[str]) -> None:
    times, eight_ms = TimeCounts(), 1_800_000_000_000
    times.add(pa.array([eight_ms + first_ms, eight_ms + last_ms]), pa.array([1, 1]))
    text = page([QueueReport("orders", RowCounts(times=times))], "Queues", eight_ms + last_ms)
    assert all(f">{label}</text>" in text for label in labels)


def test_the_overview_adds_up_all_queues_and_has_the_largest_lag(worked: Path) -> None:
    found = reports(worked)
    text = page(found, "Queues", 1_800_000_000_000)
    overview = text[text.index("<nav") : text.index("</nav>")]
    names = re.findall(r'<th scope="col">([^<]*)</th>', overview)
    rows = [re.findall(r"<t[hd][^>]*>(?:<a[^>]*>)?([^<]*)", row) for row in overview.split("<tr>")[2:]]
    assert len(rows) == len(found) + 1 and rows[-1][0] == "all"
    last = dict(zip(names, rows[-1], strict=True))
    assert last["largest lag"] == "300"
    assert last["messages"] == str(sum(each.rows.rows for each in found))
    assert last["dead letters"] == "3"
    one = page(found[:1], "Queues", 1_800_000_000_000)
    assert ">all<" not in one[one.index("<nav") : one.index("</nav>")]


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [
        (0, [0, 1]),
        (0.03, [0, 0.01, 0.02, 0.03]),
        (1.1, [0, 0.5, 1, 1.5]),
        (51, [0, 20, 40, 60]),
        (9_999, [0, 5_000, 10_000]),
    ],
)
def test_axes_have_round_numbers(largest: float, ticks: list[float]) -> None:
    assert nice_ticks(largest) == pytest.approx(ticks)


@pytest.mark.parametrize(("largest", "ticks"), [(0, [0, 1]), (1, [0, 1]), (3, [0, 1, 2, 3]), (7, [0, 2, 4, 6, 8])])
def test_counts_have_whole_numbers(largest: int, ticks: list[int]) -> None:
    assert nice_ticks(largest, is_count=True) == ticks


def test_numbers_are_short() -> None:
    assert [number_text(value) for value in (0, 0.25, 950, 1234, 3_400_000)] == ["0", "0.25", "950", "1.23k", "3.4M"]
