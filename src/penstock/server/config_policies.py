"""Policies in the configuration."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.core.errors import InvalidSetting
from penstock.core.settings.kind import nearest_of
from penstock.queues.names import DEFAULT_NAMESPACE, check_namespace
from penstock.queues.policies import PolicyRecord, policy


class _Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    pattern: str
    definition: dict[str, object]
    apply_to: str = "queues"
    priority: int = 0
    namespace: str = DEFAULT_NAMESPACE


def parse_policy(written: Mapping[str, object]) -> PolicyRecord:
    """InvalidSetting, InvalidArgument."""
    for name in written:
        if name not in _Policy.__struct_fields__:
            raise InvalidSetting(str(name)[:80], "no such setting", nearest_of(name, _Policy.__struct_fields__))
    try:
        said = msgspec.convert(dict(written), _Policy)
    except msgspec.ValidationError as error:
        raise InvalidSetting("name", str(error)) from None
    check_namespace(said.namespace)
    record = PolicyRecord(said.namespace, said.name, said.pattern, said.definition, said.apply_to, said.priority)
    policy(record)
    return record


def check_policy(written: dict[str, object]) -> None:
    parse_policy(written)
