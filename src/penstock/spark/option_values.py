"""Single options as Spark hands them over: text under a name. Every error names the option."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from penstock.core.errors import InvalidArgument
from penstock.core.units import parse_duration, parse_size

T = TypeVar("T")

_YES_OR_NO = {"true": True, "false": False}
_MOST = 1 << 62


def check_names(
    options: Mapping[str, str], names: Sequence[str], other_names: Mapping[str, str], of: str
) -> dict[str, str]:
    """The options by the names they have here, however they are capitalised. InvalidArgument for one that is none, with
    the nearest; `other_names` are those under which people may know them, `of` says whose options these are."""
    by_lower = {name.lower(): name for name in names}
    given = dict[str, str]()
    for written, text in options.items():
        if (name := by_lower.get(written.lower())) is None:
            near = other_names.get(written.lower()) or _nearest(written, by_lower)
            advice = f"did you mean {near}?" if near else f"the known ones are {', '.join(names)}"
            raise InvalidArgument(f"no option {written!r} of {of}: {advice}")
        given[name] = text
    return given


def _nearest(written: str, by_lower: Mapping[str, str]) -> str | None:
    import difflib  # for those who mistype

    near = difflib.get_close_matches(written.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


def required(given: Mapping[str, str], name: str, meaning: str) -> str:
    if not given.get(name, "").strip():
        raise InvalidArgument(f"option {name} is missing: give {meaning}")
    return given[name].strip()


def count(given: Mapping[str, str], name: str, least: int = 1) -> int | None:
    if (text := given.get(name)) is None:
        return None
    plain = text.strip()
    if not (plain.isascii() and plain.isdigit() and least <= int(plain[:20]) < _MOST):
        raise InvalidArgument(f"option {name}: {text!r} is not a whole number above {least - 1}")
    return int(plain)


def size(given: Mapping[str, str], name: str) -> int | None:
    if (text := given.get(name)) is None:
        return None
    found = said(name, lambda: parse_size(text))
    if found < 1:
        raise InvalidArgument(f"option {name}: {text!r} is nothing: write a size above 0, like 64MiB")
    return found


def duration(given: Mapping[str, str], name: str, otherwise: float) -> float:
    if (text := given.get(name)) is None:
        return otherwise
    return said(name, lambda: parse_duration(text))


def yes(given: Mapping[str, str], name: str, otherwise: bool) -> bool:
    text = given.get(name, str(otherwise)).strip().lower()
    if text not in _YES_OR_NO:
        raise InvalidArgument(f"option {name}: {given[name]!r} is neither true nor false")
    return _YES_OR_NO[text]


def checked(given: Mapping[str, str], name: str, check: Callable[[str], None]) -> str | None:
    if (text := given.get(name)) is not None:
        said(name, lambda: check(text))
    return text


def said(name: str, read: Callable[[], T]) -> T:
    """What it returns; its error, with the option's name."""
    try:
        return read()
    except InvalidArgument as error:
        raise InvalidArgument(f"option {name}: {error}") from error
