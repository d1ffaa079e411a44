"""Headers as exchanges see them, and what bindings to a headers exchange ask of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.queues.properties import decode_user_properties

Value: TypeAlias = "str | int | float | bool | bytes | list[object] | dict[str, object] | None"

MATCH: Final = "x-match"
DELAY: Final = "x-delay"
_ABSENT: Final = object()
MATCHES = ("all", "any", "all-with-x", "any-with-x")
Predicate: TypeAlias = "Callable[[Mapping[str, Value], bool], bool]"
"""of the values of headers, and whether all of these are text"""


class Headers(NamedTuple):
    """Of one message. `data` says what they are without reading them: equal bytes from one `read` are equal headers."""

    data: bytes
    read: Callable[[bytes], Mapping[str, Value]]
    is_text: bool
    """all values are text: they are compared as that"""


def text_headers(properties: bytes) -> Headers:
    """Of a message that came by a protocol whose headers are text, by the properties it is stored with."""
    return Headers(properties, _user_properties, True)


def _user_properties(data: bytes) -> dict[str, Value]:
    """Of several with one name the first counts."""
    found: dict[str, Value] = {}
    for name, value in decode_user_properties(data):
        found.setdefault(name, value)
    return found


NO_HEADERS = text_headers(b"")


def predicate(arguments: Mapping[str, Value]) -> Predicate:
    """What a binding with these arguments lets through. InvalidArgument for an x-match that is none."""
    match = arguments.get(MATCH, "all")
    if match not in MATCHES:
        raise InvalidArgument(f"{MATCH} is {match!r}: give one of {', '.join(MATCHES)}")
    with_x = str(match).endswith("-with-x")
    wanted = [
        (name, value, None if value is None else as_text(value))
        for name, value in arguments.items()
        if name != MATCH and (with_x or not name.startswith("x-"))
    ]
    ends_with = not str(match).startswith("all")

    def holds(values: Mapping[str, Value], is_text: bool) -> bool:
        """The first that agrees ends it where one is enough, the first that does not where all have to."""
        for name, value, text in wanted:
            given = values.get(name, _ABSENT)
            if is_text:
                agrees = given is not _ABSENT if text is None else given == text
            else:
                agrees = given is not _ABSENT and (value is None or (type(given) is type(value) and given == value))
            if agrees is ends_with:
                return ends_with
        return not ends_with

    return holds


def as_text(value: Value) -> str:
    """As a protocol whose headers are text would say it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
