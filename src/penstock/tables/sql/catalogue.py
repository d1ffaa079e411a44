"""Which queues a query means by its tables, and what its errors say to people."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import duckdb

from penstock.tables.sql.dataset import QueueDataset, Shown, Table
from penstock.tables.sql.errors import SqlFailed

# As many are listed by `show tables`, and so many are named by an error.
_SHOWN_QUEUES = 1_000
_NAMED_QUEUES = 8

_KIND = re.compile(r"^[A-Za-z ]*(Error|Exception): ")
_PLACE = re.compile(r"\n\nLINE 1: .*", re.DOTALL)
_NO_TABLE = re.compile(r"Table with name (.+?) does not exist")
_OFFSET = re.compile(r'(?<![."])\boffset\b(?!")', re.IGNORECASE)
_OFFSET_ADVICE = 'offset is a word of SQL: as a column it is written "offset", or behind its table, like orders.offset'


class Source(Protocol):
    """Where the tables are."""

    def queues(self) -> list[str]: ...
    def open_table(self, queue: str) -> Table:
        """For one thread. NoSuchQueue."""


class Catalogue:
    """Of one query."""

    def __init__(
        self, source: Source, connection: duckdb.DuckDBPyConnection, query: str, shown: Shown = Shown.TEXT
    ) -> None:
        self._source, self._connection, self._query, self._shown = source, connection, query, shown
        self._known: list[str] = []
        self.datasets: dict[str, QueueDataset] = {}

    def register(self) -> None:
        """The queues whose names are in it; if there are none (`show tables`), all. SqlFailed for names of which SQL
        cannot tell which queue they mean."""
        self._known = self._source.queues()
        # Not by DuckDB's own list of a query's tables: it wants to know their columns for some queries.
        text = self._query.replace('""', '"').casefold()
        named = [queue for queue in self._known if queue.casefold() in text]
        _check_letters(named)
        for queue in named or self._known[:_SHOWN_QUEUES]:
            self._register(queue)

    @contextmanager
    def errors_told(self) -> Iterator[None]:
        """What ended the reading of a queue is raised as it was; what DuckDB says, in plain words."""
        try:
            yield
        except duckdb.InterruptException:
            raise KeyboardInterrupt from None
        except duckdb.OutOfMemoryException as error:
            raise SqlFailed(
                f"{_plain(str(error)).splitlines()[0]}: allow more memory (--memory), or ask for less"
            ) from None
        except duckdb.Error as error:
            failed = next((each.failure for each in self.datasets.values() if each.failure is not None), None)
            raise failed or SqlFailed(self._told(str(error))) from None

    def _register(self, queue: str) -> None:
        dataset = QueueDataset(queue, partial(self._source.open_table, queue), self._shown)
        self._connection.register(queue, dataset)
        self.datasets[queue] = dataset

    def _told(self, text: str) -> str:
        if (missing := _NO_TABLE.search(text)) is not None:
            return self._no_table(missing[1])
        said = _plain(text)
        if "syntax error" in said and _OFFSET.search(self._query):
            return f"{said}; {_OFFSET_ADVICE}"
        return said

    def _no_table(self, name: str) -> str:
        near = difflib.get_close_matches(name, self._known, 1)
        if near:
            return f"no queue {name!r}: did you mean {_quoted(near[0])}?"
        if not self._known:
            return f"no queue {name!r}: there are none"
        more = ", …" if len(self._known) > _NAMED_QUEUES else ""
        return f"no queue {name!r}: there are {', '.join(map(_quoted, self._known[:_NAMED_QUEUES]))}{more}"


def _plain(text: str) -> str:
    return _KIND.sub("", _PLACE.sub("", text)).strip()


def _check_letters(queues: list[str]) -> None:
    counted = Counter(queue.casefold() for queue in queues)
    if alike := [queue for queue in queues if counted[queue.casefold()] > 1]:
        raise SqlFailed(
            f"queues {' and '.join(alike)} differ by capital letters, which SQL does not see: a query cannot name one "
            f"of them"
        )


def _quoted(name: str) -> str:
    """As it is written in a query."""
    is_plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) is not None
    return name if is_plain else '"' + name.replace('"', '""') + '"'
