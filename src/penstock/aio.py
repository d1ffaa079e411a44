"""`penstock.aio.Client`: the client over HTTP for asyncio."""

from penstock.client.http.async_client import AsyncClient as Client

__all__ = ["Client"]
