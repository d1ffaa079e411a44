"""A report as one page of HTML that needs nothing else: readable on a telephone, light and dark, and without eyes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from penstock.jobs.report import QueueReport
from penstock.jobs.report_counts import TimeCounts
from penstock.jobs.report_groups import STEPS, GroupCounts, quantile_ms
from penstock.jobs.report_plots import Axis, Plot, area, bar, columns, number_text
from penstock.jobs.report_style import STYLE

_SPANS = 120
_HOT_KEYS = 15
_KEY_CHARACTERS = 60
_QUANTILES = (0.5, 0.9, 0.99)

Cell = str | int
"""a text is HTML already"""


def page(reports: Sequence[QueueReport], title: str, made_ms: int) -> str:
    """All of it, in UTF-8 when it is written."""
    contents = "".join(f'<li><a href="#q{number}">{escape(each.queue)}</a></li>' for number, each in enumerate(reports))
    sections = "".join(_queue(each, number, made_ms) for number, each in enumerate(reports))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<header><h1>{escape(title)}</h1><p>Made {_moment(made_ms)}.</p></header>"
        f'<nav aria-label="Queues"><ul>{contents}</ul></nav><main>{sections}</main></body></html>\n'
    )


def _queue(report: QueueReport, number: int, made_ms: int) -> str:
    name = f"q{number}"
    parts = [_totals(report), *_throughput(report.rows.times, name), _latency(report, name), _sizes(report, name)]
    parts += [_hot_keys(report), _lag(report, made_ms), _retries(report), _letters(report)]
    return f'<section id="{name}"><h2>{escape(report.queue)}</h2>{"".join(parts)}</section>'


def _totals(report: QueueReport) -> str:
    rows = report.rows
    facts = [("messages", f"{rows.rows:,}"), ("bytes of values", f"{number_text(rows.size_bytes)}B")]
    facts += [("groups", str(len(report.groups))), ("dead letters", f"{sum(report.letters.values()):,}")]
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return f'<dl class="totals">{cells}</dl>'


def _throughput(times: TimeCounts, name: str) -> Iterable[str]:
    shown = times.shown(_SPANS)
    spans = sorted(shown.rows)
    if not spans:
        return [_nothing("Throughput", "No messages in this time.")]
    seconds = shown.width_ms / 1000
    starts = [_moment(span * shown.width_ms) for span in spans]
    axis = Axis([(0, starts[0][5:16]), (1, starts[-1][5:16])])
    found = []
    for title, unit, counts in (("Messages a second", "/s", shown.rows), ("Bytes a second", "B/s", shown.size_bytes)):
        rates = [counts[span] / seconds for span in spans]
        summary = (
            f"{title} from {starts[0]} to {starts[-1]}, in spans of {seconds:g} s: at most {number_text(max(rates))}, "
            f"{number_text(sum(rates) / len(rates))} on average."
        )
        plot = Plot(f"{name}-{'rows' if unit == '/s' else 'bytes'}", title, summary, unit, rates, axis)
        table = _table(
            ["from", title.lower()], [[start, number_text(rate)] for start, rate in zip(starts, rates, strict=True)]
        )
        found.append(_figure(title, summary, area(plot), table))
    return found


def _latency(report: QueueReport, name: str) -> str:
    title = "From publish to settlement"
    known = {group: counts.latencies for group, counts in sorted(report.groups.items()) if counts.latencies}
    if not known:
        return _nothing(title, "Nothing is known of when messages were settled.")
    every: Counter[int] = Counter()
    for latencies in known.values():
        every.update(latencies)
    powers = _by_power(every)
    labels = [f"{_duration(2**power - 1)}" for power in range(len(powers))]
    summary = (
        f"{sum(every.values()):,} settlements of {len(known)} groups, as far back as the broker keeps them: half took "
        f"less than {_duration(quantile_ms(every, 0.5) or 0)}, one in a hundred more than "
        f"{_duration(quantile_ms(every, 0.99) or 0)}."
    )
    axis = Axis([((at + 0.5) / len(powers), labels[at]) for at in _spread(len(powers))])
    rows: list[list[Cell]] = [
        [
            escape(group),
            sum(latencies.values()),
            *(_duration(quantile_ms(latencies, share) or 0) for share in _QUANTILES),
        ]
        for group, latencies in known.items()
    ]
    table = _table(["group", "settled", *(f"{share:.0%} within" for share in _QUANTILES)], rows)
    plot = columns(Plot(f"{name}-latency", title, summary, "", powers, axis))
    return _figure(title, summary, plot, _table(["from", "settled"], list(zip(labels, powers, strict=True)))) + table


def _sizes(report: QueueReport, name: str) -> str:
    title, sizes = "Sizes of values", report.rows.sizes
    if not sizes:
        return _nothing(title, "No messages in this time.")
    counts = [sizes[power] for power in range(max(sizes) + 1)]
    labels = [_bytes(0 if power == 0 else 1 << (power - 1)) for power in range(len(counts))]
    mean = report.rows.size_bytes / max(1, report.rows.rows)
    summary = f"{number_text(mean)}B on average; the largest have {labels[-1]} or more."
    axis = Axis([((at + 0.5) / len(counts), labels[at]) for at in _spread(len(counts))])
    plot = columns(Plot(f"{name}-sizes", title, summary, "", counts, axis))
    return _figure(title, summary, plot, _table(["from", "messages"], list(zip(labels, counts, strict=True))))


def _hot_keys(report: QueueReport) -> str:
    keys, rows = report.rows.keys, report.rows.rows
    if not keys.rows:
        return _nothing("Hot keys", "No message has a key.")
    hottest = keys.rows.most_common(_HOT_KEYS)
    about = "" if keys.is_exact else " There are many keys: counts of these are lower bounds."
    summary = f"{report.rows.unkeyed:,} messages have no key.{about}"
    table = _bars("key", "messages", [(_key(key), count) for key, count in hottest], rows)
    return f"<h3>Hot keys</h3><p>{summary}</p>{table}"


def _lag(report: QueueReport, made_ms: int) -> str:
    if not report.groups:
        return _nothing("Lag", "No group consumes this queue.")
    rows: list[list[Cell]] = [
        [escape(group), counts.lag, counts.in_flight, _age(counts, made_ms)]
        for group, counts in sorted(report.groups.items())
    ]
    table = _table(["group", "not settled", "of these delivered", "oldest"], rows)
    return f"<h3>Lag</h3>{table}"


def _retries(report: QueueReport) -> str:
    found = {group: counts for group, counts in sorted(report.groups.items()) if counts.retried or counts.redeliveries}
    if not found:
        return _nothing("Retries", "Nothing came back, as far back as the broker keeps that.")
    rows: list[list[Cell]] = [
        [escape(group), counts.retried, counts.failures, counts.redeliveries] for group, counts in found.items()
    ]
    return f"<h3>Retries</h3>{_table(['group', 'messages that failed', 'failures', 'delivered again'], rows)}"


def _letters(report: QueueReport) -> str:
    if not report.letters:
        return _nothing("Dead letters", "There are none.")
    named = [(f"{escape(reason)} ({escape(group)})", count) for (reason, group), count in report.letters.most_common()]
    return f"<h3>Dead letters</h3>{_bars('reason (group)', 'messages', named, sum(report.letters.values()))}"


def _figure(title: str, summary: str, plot: str, table: str) -> str:
    return (
        f"<h3>{title}</h3><figure>{plot}<figcaption>{escape(summary)}</figcaption>"
        f"<details><summary>{title} as a table</summary>{table}</details></figure>"
    )


def _nothing(title: str, said: str) -> str:
    return f"<h3>{title}</h3><p>{said}</p>"


def _table(names: Sequence[str], rows: Iterable[Sequence[Cell | float]]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{_cell(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _bars(what: str, unit: str, counts: Sequence[tuple[str, int]], whole: int) -> str:
    largest = max(count for _, count in counts)
    rows: list[list[Cell]] = [
        [name, count, f"{count / max(1, whole):.1%}", bar(count / largest)] for name, count in counts
    ]
    return _table([what, unit, "share", '<span class="unseen">as a bar</span>'], rows)


def _cell(cell: Cell | float) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _by_power(latencies: Counter[int]) -> list[int]:
    """Eighths of powers of two together."""
    counts = [0] * (max(latencies) // STEPS + 1)
    for step, count in latencies.items():
        counts[step // STEPS] += count
    return counts


def _spread(count: int) -> list[int]:
    """Numbers of the labels for which there is room."""
    return list(range(0, count, max(1, -(-count // 6))))


def _key(key: bytes) -> str:
    shown = key.decode(errors="backslashreplace")
    shown = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in shown)
    cut = shown if len(shown) <= _KEY_CHARACTERS else shown[: _KEY_CHARACTERS - 1] + "…"
    return f"<code>{escape(cut)}</code>"


def _age(counts: GroupCounts, made_ms: int) -> str:
    return "none" if counts.oldest_ms is None else _duration(max(0, made_ms - counts.oldest_ms))


def _duration(ms: float) -> str:
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if ms >= size:
            return f"{ms / size:.3g} {unit}"
    return f"{ms:.3g} ms"


def _bytes(size: int) -> str:
    for limit, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= limit:
            return f"{size // limit} {unit}"
    return f"{size} B"


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
