"""What every command has in common: help, names of options, words."""

from __future__ import annotations

import click
import pytest
from tests.support.commands import commands, leaves, options_of, run_here

from penstock.cli.lazy import LazyGroup
from penstock.cli.main import penstock
from penstock.version import VERSION

NO_WORDS_FOR_PEOPLE = (
    "At most, at least, once", "Between looks", "Only this one", "Work in this one", "Of MQTT", "what makes a shell",
    "How many.", "How many publish", "whatever the keys", "What becomes of them", "is kept how far",
    "in other words", "Without more", "striking off", "that were asked for", "will not do", "is no damage",
    "are said", "that wait", "What it may do", "takes from all", "as whom", "Forget a", "Hand out", "Throw ", "Mend ",
    "anew", "goes on", "What stands", "what is said", "is said", "by itself", "What is not named", "that are meant",
    "that stays", "a line of its own", "What there is", "as far as it is", "Exit code 1 if letters", "as it is",
)  # fmt: skip
QUESTIONS = ("Who ", "What ", "Which ", "How ", "Where ")
"""how a description does not begin: it says what the command does"""


def help_of(words: tuple[str, ...]) -> str:
    ran = run_here(*words, "-h", variables={})
    assert ran.code == 0, words
    return ran.out.decode()


def test_h_means_help_everywhere() -> None:
    for words, command in commands().items():
        assert "-h" not in options_of(command), words
    assert help_of(("publish",)).startswith("Usage: penstock publish")
    assert help_of(("queue", "list")).startswith("Usage: penstock queue list")


def test_version_is_an_option_too() -> None:
    assert run_here("--version", variables={}).out.decode().strip() == VERSION


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["prodce", "orders"], "'produce'"),
        (["queue", "lst"], "'list'"),
        (["queue", "list", "--outptu", "json"], "'--output'"),
        (["serve", "--dta", "x"], "'--data'"),
    ],
)
def test_a_mistyped_command_or_option_is_answered_with_the_nearest(typed: list[str], meant: str) -> None:
    ran = run_here(*typed, variables={})
    assert ran.code == 2
    assert "Did you mean" in ran.err and meant in ran.err


def test_logins_are_given_alike_in_every_command() -> None:
    logins = {words: options_of(command) for words, command in leaves().items() if "-u" in options_of(command)}
    assert {("publish",), ("subscribe",), ("queue", "list"), ("sql",), ("context", "set")} <= logins.keys()
    for words, options in logins.items():
        assert options["-u"] is options["--username"], words
        # A rule is about a user, and who adds it is another one.
        assert options["-u"] is options["--user"] or words[0] == "acl", words
        assert "--password-file" in options, words


def test_every_option_and_command_says_what_it_is() -> None:
    silent = [
        (words, option.opts)
        for words, command in leaves().items()
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert not silent
    assert isinstance(penstock, LazyGroup)
    texts = [
        text for group in (penstock, *commands().values()) if isinstance(group, LazyGroup) for text in _summaries(group)
    ]
    texts += [
        option.help or ""
        for command in leaves().values()
        for option in command.params
        if isinstance(option, click.Option)
    ]
    assert not [text for text in texts if any(words in text for words in NO_WORDS_FOR_PEOPLE)]
    assert not [text for text in texts if text.startswith(("Of ", "How to ", "What ", "Who "))]


def test_every_description_is_plain_and_begins_with_what_the_command_does() -> None:
    texts = {words: _description(command) for words, command in {(): penstock, **commands()}.items()}
    assert not [words for words, text in texts.items() if not text or text.startswith(QUESTIONS)]
    odd = {words: [each for each in NO_WORDS_FOR_PEOPLE if each in text] for words, text in texts.items()}
    assert not {words: found for words, found in odd.items() if found}


def _description(command: click.Command) -> str:
    """Without examples, on one line."""
    return " ".join((command.help or "").partition("\b")[0].split())


def _summaries(group: LazyGroup) -> list[str]:
    return [lazy.summary for lazy in group.table.values()]
