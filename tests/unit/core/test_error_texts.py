"""Every text that an error of Penstock is raised with, read from the source: what happened in ordinary words, and what
to do about it where its class is for people who can do something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent
# What these are raised with is part of a sentence that the class makes, or a code.
PARTS = {
    "TooLarge",
    "MqttRefused",
    "ExchangeLimit",
    "ExchangeReserved",
    "BadConfiguration",
    "InvalidSetting",
    "BadKeys",
}
NAMED, ASSIGNED = {"reason", "text", "detail", "advice", "why", "_ADVICE"}, "assigned"
"""Texts that get a name before an error has them, or a log line or a finding"""
CODES = {"_bad_frame", "LookupError", "KeyError"}
# What people did that can be done in another way: the text says how.
ADVISING = {"click.UsageError", "click.BadParameter", "UnsupportedPlatform", "NotThere", "DiskLow", "DirectoryInUse"}
ADVICE = re.compile(r"[:;,.(] ?[\w{]|`| or |\bgive\b|\bneeds\b|exclude each other")

UNPLAIN = (
    " anew", "goes on", "go on where", "is there twice", " is none", "is no ", "are none", "by itself", "will not do",
    "cannot be seen", "is said", "are said", "of ours", "that wait", "a half of", "likes ", "what is not named",
    "was never told", "striking", "mended", "begins like", "whose turn", "in vain", "such that begin",
    "as whom", "that are meant", "what it may do", " : ", "please", "oops", "sorry",
)  # fmt: skip
"""Words of people who think in another language, or of nobody: each was in a text once"""
PLAIN_ALL_THE_SAME = re.compile(r"\bthere is no |\bis no longer|acks is none")
BARE = re.compile(r"\{(self|error!r|exc|exc!r|locals\(\)|vars\(.*\)|repr\(.*\))\}")
"""What shows an object as Python has it"""


class Text(NamedTuple):
    where: str
    kind: str
    """the class, as it is written there"""
    text: str
    """what is filled in later is in braces"""


def texts() -> list[Text]:
    return [text for file in sorted(SOURCE.rglob("*.py")) for text in _texts_of(file)]


def _texts_of(file: Path) -> Iterator[Text]:
    for node in ast.walk(ast.parse(file.read_text())):
        raised = node.exc if isinstance(node, ast.Raise) else node
        if isinstance(node, ast.Assign) and {ast.unparse(target) for target in node.targets} & NAMED:
            where = f"{file.relative_to(SOURCE)}:{node.lineno}"
            yield from (Text(where, ASSIGNED, text) for text in _written(node.value))
        if not isinstance(raised, ast.Call):
            continue
        kind = ast.unparse(raised.func)
        if isinstance(node, ast.Raise) or kind in ("Refused", "super().__init__"):
            given = [*raised.args, *(keyword.value for keyword in raised.keywords)]
            where = f"{file.relative_to(SOURCE)}:{raised.lineno}"
            yield from (Text(where, kind, text) for each in given for text in _written(each))


def _written(node: ast.expr) -> Iterator[str]:
    """The texts that an expression may be."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(_part(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            lefts, rights = list(_written(left)), list(_written(right))
            yield from (a + b for a in lefts or ["{}"] for b in rights or ["{}"] if lefts or rights)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _written(body)
            yield from _written(orelse)


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + ("!r" if node.conversion == ord("r") else "") + "}"
    assert isinstance(node, ast.Constant)
    return str(node.value)


TEXTS = texts()
SENTENCES = [
    each
    for each in TEXTS
    if each.kind not in PARTS | CODES | {ASSIGNED}
    and "%(" not in each.text
    and " " in re.sub(r"\{[^}]*\}", "x", each.text)
    and not each.text.startswith("/")
]


def odd(found: list[Text]) -> str:
    return "\n".join(f"{each.where} {each.kind}: {each.text}" for each in found)


def test_they_are_found() -> None:
    """As many as there are, of every part of the product."""
    assert len(SENTENCES) > 800
    rooms = {each.where.partition("/")[0] for each in SENTENCES}
    assert {
        "broker",
        "cli",
        "client",
        "codecs",
        "core",
        "gateways",
        "jobs",
        "log",
        "queues",
        "server",
        "spark",
    } <= rooms


@pytest.mark.parametrize("words", UNPLAIN)
def test_no_text_has_words_that_people_do_not_use(words: str) -> None:
    found = [each for each in TEXTS if words in PLAIN_ALL_THE_SAME.sub("", each.text.lower())]
    assert not found, odd(found)


def test_every_text_is_one_sentence_that_continues_a_line() -> None:
    """As `penstock: <text>` it is read: it begins small, but for names, and ends without a full stop."""
    names = re.compile(r"[a-z0-9{$'\"`#+-]|[A-Z][A-Z0-9]|(Penstock|Spark|Idempotency-Key)\b")
    found = [each for each in SENTENCES if not names.match(each.text) or each.text.endswith((".", "!", " ", ":", ","))]
    assert not found, odd(found)


def test_no_text_shows_an_object_as_python_has_it() -> None:
    found = [each for each in TEXTS if BARE.search(each.text)]
    assert not found, odd(found)


def test_who_can_do_something_is_told_what() -> None:
    found = [each for each in SENTENCES if each.kind in ADVISING and not ADVICE.search(each.text)]
    assert not found, odd(found)


def test_what_is_quoted_of_a_request_is_of_a_bounded_length_where_it_may_be_long() -> None:
    """Of what comes from the network a text has at most a part: errors are logged and sent back."""
    long = re.compile(r"\{(data|body|payload|packet|value|values|told|messages|rows|row)!r\}")
    found = [each for each in TEXTS if long.search(each.text)]
    assert not found, odd(found)
