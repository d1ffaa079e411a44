"""From a file to a declaration: keys and values checked one by one, then all of it together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.marked_yaml import BadYaml, Mark, Marked, mark_below, read_marked
from penstock.core.settings.fields import REQUIRED, NamedSections, Setting, fields_of
from penstock.core.settings.kind import Kind, nearest_of, shown
from penstock.spark.pipelines.declaration import Declared, Pipeline, Places, Trigger
from penstock.spark.pipelines.kinds import check_name
from penstock.spark.pipelines.problems import BadPipeline, Problem, Problems
from penstock.spark.pipelines.python_file import read_python
from penstock.spark.pipelines.written import with_variables

Section = TypeVar("Section", bound=Declared)

_FILE_BYTES_MAX = 4 << 20
ONCE = ("once", "availableNow")


@dataclass(frozen=True, slots=True)
class Document:
    """A declaration, with the text it was read from."""

    file: Path
    text: str
    pipeline: Pipeline

    @property
    def directory(self) -> Path:
        """What relative paths begin at."""
        return self.file.absolute().parent


class BadKeys(BadPipeline):
    """Keys or values are wrong. `rest` is the declaration without them, None if too much is missing then."""

    def __init__(self, file: str, problems: Iterable[Problem], rest: Document | None) -> None:
        super().__init__(file, problems)
        self.rest = rest


def load(file: Path, variables: Mapping[str, str] | None = None) -> Document:
    """BadKeys with everything that is wrong with single keys and values; checks.py looks at all of it."""
    problems = Problems(str(file))
    text, marked = _written(file)
    marked = with_variables(marked, os.environ if variables is None else variables, problems)
    pipeline = _Reading(problems).section(Pipeline, marked, "")
    if problems.found:
        rest = _Reading(Problems(str(file)), is_lenient=True).section(Pipeline, marked, "")
        raise BadKeys(str(file), problems.found, None if rest is None else Document(file, text, rest))
    assert pipeline is not None
    return Document(file, text, pipeline)


def _written(file: Path) -> tuple[str, Marked]:
    try:
        data = file.read_bytes()
    except OSError as error:
        reason = f"cannot be read: {error.strerror}; check the path"
        raise BadPipeline(str(file), [Problem("", reason)]) from None
    if len(data) > _FILE_BYTES_MAX:
        raise BadPipeline(str(file), [Problem("", f"has {len(data)} bytes, the limit is {_FILE_BYTES_MAX}")])
    if file.suffix == ".py":
        return data.decode(), read_python(file, data)
    try:
        marked = read_marked(str(file), data)
    except BadYaml as error:
        raise BadPipeline(str(file), [Problem(error.path, error.reason, error.mark)]) from None
    return data.decode(), marked or Marked({}, Mark(1, 1), Mark(1, 1))


@dataclass(frozen=True, slots=True)
class _Reading:
    problems: Problems
    is_lenient: bool = False
    """leave out what is wrong, not the section it is in"""

    def section(self, struct: type[Section], written: Marked, path: str) -> Section | None:
        """None if something in it will not do; the problems say what."""
        if struct is Trigger and written.value in ONCE:
            return cast(Section, Trigger(is_once=True))
        if not isinstance(written.value, dict):
            known = ", ".join(fields_of(struct))
            self._bad(path, f"{shown(written.plain())} is not a mapping with keys like {known}", written.at)
            return None
        before = len(self.problems.found)
        values = {key: self._value(struct, key, item, _join(path, key)) for key, item in written.value.items()}
        self._missing(struct, written, path)
        if len(self.problems.found) > before and not self.is_lenient:
            return None
        named = {fields_of(struct)[key].attribute: value for key, value in values.items() if value is not None}
        if any(known.default is REQUIRED and known.attribute not in named for known in fields_of(struct).values()):
            return None
        return struct(**named, places=_places(path, written))

    def _value(self, struct: type[Declared], key: str, written: Marked, path: str) -> object:
        known = fields_of(struct).get(key)
        if known is None:
            near = nearest_of(key, fields_of(struct))
            reason = "no such key" if near else f"no such key: the known ones are {', '.join(fields_of(struct))}"
            if " " in key and written.value is None:
                reason = "no such key, if it is one: between { and } a comma ends a value, unless that is in quotes"
            self._bad(path, reason, written.key_at, near)
            return None
        if written.value is None:
            # Commented out below its name, or null on purpose: as if it were not there.
            return None
        if isinstance(known, Setting):
            return self._scalar(known.kind, written, path)
        if isinstance(known, NamedSections):
            return self._named(known.struct, written, path)
        return self.section(known.struct, written, path)

    def _scalar(self, kind: Kind, written: Marked, path: str) -> object:
        try:
            return kind.read(path, written.plain())
        except InvalidSetting as error:
            self._bad(error.path, error.reason, mark_below(written, error.path.removeprefix(path)), error.nearest)
            return None

    def _named(self, struct: type[Declared], written: Marked, path: str) -> dict[str, Declared] | None:
        if not isinstance(written.value, dict):
            self._bad(path, f"{shown(written.plain())} is not a mapping: write each with its name", written.at)
            return None
        found: dict[str, Declared] = {}
        for name, item in written.value.items():
            below = _join(path, name)
            try:
                check_name(name)
            except InvalidArgument as error:
                self._bad(below, str(error), item.key_at)
            if (section := self.section(struct, item, below)) is not None:
                found[name] = section
        return found

    def _missing(self, struct: type[Declared], written: Marked, path: str) -> None:
        assert isinstance(written.value, dict)
        for key, known in fields_of(struct).items():
            is_there = key in written.value and written.value[key].value not in (None, {})
            if known.default is REQUIRED and not is_there:
                self._bad(_join(path, key), f"is missing: {known.about}", written.key_at)

    def _bad(self, path: str, reason: str, mark: Mark, nearest: str | None = None) -> None:
        self.problems.add(path, reason, mark, nearest)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _places(path: str, written: Marked) -> Places:
    below = cast(dict[str, Marked], written.value)
    return Places(
        path,
        written.key_at,
        {key: item.key_at for key, item in below.items()},
        {key: item.at for key, item in below.items()},
        {key: item.style for key, item in below.items()},
    )
