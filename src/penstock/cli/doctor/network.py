"""The doctor's look at what clients meet: ports, certificates, and the server that commands ask."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from penstock.cli.doctor.finding import Finding, Verdict
from penstock.cli.target import Target, TargetArguments, find_target
from penstock.core.errors import CannotListen, InvalidArgument, PenstockError
from penstock.server.config import Config
from penstock.server.listeners import bind
from penstock.server.ready import SERVER_FILE, read_ready

_DAY_S = 24 * 3600
_SOON_DAYS = 30


def ports(config: Config, directory: Path) -> Finding:
    """Those of a server that runs on this very directory are as they should be."""
    running = read_ready(directory / SERVER_FILE)
    held = set() if running is None else {address.port for address in running.listeners.values()}
    taken, states = [], dict[str, object]()
    for name, listener in config.listeners.switched_on().items():
        states[name] = state = _state(name, listener.host, listener.port, held)
        if state == "taken":
            taken.append(f"{name} ({listener.host}:{listener.port})")
    facts: dict[str, object] = {"ports": states}
    if taken:
        advice = "stop who has it (`ss -ltnp` names it), or set another one, like --set listeners.mqtt.port=1884"
        return Finding("ports", Verdict.PROBLEM, f"cannot listen on {', '.join(taken)}: {advice}", facts)
    return Finding("ports", Verdict.OK, ", ".join(f"{name} {state}" for name, state in states.items()), facts)


def _state(name: str, host: str, port: int, held: set[int]) -> str:
    if port and port in held:
        return "in use by the server on this directory"
    try:
        for sock in bind(name, host, port):
            sock.close()
    except CannotListen:
        return "taken"
    return "free"


def certificates(config: Config) -> Finding:
    """When those of the listeners end."""
    switched_on = config.listeners.switched_on()
    files = {name: listener.tls.certificate for name, listener in switched_on.items() if listener.tls is not None}
    if not files:
        return Finding("certificates", Verdict.OK, "no listener has TLS")
    try:
        left = {name: _days_left(Path(file)) for name, file in files.items()}
    except ImportError:
        text = "when they end cannot be told without a package: pip install 'penstock[jwt]' brings cryptography"
        return Finding("certificates", Verdict.WARNING, text)
    except (OSError, ValueError) as error:
        text = f"{error}: give PEM files that this user may read (listeners.*.tls)"
        return Finding("certificates", Verdict.PROBLEM, text)
    return _verdict_of(left)


def _days_left(file: Path) -> float:
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file} has no certificate that can be read ({error})") from None
    return (certificate.not_valid_after_utc.timestamp() - time.time()) / _DAY_S


def _verdict_of(left: dict[str, float]) -> Finding:
    facts: dict[str, object] = {"days_left": {name: round(days, 1) for name, days in left.items()}}
    text = ", ".join(f"{name} {'ended' if days <= 0 else f'for {days:.0f} days more'}" for name, days in left.items())
    renewal = "renew it, then `penstock config reload` or SIGHUP: connections stay"
    if min(left.values()) <= 0:
        return Finding("certificates", Verdict.PROBLEM, f"{text}: {renewal}", facts)
    if min(left.values()) < _SOON_DAYS:
        return Finding("certificates", Verdict.WARNING, f"{text}: {renewal}", facts)
    return Finding("certificates", Verdict.OK, text, facts)


def server() -> Finding:
    """The one that commands of this user ask. None need be there."""
    try:
        target = find_target(TargetArguments(), os.environ)
    except InvalidArgument as error:
        return Finding("server", Verdict.PROBLEM, str(error))
    facts: dict[str, object] = {"url": target.options.url}
    try:
        version, is_ready = asyncio.run(_asked(target))
    except PenstockError as error:
        # Without a context nobody said that there should be one.
        verdict = Verdict.OK if not target.has_been_chosen else Verdict.WARNING
        return Finding("server", verdict, f"{error}; `penstock context list` shows what commands know", facts)
    facts |= {"version": version, "ready": is_ready}
    if not is_ready:
        text = f"{target}: version {version}, not ready: `penstock top --once` says why"
        return Finding("server", Verdict.WARNING, text, facts)
    return Finding("server", Verdict.OK, f"{target}: version {version}, ready", facts)


async def _asked(target: Target) -> tuple[str, bool]:
    from penstock.client.http.async_client import AsyncClient
    from penstock.client.http.errors import HttpRefused

    async with AsyncClient.of(target.options) as client:
        version = str((await client.version())["version"])
        try:
            return version, (await client.ready())["status"] == "ready"
        except HttpRefused as error:
            if error.status == 503:
                return version, False
            raise
