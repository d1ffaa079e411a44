"""Which tables a query names, told from its words: enough to order steps and to find a wrong name without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"(?P<skip>\s+|--[^\n]*|/\*.*?\*/)"
    r"|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<quoted>`(?:[^`]|``)*`)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<other>.)",
    re.DOTALL,
)
# Words that end the list of tables behind FROM, in which commas set tables off.
_ENDS = frozenset(
    ("where", "group", "order", "having", "limit", "union", "intersect", "except", "minus", "window", "qualify")
)
_QUERIES = frozenset(("select", "with", "values", "from"))
_BEFORE_TABLES = frozenset(("lateral", "stream", "table"))
# Functions with a FROM of their own: extract(year from at).
_WITH_FROM = frozenset(("extract", "trim", "substring", "substr", "overlay", "position"))


@dataclass(frozen=True, slots=True)
class TableName:
    """`offset` is where in the query it is written."""

    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    offset: int

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind == "word" else ""

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted")


@dataclass(slots=True)
class _Level:
    """Inside one pair of parentheses: whether commas set tables off, and whether FROM belongs to a function."""

    in_tables: bool = False
    of_function: bool = False


def table_names(query: str) -> list[TableName]:
    """Every table that is named without a schema and is no CTE of the query, each time it is named."""
    tokens = list(_tokens(query))
    own = set(_own_names(tokens))
    return [found for found in _tables(tokens) if found.name.lower() not in own]


def _tokens(query: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(query):
        if found.lastgroup != "skip":
            yield _Token(str(found.lastgroup), found[0], found.start())


def _own_names(tokens: list[_Token]) -> Iterator[str]:
    """`name AS (` and `name (columns) AS (` of WITH."""
    for number, token in enumerate(tokens):
        if token.word == "as" and _text(tokens, number + 1) == "(" and number:
            before = number - 1
            if tokens[before].text == ")":
                while before and tokens[before].text != "(":
                    before -= 1
                before -= 1
            if before >= 0 and tokens[before].is_name:
                yield _plain(tokens[before]).lower()


def _tables(tokens: list[_Token]) -> Iterator[TableName]:
    levels, awaits = [_Level()], False
    for number, token in enumerate(tokens):
        if awaits and token.is_name and token.word not in _QUERIES:
            awaits = token.word in _BEFORE_TABLES
            if not awaits and _text(tokens, number + 1) not in (".", "("):
                yield TableName(_plain(token), token.offset)
        elif token.text == "(":
            is_function = bool(number) and tokens[number - 1].word in _WITH_FROM
            levels.append(_Level(in_tables=awaits, of_function=is_function))
        elif token.text == ")" and len(levels) > 1:
            levels.pop()
        else:
            awaits = _awaits_table(tokens, number, levels[-1])


def _awaits_table(tokens: list[_Token], number: int, level: _Level) -> bool:
    """Behind this token; keeps the level's account of whether commas set tables off."""
    token = tokens[number]
    if _begins_tables(tokens, number, level):
        level.in_tables = True
        return True
    if token.word in _ENDS or token.word in _QUERIES:
        level.in_tables = False
    return token.text == "," and level.in_tables


def _begins_tables(tokens: list[_Token], number: int, level: _Level) -> bool:
    token = tokens[number]
    if token.word == "join":
        return True
    # IS DISTINCT FROM compares.
    is_comparison = number > 1 and tokens[number - 1].word == "distinct" and tokens[number - 2].word in ("is", "not")
    return token.word == "from" and not level.of_function and not is_comparison


def _text(tokens: list[_Token], number: int) -> str:
    return tokens[number].text if number < len(tokens) else ""


def _plain(token: _Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
