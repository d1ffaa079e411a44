"""Settings for queues whose name matches a pattern: defaults, then templates in their order, then the queue's own."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.queue_paths import other_topics, own_topics
from penstock.queues.settings import QueueSettings, check_settings, parse_queue

# Whose they are is said by the queue, not by a pattern that many match.
_OF_THE_QUEUE = ("name", "namespace")


@dataclass(frozen=True, slots=True)
class Template:
    """`match` is a pattern over the whole name: `*` is any text, `/` too, and `?` one character. As in topic filters,
    names that begin with `$` match only a pattern that does: limits for every queue are none for dead letters.

    Bad settings are refused here; those that only fail together with a queue's own are refused when it is declared."""

    match: str
    settings: Mapping[str, object]

    def __post_init__(self) -> None:
        if not self.match:
            raise InvalidArgument("a template's pattern is empty: write * for every queue, or a pattern like orders-*")
        for key in _OF_THE_QUEUE:
            if key in self.settings:
                raise InvalidSetting(self._path(key), "a template cannot set it: leave it to the queues")
        try:
            check_settings(self.settings)
        except InvalidSetting as error:
            raise InvalidSetting(self._path(error.path), error.reason, error.nearest) from None

    def matches(self, name: str) -> bool:
        if name.startswith("$") and not self.match.startswith("$"):
            return False
        return fnmatch.fnmatchcase(name, self.match.replace("[", "[[]"))

    def settings_for(self, name: str) -> Mapping[str, object]:
        """The queue that a template names for the dead letters of all gets none itself, though it may match."""
        letters = self.settings.get("dlq_config")
        if isinstance(letters, Mapping) and str(letters.get("topic")) in (*own_topics(name), *other_topics(name)):
            return {**self.settings, "dlq_config": {"enabled": False}}
        return self.settings

    def _path(self, path: str) -> str:
        return f"templates[{self.match}].{path}"


def resolve(name: str, templates: Iterable[Template], explicit: Mapping[str, object]) -> QueueSettings:
    """The settings of a queue to be declared. InvalidSetting as parse_queue(); `explicit` need not repeat the name."""
    if explicit.get("name", name) != name:
        raise InvalidSetting(
            "name", f"{explicit['name']!r} is declared under the name {name!r}: write the same, or none"
        )
    written: dict[str, object] = {}
    for layer in [template.settings_for(name) for template in templates if template.matches(name)] + [explicit]:
        written = _over(written, layer)
    return parse_queue({**written, "name": name})


def _over(below: Mapping[str, object], layer: Mapping[str, object]) -> dict[str, object]:
    merged = dict(below)
    if layer.get("ordering") == "strict":
        # A count from further down was meant for queues that can have it; only one beside `strict` is a contradiction.
        merged.pop("partitions", None)
    for key, value in layer.items():
        under = merged.get(key)
        merged[key] = _over(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged
