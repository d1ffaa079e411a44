"""Penstock: a durable message broker for Python teams."""

from penstock.version import VERSION as __version__

__all__ = ["__version__"]
