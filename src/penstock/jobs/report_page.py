"""A report as one page of HTML that needs nothing else: readable on a telephone, light and dark, and without eyes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from penstock.jobs.report import QueueReport
from penstock.jobs.report_counts import TimeCounts
from penstock.jobs.report_groups import STEPS, quantile_ms
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
    sections = "".join(_queue(each, number, made_ms) for number, each in enumerate(reports))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<header><h1>{escape(title)}</h1><p>Made {_moment(made_ms)}.</p></header>"
        f'<nav aria-label="Queues">{_overview(reports, made_ms)}</nav><main>{sections}</main></body></html>\n'
    )


def _overview(reports: Sequence[QueueReport], made_ms: int) -> str:
    """A line for each queue, and all of them together."""
    rows: list[list[Cell]] = []
    for number, each in enumerate(reports):
        link = f'<a href="#q{number}">{escape(each.queue)}</a>'
        rows.append([link, *_sums([each], made_ms)])
    if len(reports) > 1:
        rows.append(["all", *_sums(reports, made_ms)])
    return _table(["queue", "messages", "size", "groups", "largest lag", "oldest unsettled", "dead letters"], rows)


def _sums(reports: Sequence[QueueReport], made_ms: int) -> list[Cell]:
    groups = [counts for each in reports for counts in each.groups.values()]
    oldest = min((counts.oldest_ms for counts in groups if counts.oldest_ms is not None), default=None)
    return [
        sum(each.rows.rows for each in reports),
        f"{number_text(sum(each.rows.size_bytes for each in reports))}B",
        len(groups),
        max((counts.lag for counts in groups), default=0),
        _age(oldest, made_ms),
        sum(sum(each.letters.values()) for each in reports),
    ]


def _queue(report: QueueReport, number: int, made_ms: int) -> str:
    name = f"q{number}"
    parts = [*_throughput(report.rows.times, name), _latency(report, name), _sizes(report, name)]
    parts += [_hot_keys(report), _lag(report, made_ms), _retries(report), _letters(report)]
    body = "".join(f'<div class="part">{part}</div>' for part in parts)
    title = f"<h2>{escape(report.queue)}</h2>"
    return f'<section id="{name}">{title}{_totals(report, made_ms)}<div class="parts">{body}</div></section>'


def _totals(report: QueueReport, made_ms: int) -> str:
    names = ("messages", "size of values", "groups", "largest lag", "oldest unsettled", "dead letters")
    facts = zip(names, map(_cell, _sums([report], made_ms)), strict=True)
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return f'<dl class="totals">{cells}</dl>'


def _throughput(times: TimeCounts, name: str) -> Iterable[str]:
    shown = times.shown(_SPANS)
    spans = sorted(shown.rows)
    if not spans:
        return [_nothing("Throughput", "No messages in this time.")]
    seconds = shown.width_ms / 1000
    starts = [_moment(span * shown.width_ms) for span in spans]
    axis = Axis(list(enumerate(_ends(starts[0], starts[-1]))))
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
        f"{sum(every.values()):,} settlements of {len(known)} group{'s' * (len(known) != 1)}, as far back as "
        f"the broker keeps them. {_quantiles_said(every)}"
    )
    axis = Axis([((at + 0.5) / len(powers), labels[at]) for at in _spread(len(powers))])
    rows: list[list[Cell]] = [
        [
            escape(group),
            sum(latencies.values()),
            *(_known_duration(quantile_ms(latencies, share)) for share in _QUANTILES),
        ]
        for group, latencies in known.items()
    ]
    table = _table(["group", "settled", *(f"{share:.0%} within" for share in _QUANTILES)], rows)
    plot = columns(Plot(f"{name}-latency", title, summary, "", powers, axis, is_count=True))
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
    plot = columns(Plot(f"{name}-sizes", title, summary, "", counts, axis, is_count=True))
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
        [escape(group), counts.lag, counts.in_flight, _age(counts.oldest_ms, made_ms)]
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


def _quantiles_said(latencies: Counter[int]) -> str:
    known = [(share, value) for share in _QUANTILES if (value := quantile_ms(latencies, share)) is not None]
    said = ", ".join(f"{share:.0%} within {_duration(value)}" for share, value in known)
    return f"{said}." if said else "Too few to say how long they take."


def _known_duration(ms: float | None) -> str:
    return "too few" if ms is None else _duration(ms)


def _age(oldest_ms: int | None, made_ms: int) -> str:
    return "none" if oldest_ms is None else _duration(max(0, made_ms - oldest_ms))


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


def _ends(first: str, last: str) -> tuple[str, str]:
    """Of two moments what an axis has room for: day and minute, or within a minute the time with its seconds."""
    if first[:16] == last[:16]:
        return first[11:19], last[11:19]
    return first[5:16], last[5:16]


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
