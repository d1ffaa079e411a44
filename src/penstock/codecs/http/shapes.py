"""Texts of requests as the description has them: patterns and bounds beside the types. What is refused is decided by
whoever reads them, with better words; a description that admits less than the server would keep clients from asking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, TypeVar

import msgspec

from penstock.core.patterns import DURATION, FILTER, LEVELS, LINE, NAME, PLAIN, SEEN, duration_pattern
from penstock.core.settings.kind import Json
from penstock.core.types import MAX_PARTITIONS

Kind = TypeVar("Kind", bound=type)


_MAX_NAME = 255


# Of 65,535 bytes, which the largest characters take four of.
_MAX_HEADER = 16_383


_DAY = "(0[1-9]|1[0-9]|2[0-8])"


_DATE = f"20[0-9]{{2}}-((0[1-9]|1[0-2])-{_DAY}|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"


_TIME = r"T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{3}|\.[0-9]{6})?)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"


_PLACE = rf"earliest|latest|[0-9]{{1,18}}|{_DATE}({_TIME})?|{DURATION}"


_BASE64 = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"


BASE64_URL = r"([A-Za-z0-9_-]{4})*([A-Za-z0-9_-]{2,3})?"


_OFFSET = r"(0|[1-9][0-9]{0,3}):(0|[1-9][0-9]{0,17})"


# Where % stands before c, u or another %.
RULE_PATTERN = FILTER.replace(r"[^+#/\x00]*", r"([^+#/\x00%]|%[cu%])*")


def _text(pattern: str, **more: object) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema={"pattern": f"^({pattern})$", **more})


QueueName = Annotated[str, _text(NAME, maxLength=_MAX_NAME)]


GroupName = Annotated[str, _text(rf"{SEEN}+(\|({FILTER}))?", maxLength=_MAX_NAME)]


Namespace = Annotated[str, _text(PLAIN, maxLength=_MAX_NAME)]


HeaderText = Annotated[str, msgspec.Meta(max_length=_MAX_HEADER, extra_json_schema={"pattern": r"^([^\x00]*)$"})]


CorrelationText = Annotated[str, msgspec.Meta(max_length=_MAX_HEADER)]
"""bytes for those who correlate, with any character"""


# Of 256 bytes, which the largest characters take four of.
KeyText = Annotated[str, _text(LINE, maxLength=64)]


UserName = Annotated[str, _text(r"(?!key:|anonymous$)[!-~]+( [!-~]+)*", maxLength=_MAX_NAME)]
"""of one that is to be added: the others are those of API keys, and of whoever logs in without a name"""


PersonName = Annotated[str, _text(r"[!-~]+( [!-~]+)*", maxLength=_MAX_NAME)]


TopicName = Annotated[str, _text(r"[^+#$\x00][^+#\x00]*|\$queue/" + LEVELS, maxLength=65535)]


TopicFilter = Annotated[str, _text(FILTER, minLength=1, maxLength=65535)]


Place = Annotated[str, _text(_PLACE)]
"""where a group or a reader begins"""


ReadingPlace = Annotated[str, _text(rf"{_PLACE}|offset:[0-9]{{1,18}}")]


Cursor = Annotated[str, _text(BASE64_URL)]


Offsets = Annotated[str, _text(rf"({_OFFSET}(,{_OFFSET})*)?")]


Base64 = Annotated[bytes, _text(_BASE64)]


AbsolutePath = Annotated[str, _text(r"/[^\x00]*")]


Partition = Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": MAX_PARTITIONS - 1})]


PARAMETERS: Mapping[str, Json] = {
    "queue": {
        "type": "string",
        "pattern": rf"^((?!\$queue[/$]){NAME}|\$queue\$[^\x00-\x1f\x7f/+#$%]+(\$[^\x00-\x1f\x7f/+#$%]+)*)$",
    },
    "group": {"type": "string", "pattern": rf"^{SEEN}+(\|({FILTER}))?$"},
    "topic": {"type": "string", "pattern": r"^[^+#$\x00][^+#\x00]*$"},
    "exchange": {"type": "string", "minLength": 1, "maxLength": _MAX_NAME},
}
"""of paths; others are any text"""


def span(limit_s: float, least_s: float = 0) -> tuple[msgspec.Meta, msgspec.Meta]:
    """Of a duration as text, and as a number of seconds."""
    bounds = {"minimum": least_s, "maximum": limit_s}
    return _text(duration_pattern(limit_s, least_s)), msgspec.Meta(extra_json_schema=bounds)


RULES: dict[str, Json] = {}
"""of structs, by their names: what concerns several fields"""


def described(rules: Json) -> Callable[[Kind], Kind]:
    """A class of a body, with what its fields alone do not say."""

    def note(kind: Kind) -> Kind:
        RULES[kind.__name__] = rules
        return kind

    return note


def one_of(names: tuple[str, ...], never: tuple[str, ...] = ()) -> list[Json]:
    """Branches of `oneOf`: one of the fields is there, and no other of them."""
    return [
        {"required": [name], "properties": {other: False for other in (*names, *never) if other != name}}
        for name in names
    ]
