"""Rows of any query, printed: values as people and programs read them."""

from __future__ import annotations

import base64
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal

import click
import msgspec

from penstock.cli.output import DATA_FORMATS, line_of, print_table

Row = Sequence[object]

# A value of a megabyte is no cell of a table; -o json has all of it.
_CELL_CHARACTERS = 200
_INT64 = 1 << 63


def print_rows(columns: Sequence[str], rows: Iterable[Row], output: str) -> None:
    """To standard output: a table, CSV, or a document for each row."""
    names = distinct(columns)
    if output == "table":
        _print_table(names, [[plain(value) for value in row] for row in rows])
    elif output in DATA_FORMATS:
        for row in rows:
            click.echo(line_of(dict(zip(names, map(plain, row), strict=True)), output), nl=False)
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([csv_cell(plain(value)) for value in row] for row in rows)


def distinct(columns: Sequence[str]) -> list[str]:
    """A name that is there again gets a number: as a key of an object it would hide the first one."""
    seen: Counter[str] = Counter()
    names: list[str] = []
    for column in columns:
        seen[column] += 1
        names.append(column if seen[column] == 1 else f"{column}_{seen[column]}")
    return names


def plain(value: object) -> object:
    """As JSON has it. Bytes are text if they can be, else base64; a moment is in UTC."""
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return value if -_INT64 <= value < 2 * _INT64 else str(value)
        case bytes():
            return _bytes_text(value)
        case Decimal():
            return float(value)
        case datetime():
            return _moment_text(value)
        case date() | time():
            return value.isoformat()
        case list() | tuple():
            return [plain(each) for each in value]
        case dict():
            return {str(plain(key)): plain(each) for key, each in value.items()}
    return str(value)


def csv_cell(value: object) -> object:
    """Nothing for null; lists and objects as JSON."""
    if isinstance(value, list | dict | bool):
        return msgspec.json.encode(value).decode()
    return "" if value is None else value


def table_cell(value: object) -> str:
    text = "null" if value is None else str(csv_cell(value))
    return text if len(text) <= _CELL_CHARACTERS else text[: _CELL_CHARACTERS - 1] + "…"


def _print_table(names: Sequence[str], rows: Sequence[Row]) -> None:
    numbers = [name for place, name in enumerate(names) if all(_is_number(row[place]) for row in rows)]
    print_table(names, [list(map(table_cell, row)) for row in rows], numbers=numbers)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _bytes_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def _moment_text(moment: datetime) -> str:
    if moment.tzinfo is None:
        return moment.isoformat()
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
