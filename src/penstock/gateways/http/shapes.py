"""Texts of requests as the description has them: patterns and bounds beside the types. What is refused is decided by
whoever reads them, with better words; a description that admits less than the server would keep clients from asking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, TypeVar

import msgspec

from penstock.queues.settings import MAX_PARTITIONS, QueueSettings
from penstock.queues.settings_schema import Section, settings_of
from penstock.queues.settings_text import Choice, Count, Duration, Factor, Filters, Flag, Size, Text

Json = dict[str, object]
Kind = TypeVar("Kind", bound=type)

_MAX_NAME = 255
# Of 65,535 bytes, which the largest characters take four of.
_MAX_HEADER = 16_383
# As core.units has them, but for what nobody writes: leading zeros, four units, centuries.
_PART = r"[1-9][0-9]{0,4}(\.[0-9]{1,3})?(ms|s|m|h)|[1-9][0-9]{0,3}(\.[0-9]{1,3})?d|[1-9][0-9]{0,2}w"
_DURATION = rf"({_PART}){{1,3}}"
_DAY = "(0[1-9]|1[0-9]|2[0-8])"
_DATE = f"20[0-9]{{2}}-((0[1-9]|1[0-2])-{_DAY}|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
_TIME = r"T([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{3}|\.[0-9]{6})?)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
_PLACE = rf"earliest|latest|[0-9]{{1,18}}|{_DATE}({_TIME})?|{_DURATION}"
# Characters that names may have; a level of a queue's name does not begin with $.
_SEEN, _LEVEL = r"[^\x00-\x1f\x7f|]", r"[^\x00-\x1f\x7f/+#$][^\x00-\x1f\x7f/+#]*"
_BASE64 = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
BASE64_URL = r"([A-Za-z0-9_-]{4})*([A-Za-z0-9_-]{2,3})?"
_OFFSET = r"(0|[1-9][0-9]{0,3}):(0|[1-9][0-9]{0,17})"
_SECOND_MS = 1000
_MOST_OF_A_UNIT = 999
_PLAIN = r"[^\x00-\x1f\x7f/+#|$][^\x00-\x1f\x7f/+#|]*"
_FILTER = r"(\+|[^+#/\x00]*)(/(\+|[^+#/\x00]*))*(/#)?|#"
# Where % stands before c, u or another %.
RULE_PATTERN = _FILTER.replace(r"[^+#/\x00]*", r"([^+#/\x00%]|%[cu%])*")


def _text(pattern: str, **more: object) -> msgspec.Meta:
    return msgspec.Meta(extra_json_schema={"pattern": f"^({pattern})$", **more})


QueueName = Annotated[str, _text(f"{_LEVEL}(/{_LEVEL})*", maxLength=_MAX_NAME)]
GroupName = Annotated[str, _text(rf"{_SEEN}+(\|({_FILTER}))?", maxLength=_MAX_NAME)]
Namespace = Annotated[str, _text(_PLAIN, maxLength=_MAX_NAME)]
HeaderText = Annotated[str, _text(r"[^\x00]*", maxLength=_MAX_HEADER)]
UserName = Annotated[str, _text(r"(?!key:|anonymous$)[!-~]+( [!-~]+)*", maxLength=_MAX_NAME)]
"""of one that is to be added: the others are those of API keys, and of whoever logs in without a name"""
PersonName = Annotated[str, _text(r"[!-~]+( [!-~]+)*", maxLength=_MAX_NAME)]
TopicName = Annotated[str, _text(r"[^+#$\x00][^+#\x00]*|\$queue/" + f"{_LEVEL}(/{_LEVEL})*", maxLength=65535)]
TopicFilter = Annotated[str, _text(_FILTER, minLength=1, maxLength=65535)]
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
        "pattern": rf"^({_LEVEL}(/{_LEVEL})*|\$(queue|dlq)\$[^\x00-\x1f\x7f/+#$]+(\$[^\x00-\x1f\x7f/+#$]+)*)$",
    },
    "group": {"type": "string", "pattern": rf"^{_SEEN}+(\|({_FILTER}))?$"},
    "topic": {"type": "string", "pattern": r"^[^+#$\x00][^+#\x00]*$"},
}
"""of paths; others are any text"""


# With how many of them are one of the next larger.
_UNITS = (
    ("w", 604_800_000, 0),
    ("d", 86_400_000, 7),
    ("h", 3_600_000, 24),
    ("m", 60_000, 60),
    ("s", 1000, 60),
    ("ms", 1, 1000),
)


def duration_pattern(limit_s: float) -> str:
    """Durations up to the limit, as people write them: in one unit, or in up to three that follow each other, each less
    than one of the unit before it."""
    found = []
    for place, (unit, unit_ms, _) in enumerate(_UNITS):
        most = int(limit_s * 1000) // unit_ms
        if not most:
            continue
        found.append(f"{_up_to(most)}{unit}")
        if most > 1:
            rest = "".join(f"({_up_to(below - 1)}{smaller})?" for smaller, _, below in _UNITS[place + 1 : place + 3])
            found.append(rf"{_up_to(most - 1)}((\.[0-9]{{1,3}})?{unit}|{unit}{rest})")
    return "|".join(found)


def _up_to(most: int) -> str:
    """Whole numbers from 1 to that, without leading zeros."""
    digits = str(most)
    found = [f"[1-9][0-9]{{{count}}}" if count else "[1-9]" for count in range(len(digits) - 1)]
    for at, digit in enumerate(digits):
        least, left = (1 if at == 0 else 0), len(digits) - at - 1
        if int(digit) > least:
            found.append(f"{digits[:at]}[{least}-{int(digit) - 1}]" + (f"[0-9]{{{left}}}" if left else ""))
    return f"({'|'.join([*found, digits])})"


# With how many bytes they are.
_SIZES = (("B?", 1), *((f"{prefix}B", 1000**power) for power, prefix in enumerate(("[kK]", "M", "G"), 1)))
_SIZES += tuple((f"{prefix}iB", 1024**power) for power, prefix in enumerate(("[kK]", "M", "G"), 1))


def size_pattern(limit: int) -> str:
    """Sizes up to the limit, as people write them: bytes, or in one unit."""
    found = []
    for unit, size in _SIZES:
        most = min(limit // size, _MOST_OF_A_UNIT if size > 1 else 10**9)
        if most:
            found.append(f"{_up_to(most)}{unit}")
        if most > 1 and size > 1:
            found.append(rf"{_up_to(most - 1)}\.[0-9]{{1,3}}{unit}")
    return "|".join(found)


def span(limit_s: float) -> tuple[msgspec.Meta, msgspec.Meta]:
    """Of a duration as text, and as a number of seconds."""
    return _text(duration_pattern(limit_s)), msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": limit_s})


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


_TEXTS = {
    "check_queue_name": f"^{_LEVEL}(/{_LEVEL})*$",
    "check_namespace": f"^{_PLAIN}$",
    "_check_dead_letter_topic": rf"^\$(dlq|queue)/{_LEVEL}(/{_LEVEL})*$",
    "_check_webhook": "^https?://[!-.0-~][!-~]{0,2000}$",
    "_check_property_name": "^[ -~]{1,255}$",
}
"""by what checks them"""
_STRICT: Json = {
    "if": {"properties": {"ordering": {"const": "strict"}}, "required": ["ordering"]},
    "then": {"properties": {"partitions": {"const": 1}}},
}
_NAMES: Json = {
    "name": {"type": "string", "pattern": f"^{_LEVEL}(/{_LEVEL})*$", "maxLength": _MAX_NAME},
    "namespace": {"type": "string", "pattern": rf"^{_PLAIN}$", "maxLength": _MAX_NAME},
}


def settings_schema(*, is_new: bool) -> Json:
    """Of a queue's settings, as they are written. Name and namespace are said of a new queue, and never change."""
    schema = _section(QueueSettings)
    properties = schema["properties"]
    assert isinstance(properties, dict)
    rest = {name: each for name, each in properties.items() if name not in _NAMES}
    if is_new:
        return {**schema, "properties": {**_NAMES, **rest}, "required": ["name"], **_STRICT}
    return {**schema, "properties": rest, **_STRICT}


