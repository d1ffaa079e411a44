"""Penstock: a durable message broker for Python teams."""

import sys

from penstock.core.errors import UnsupportedPlatform
from penstock.version import VERSION as __version__

if sys.platform not in ("linux", "darwin"):
    raise UnsupportedPlatform(f"Penstock runs on Linux, and on macOS for development; this is {sys.platform}")

__all__ = ["__version__"]
