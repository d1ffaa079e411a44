"""Settings declared as structs, read from what people wrote."""

from __future__ import annotations

import difflib
import functools
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.queues.settings_text import Text, shown
from penstock.server.written import BadConfiguration, Tree, Written, place_of

Struct = TypeVar("Struct", bound=msgspec.Struct)


class Kind(Protocol):
    """As `queues.settings_text.Kind`, for values of any type."""

    suffix: ClassVar[str]

    def read(self, path: str, written: object) -> object: ...

    def write(self, value: object) -> object: ...


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that is never shown, not in errors either."""

    suffix: ClassVar[str] = ""
    check: Callable[[str], None]

    def read(self, path: str, written: object) -> str | None:
        if written is None:
            return None
        if not isinstance(written, str) or not written:
            raise InvalidSetting(path, "is not text: write it in quotes")
        try:
            self.check(written)
        except InvalidArgument as error:
            raise InvalidSetting(path, str(error)) from None
        return written

    def write(self, value: object) -> object:
        return None if value is None else "(secret)"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these words, kept as it is."""

    suffix: ClassVar[str] = ""
    words: tuple[str, ...]

    def read(self, path: str, written: object) -> str:
        if isinstance(written, str) and written in self.words:
            return written
        near = difflib.get_close_matches(str(written), self.words, n=1, cutoff=0.5)
        reason = f"{shown(written)} is not one of {', '.join(self.words)}"
        raise InvalidSetting(path, reason, near[0] if near else None)

    def write(self, value: object) -> object:
        return value


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts, each as `check` wants it; null is an empty one."""

    suffix: ClassVar[str] = ""
    check: Callable[[str], None]

    def read(self, path: str, written: object) -> tuple[str, ...]:
        if written is None:
            return ()
        if not isinstance(written, list):
            raise InvalidSetting(path, f'{shown(written)} is not a list: write it like ["a", "b"]')
        text = Text(self.check)
        return tuple(str(text.read(f"{path}[{i}]", item)) for i, item in enumerate(written))

    def write(self, value: object) -> object:
        return list(value) if isinstance(value, tuple) else []


@dataclass(frozen=True, slots=True)
class Objects:
    """A list of objects with settings of their own, which `check` knows; kept as they were written. `show` takes out
    what is a secret."""

    suffix: ClassVar[str] = ""
    check: Callable[[dict[str, object]], None]
    show: Callable[[object], object] = lambda written: written

    def read(self, path: str, written: object) -> tuple[dict[str, object], ...]:
        if written is None:
            return ()
        if not isinstance(written, list):
            raise InvalidSetting(path, f"{shown(written)} is not a list of objects")
        for number, item in enumerate(written):
            self._check(f"{path}[{number}]", item)
        return tuple(written)

    def write(self, value: object) -> object:
        return [self.show(item) for item in value] if isinstance(value, tuple) else []

    def _check(self, path: str, item: object) -> None:
        if not isinstance(item, dict):
            raise InvalidSetting(path, f"{shown(item)} is not an object with settings in it")
        try:
            self.check(item)
        except InvalidSetting as error:
            raise InvalidSetting(f"{path}.{error.path}", error.reason, error.nearest) from None
        except InvalidArgument as error:
            raise InvalidSetting(path, str(error)) from None


@dataclass(frozen=True, slots=True)
class Setting:
    attribute: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Section:
    """`is_optional`: null switches it off, and naming anything in it switches it on."""

    attribute: str
    struct: type[msgspec.Struct]
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Sections:
    """A list of objects of one struct."""

    attribute: str
    struct: type[msgspec.Struct]


Field = Setting | Section | Sections


@functools.cache
def fields_of(struct: type[msgspec.Struct]) -> dict[str, Field]:
    """By the name people write. `Annotated[type, kind]` is a value; a struct, one or none, or a tuple of it are
    sections."""
    found: dict[str, Field] = {}
    for attribute, hint in get_type_hints(struct, include_extras=True).items():
        if get_origin(hint) is Annotated:
            kind: Kind = get_args(hint)[1]
            found[attribute.removesuffix(kind.suffix)] = Setting(attribute, kind)
        else:
            found[attribute] = _section(attribute, hint)
    return found


def _section(attribute: str, hint: object) -> Field:
    if get_origin(hint) is tuple:
        return Sections(attribute, get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return Section(attribute, get_args(hint)[0], is_optional=True)
    assert isinstance(hint, type)
    return Section(attribute, hint)


def paths_of(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """Every key there is, with dots."""
    for key, field in fields_of(struct).items():
        yield prefix + key
        if isinstance(field, Section):
            yield from paths_of(field.struct, f"{prefix}{key}.")


def values_of(settings: msgspec.Struct, prefix: str = "", *, reveal: bool = False) -> dict[str, object]:
    """Every value by its path, as people write it; a section that is off is None. With `reveal`, values as they are in
    memory, secrets too: to be compared, never to be shown."""
    found: dict[str, object] = {}
    for key, field in fields_of(type(settings)).items():
        value = getattr(settings, field.attribute)
        if isinstance(field, Setting):
            found[prefix + key] = value if reveal else field.kind.write(value)
        elif isinstance(field, Section):
            below = f"{prefix}{key}."
            found |= {prefix + key: None} if value is None else values_of(value, below, reveal=reveal)
        else:
            found |= _items(value, prefix + key, reveal)
    return found


def _items(items: tuple[msgspec.Struct, ...], path: str, reveal: bool) -> dict[str, object]:
    found: dict[str, object] = {}
    for number, item in enumerate(items):
        found |= values_of(item, f"{path}[{number}].", reveal=reveal)
    return found


def read(struct: type[Struct], tree: Tree) -> Struct:
    """The defaults with what is written over them. BadConfiguration for the first thing that will not do."""
    try:
        return _Reading(struct).section(_begun(struct), tree, "")
    except InvalidSetting as error:
        raise BadConfiguration(error.path, error.reason, error.nearest, place_of(tree, error.path)) from None


def _begun(struct: type[Struct]) -> Struct:
    """With defaults everywhere; what must be written is None until it is."""
    required = [field.name for field in msgspec.structs.fields(struct) if field.required]
    return struct(**dict.fromkeys(required))


@dataclass(frozen=True, slots=True)
class _Reading:
    root: type[msgspec.Struct]

    def section(self, base: Struct, tree: Mapping[str, Written], prefix: str) -> Struct:
        changes: dict[str, object] = {}
        for key, written in tree.items():
            field = fields_of(type(base)).get(key)
            if field is None:
                raise self._unknown(key, prefix, type(base))
            changes[field.attribute] = self._value(base, field, written, prefix + key)
        result = msgspec.structs.replace(base, **changes)
        for required in msgspec.structs.fields(type(base)):
            if required.required and getattr(result, required.name) is None:
                raise InvalidSetting(f"{prefix}{required.name}", "is missing: write it")
        return result

    def _value(self, base: msgspec.Struct, field: Field, written: Written, path: str) -> object:
        if isinstance(field, Setting):
            return field.kind.read(path, _spelled(field.kind, written))
        if isinstance(field, Sections):
            return self._list(field, written, path)
        found = getattr(base, field.attribute)
        if written.value is None:
            # A section that must be there and has nothing in it, because all of it is commented out.
            return None if field.is_optional else found
        below = _object(path, written, field.struct)
        return self.section(_begun(field.struct) if found is None else found, below, f"{path}.")

    def _list(self, field: Sections, written: Written, path: str) -> tuple[msgspec.Struct, ...]:
        if written.value is None:
            return ()
        if not isinstance(written.value, list):
            raise InvalidSetting(path, f"{_kind(written)} is not a list of objects")
        return tuple(
            self.section(_begun(field.struct), _object(f"{path}[{i}]", item, field.struct), f"{path}[{i}].")
            for i, item in enumerate(written.value)
        )

    def _unknown(self, key: str, prefix: str, struct: type[msgspec.Struct]) -> InvalidSetting:
        near = self._nearest(key, prefix, struct)
        known = "" if near else f": the known ones are {', '.join(fields_of(struct))}"
        return InvalidSetting(f"{prefix}{key[:80]}", f"no such setting{known}", near)

    def _nearest(self, key: str, prefix: str, struct: type[msgspec.Struct]) -> str | None:
        """The most similar name, first in this section, then anywhere."""
        if here := difflib.get_close_matches(key, fields_of(struct), n=1):
            return prefix + here[0]
        anywhere = {path.rpartition(".")[2]: path for path in reversed(list(paths_of(self.root)))}
        similar = difflib.get_close_matches(key, anywhere, n=1, cutoff=0.75)
        return anywhere[similar[0]] if similar else None


def _spelled(kind: Kind, written: Written) -> object:
    """`--set log.level=1` is the text "1" where text is wanted."""
    is_other = isinstance(written.value, bool | int | float)
    return written.text if isinstance(kind, Text | Secret) and is_other and written.text else written.plain()


def _object(path: str, written: Written, struct: type[msgspec.Struct]) -> Mapping[str, Written]:
    if isinstance(written.value, dict):
        return written.value
    known = ", ".join(fields_of(struct))
    raise InvalidSetting(path, f"{_kind(written)} is not an object with settings in it: {known}")


def _kind(written: Written) -> str:
    """Of what stands for a section: text may be the address or the secret that belongs into it."""
    return "text" if isinstance(written.value, str) else shown(written.plain())
