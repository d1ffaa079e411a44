"""What can be set of webhooks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from penstock.broker.webhooks.events import Event, Hook, check_url, shown_address
from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.settings.kind import Kind, shown
from penstock.core.settings.numbers import Count, Duration
from penstock.core.settings.texts import ListOf, Secret
from penstock.core.settings.words import OneOf

_DEFAULTS = Hook("")
_MANY = 1 << 40
_ALL = tuple(event.value for event in Event)
_EVENTS = ListOf(OneOf(_ALL), like=f'["{_ALL[0]}"]', null=_ALL, is_unique=True, or_empty=False)
_MIN_SECRET = 16
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[ -~\t]{0,4000}")
# What is signed with, and what says how long the body is, is not for others to write.
_OURS = ("content-type", "content-length", "host", "transfer-encoding", "connection")


class Address(Kind):
    """Where something is sent to. Only scheme and host of it are ever shown: the rest may be a secret."""

    def read(self, path: str, written: object) -> str:
        try:
            check_url(written if isinstance(written, str) else "")
        except InvalidArgument as error:
            raise InvalidSetting(path, str(error)) from None
        return str(written)

    def write(self, value: object) -> object:
        return shown_address(str(value))

    def allowed(self) -> str:
        return "address, http or https"


class Headers(Kind):
    """Names and values, of which values are never shown."""

    def read(self, path: str, written: object) -> tuple[tuple[str, str], ...]:
        if written is None:
            return ()
        if not isinstance(written, Mapping):
            raise InvalidSetting(path, "is not an object: write it like {Authorization: Bearer …}")
        return tuple(_header(path, name, value) for name, value in written.items())

    def write(self, value: object) -> object:
        return {name: "(secret)" for name, _ in value} if isinstance(value, tuple) else {}

    def allowed(self) -> str:
        return "object of texts"


def _header(path: str, name: object, value: object) -> tuple[str, str]:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidSetting(path, f"{shown(name)} is not the name of a header")
    if name.lower() in _OURS or name.lower().startswith("penstock-"):
        raise InvalidSetting(f"{path}.{name}", "is written by the server itself: leave it out")
    if not isinstance(value, str) or _VALUE.fullmatch(value) is None:
        raise InvalidSetting(f"{path}.{name}", "is not text that a header can have: write printable ASCII in quotes")
    return name, value


def _check_secret(text: str) -> None:
    if len(text) < _MIN_SECRET or not text.isprintable():
        raise InvalidArgument(f"is too short, or has an invisible character in it: write at least {_MIN_SECRET}")


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    url: Annotated[str, Address()]
    """what is told is sent here, as POST of JSON; each address once"""
    events: Annotated[tuple[str, ...], _EVENTS] = _ALL
    """events to send"""
    secret: Annotated[str | None, Secret(_check_secret)] = None
    """signs what is sent: `Penstock-Signature: v1=` and the HMAC-SHA256 of `Penstock-Timestamp`, a dot and the body"""
    headers: Annotated[tuple[tuple[str, str], ...], Headers()] = ()
    """extra headers: `{Authorization: Bearer …}`"""
    timeout_ms: Annotated[int, Duration()] = round(_DEFAULTS.timeout_s * 1000)
    """how long to wait for an answer"""
    retries: Annotated[int, Count(0, 20)] = _DEFAULTS.retries
    """tries after the first, 1 s, 4 s, 16 s … later; up to 1000 events wait meanwhile, further ones are dropped"""
    lag_threshold: Annotated[int, Count(1, _MANY)] = _DEFAULTS.lag_threshold
    """the event `lag` is for groups with more messages that they have not settled"""

    def options(self) -> Hook:
        events = frozenset(Event(word) for word in self.events)
        timeout_s = self.timeout_ms / 1000
        return Hook(self.url, events, self.secret, self.headers, timeout_s, self.retries, self.lag_threshold)
