"""Headers as exchanges see them, and what bindings to a headers exchange ask of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from penstock.core.errors import InvalidArgument
from penstock.queues.properties import decode_user_properties

Value: TypeAlias = "str | int | float | bool | bytes | list[object] | dict[str, object] | None"

MATCH: Final = "x-match"
DELAY: Final = "x-delay"
_MATCHES = ("all", "any", "all-with-x", "any-with-x")
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
    if match not in _MATCHES:
        raise InvalidArgument(f"{MATCH} is {match!r}: give one of {', '.join(_MATCHES)}")
    with_x = str(match).endswith("-with-x")
    wanted = {
        name: value for name, value in arguments.items() if name != MATCH and (with_x or not name.startswith("x-"))
    }
    decide = all if str(match).startswith("all") else any

    def holds(values: Mapping[str, Value], is_text: bool) -> bool:
        return decide(_agrees(name, value, values, is_text) for name, value in wanted.items())

    return holds


def _agrees(name: str, wanted: Value, values: Mapping[str, Value], is_text: bool) -> bool:
    """Without a value a header only has to be there."""
    if name not in values:
        return False
    if wanted is None:
        return True
    given = values[name]
    if is_text:
        return given == as_text(wanted)
    return type(given) is type(wanted) and given == wanted


def as_text(value: Value) -> str:
    """As a protocol whose headers are text would say it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