def _section(struct: type[msgspec.Struct]) -> Json:
    properties = {
        name: _section(each.struct) if isinstance(each, Section) else _setting(each.kind)
        for name, each in settings_of(struct).items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _setting(kind: object) -> Json:
    match kind:
        case Duration():
            parts = _DURATION if kind.least_ms < _SECOND_MS else _DURATION.replace("ms|s", "s")
            zero: list[Json] = [{"const": 0}, {"const": "0s"}] if kind.or_none or not kind.least_ms else []
            return {"anyOf": [{"type": "string", "pattern": f"^{parts}$"}, *zero, *_none(kind.or_none)]}
        case Size() | Count():
            least = 0 if kind.or_none else kind.least
            number: Json = {"type": "integer", "minimum": least, "maximum": kind.most}
            pattern = f"^({size_pattern(kind.most)})$" if isinstance(kind, Size) else ""
            written: list[Json] = [{"type": "string", "pattern": pattern}] if pattern else []
            return {"anyOf": [number, *written, *_none(kind.or_none)]}
        case Factor():
            return {"type": "number", "minimum": kind.least, "maximum": kind.most}
        case Flag():
            return {"type": "boolean"}
        case Choice():
            return {"enum": [member.name.lower().replace("_", "-") for member in kind.members]}
        case Filters():
            return {"type": "array", "items": {"type": "string", "pattern": rf"^(?!\$)({_FILTER})$", "minLength": 1}}
        case Text():
            unset: list[Json] = [{"const": ""}, {"type": "null"}] if kind.or_none else []
            return {"anyOf": [{"type": "string", "pattern": _TEXTS[kind.check.__name__]}, *unset]}
        case _:
            raise TypeError(f"no description of {kind!r}")


def _none(is_allowed: bool) -> list[Json]:
    return [{"type": "null"}, {"const": "none"}] if is_allowed else []
