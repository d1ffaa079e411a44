"""How the descriptors of the process are shared out: storage comes first, connections get the rest."""

from __future__ import annotations

import resource
from dataclasses import dataclass

# What a process may open where the system sets no limit; no server gets near it.
_UNLIMITED = 1 << 20
# Journal, maps of readers, threads, pipes, listeners, webhooks.
_OTHERS = 192
_LEAST_FILES, _LEAST_CONNECTIONS = 16, 8
# Of all connections, so that probes and operators get in where clients have taken the rest.
_KEPT_SHARE, _KEPT_MOST = 10, 64


@dataclass(frozen=True, slots=True)
class Descriptors:
    """`segment_files` and `connections` are what there may be of each; `kept` of the connections are for HTTP alone."""

    limit: int
    segment_files: int
    connections: int
    kept: int

    @property
    def reserve(self) -> int:
        """No connection gets them."""
        return self.limit - self.connections

    def has_room(self, descriptor: int, connections: int, is_http: bool) -> bool:
        """Whether a connection that was accepted as `descriptor`, beside so many others, may stay. The system gives the
        lowest descriptor that is free: all below it are taken, by whatever."""
        if is_http:
            return connections < self.connections and descriptor < self.limit - self.reserve // 4
        return connections < self.connections - self.kept and descriptor < self.limit - self.reserve // 2


def open_files_limit(*, hard: bool = False) -> int:
    """Of this process; `hard`: of a server that is started from here, since it takes what it may have."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[hard]
    return _UNLIMITED if limit == resource.RLIM_INFINITY else min(limit, _UNLIMITED)


def shared_out(limit: int, max_open_files: int, max_connections: int | None) -> Descriptors:
    """`max_connections`: no more than so many, whatever there is room for."""
    files = min(max_open_files, max(limit // 4, _LEAST_FILES))
    reserve = files + min(_OTHERS, max(limit // 4, _LEAST_FILES))
    room = max(limit - reserve, _LEAST_CONNECTIONS)
    connections = room if max_connections is None else min(room, max_connections)
    return Descriptors(limit, files, connections, min(connections // _KEPT_SHARE, _KEPT_MOST))
