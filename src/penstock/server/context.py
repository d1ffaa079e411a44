"""Contexts: which servers this user's commands talk to, and as whom. Commands read and change them, the first start of
a server writes the one that is named `local`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.core.errors import InvalidArgument

LOCAL = "local"
PREVIOUS = "local-previous"
_OLD_FILE = "context.json"


class Context(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is not said is the default of the command."""

    url: str | None = None
    """of HTTP"""
    mqtt: str | None = None
    """like mqtt://host:1883, mqtts://host, ws://host:8083/mqtt or wss://…"""
    username: str | None = None
    password: str | None = None
    token: str | None = None
    api_key: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_certificate_file: str | None = None
    """of a server on this machine: its own certificate is trusted, and no other"""
    namespace: str | None = None
    local: bool = False
    """on this machine: what destroys something is done without asking"""

    @property
    def has_login(self) -> bool:
        return any(secret is not None for secret in (self.username, self.token, self.api_key))

    def __repr__(self) -> str:
        return f"Context(url={self.url!r}, mqtt={self.mqtt!r})"


class Contexts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`~/.config/penstock/config.yaml`"""

    current_context: str | None = None
    contexts: dict[str, Context] = {}

    @property
    def current(self) -> Context | None:
        return None if self.current_context is None else self.contexts.get(self.current_context)

    def named(self, name: str) -> Context:
        """InvalidArgument with those there are."""
        found = self.contexts.get(name)
        if found is None:
            there = ", ".join(self.contexts) or "none"
            raise InvalidArgument(f"no context {name!r}: there are {there}; `penstock context set` makes one")
        return found

    def with_context(self, name: str, context: Context) -> Contexts:
        return msgspec.structs.replace(self, contexts={**self.contexts, name: context})


def context_file(variables: Mapping[str, str]) -> Path:
    """Where XDG says."""
    base = variables.get("XDG_CONFIG_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path("~/.config").expanduser()) / "penstock" / "config.yaml"  # noqa: PTH117


def read_contexts(file: Path) -> Contexts:
    """None at all without a file; of an earlier version's, its one context. InvalidArgument for what cannot be read."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return _read_old(file.with_name(_OLD_FILE))
    import yaml

    try:
        return msgspec.convert({} if (found := yaml.safe_load(data)) is None else found, Contexts)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise InvalidArgument(f"{file} has no contexts that can be read ({error}): mend or remove it") from None


def write_contexts(file: Path, contexts: Contexts) -> None:
    """Readable by this user alone, whole or not at all."""
    import yaml

    text = yaml.safe_dump(msgspec.to_builtins(contexts), sort_keys=False, allow_unicode=True)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    unfinished.rename(file)


def write_local(file: Path, context: Context) -> Contexts:
    """The context `local` is this one. One that was there is kept as `local-previous`: it may be the only place of a
    password. It becomes the current one, unless another is."""
    found = read_contexts(file)
    was = found.contexts.get(LOCAL)
    if was is not None and was.has_login and was != context:
        found = found.with_context(PREVIOUS, was)
    found = found.with_context(LOCAL, context)
    if found.current is None or found.current_context == LOCAL:
        found = msgspec.structs.replace(found, current_context=LOCAL)
    write_contexts(file, found)
    return found


class _OldContext(msgspec.Struct, frozen=True):
    host: str
    port: int
    username: str
    password: str
    tls: bool = False
    path: str | None = None


def _read_old(file: Path) -> Contexts:
    try:
        old = msgspec.json.decode(file.read_bytes(), type=_OldContext)
    except FileNotFoundError:
        return Contexts()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{file} is not a context: {error}; mend or remove it") from None
    address = mqtt_address(old.host, old.port, is_tls=old.tls, path=old.path)
    local = Context(mqtt=address, username=old.username, password=old.password, local=True)
    return Contexts(current_context=LOCAL, contexts={LOCAL: local})


def mqtt_address(host: str, port: int, *, is_tls: bool = False, path: str | None = None) -> str:
    """As `Context.mqtt` has it; a path is that of a WebSocket."""
    scheme = ("mqtt" if path is None else "ws") + ("s" if is_tls else "")
    return f"{scheme}://{_bracketed(host)}:{port}{path or ''}"


def http_address(host: str, port: int, *, is_tls: bool = False) -> str:
    return f"http{'s' if is_tls else ''}://{_bracketed(host)}:{port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
