"""Packages that Penstock works without, and which settings need them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from penstock.server.config import Config, LoopKind
from penstock.server.written import BadConfiguration


@dataclass(frozen=True, slots=True)
class Extra:
    """`pip install 'penstock[name]'` brings `packages` (each with the module that is imported)."""

    name: str
    packages: dict[str, str]
    gives: str
    setting: str
    is_wanted: Callable[[Config], bool]
    without: str
    """what to write to do without it"""

    @property
    def missing(self) -> list[str]:
        return [package for package, module in self.packages.items() if not _is_there(module)]

    @property
    def advice(self) -> str:
        """What the setting lacks and how to get it, or how to do without."""
        return f"needs {' and '.join(self.missing)}: pip install 'penstock[{self.name}]', or {self.without}"


EXTRAS = (
    Extra(
        "arrow",
        {"pyarrow": "pyarrow"},
        "queues and logs as Arrow tables, listeners.flight",
        "listeners.flight",
        lambda config: config.listeners.flight is not None,
        "write null",
    ),
    Extra(
        "uvloop",
        {"uvloop": "uvloop"},
        "loop: uvloop",
        "loop",
        lambda config: config.loop is LoopKind.UVLOOP,
        "write asyncio",
    ),
    Extra(
        "jwt",
        {"pyjwt": "jwt", "cryptography": "cryptography"},
        "auth.jwt",
        "auth.jwt",
        lambda config: config.auth.jwt is not None,
        "leave it out",
    ),
    Extra(
        "otlp",
        {
            "opentelemetry-sdk": "opentelemetry.sdk",
            "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http",
        },
        "otlp",
        "otlp",
        lambda config: config.otlp is not None,
        "leave it out",
    ),
)


def wanting(config: Config) -> list[Extra]:
    """Those that the configuration needs and that are not installed."""
    return [extra for extra in EXTRAS if extra.is_wanted(config) and extra.missing]


def check_extras(config: Config) -> None:
    """BadConfiguration for a setting that needs a package that is not installed."""
    for extra in wanting(config):
        raise BadConfiguration(extra.setting, extra.advice)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package above it
        return False
