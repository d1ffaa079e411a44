"""What a kind of value is, and what the errors about one share."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from penstock.core.errors import InvalidArgument, InvalidSetting

Json = dict[str, object]
Read = TypeVar("Read")

_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 80


class Kind:
    """How a value is written. `suffix` is the unit that the attribute's name carries and the setting's name does not;
    `unset` how None is called where nothing is set."""

    __slots__ = ()

    @property
    def suffix(self) -> str:
        return ""

    @property
    def unset(self) -> str:
        return "null"

    def read(self, path: str, written: object) -> object:
        """The value in memory. InvalidSetting names the path and what is allowed."""
        raise NotImplementedError

    def write(self, value: object) -> object:
        """The value as JSON; read() of it gives the same one, unless it is a secret."""
        return value

    def schema(self) -> Json:
        """As JSON Schema. It may admit less than read() does, never more."""
        return {}

    def allowed(self) -> str:
        """For a page: which values there are."""
        return "text"


def shown(written: object) -> str:
    """For an error's text: whoever wrote it, it does not fill the line. Of what has parts only the kind: one may be a
    secret."""
    if isinstance(written, Mapping):
        return "an object"
    if isinstance(written, list | tuple | set | frozenset):
        return "a list"
    return _SHOWN.repr(written)


def nearest_of(word: object, words: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The most similar of the words, if one is similar."""
    found = difflib.get_close_matches(str(word), list(words), n=1, cutoff=cutoff)
    return found[0] if found else None


def checked(path: str, read: Callable[[str], Read], written: str) -> Read:
    """What `read` makes of it; InvalidSetting where that raises InvalidArgument."""
    try:
        return read(written)
    except InvalidArgument as error:
        raise InvalidSetting(path, str(error)) from None


def any_of(*schemas: Json) -> Json:
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
