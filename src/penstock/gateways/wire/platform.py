"""Which reactor there is on this machine."""

from __future__ import annotations

import os
import sys

from penstock.gateways.wire.reactor import Reactor, ReactorOptions
from penstock.gateways.wire.sockets import SocketReactor


def open_reactor(options: ReactorOptions | None = None) -> Reactor:
    """The compiled one where there is one (Linux), else the one in plain Python."""
    options = options or ReactorOptions()
    if sys.platform == "linux" and os.environ.get("PENSTOCK_PURE") != "1":
        try:
            from penstock.gateways.wire.epoll import EpollReactor
        except ImportError:
            pass  # not compiled
        else:
            return EpollReactor(options)
    return SocketReactor(options)
