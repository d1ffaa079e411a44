"""Installs the programs that tests and benchmarks hold Penstock against, from Debian's packages: `install_peers.py
mosquitto nats-server`, or all of them without a name. Does nothing for those that are there; needs root for the others.
Services that Debian starts with a package are stopped: tests and benchmarks start their own."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

# Servers are in directories that an ordinary user's PATH does not name.
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/games"])


class Peer(NamedTuple):
    packages: tuple[str, ...]
    commands: tuple[str, ...]
    """there when it is installed"""
    service: str | None = None
    """what Debian would start with it"""


PEERS: Mapping[str, Peer] = {
    "mosquitto": Peer(("mosquitto", "mosquitto-clients"), ("mosquitto", "mosquitto_pub", "mosquitto_sub"), "mosquitto"),
    "nats-server": Peer(("nats-server",), ("nats-server",), "nats-server"),
    "rabbitmq": Peer(("rabbitmq-server",), ("rabbitmq-server",), "rabbitmq-server"),
    "redis": Peer(("redis-server",), ("redis-server",), "redis-server"),
    "cc": Peer(("gcc", "libc6-dev"), ("cc",)),
    "wrk": Peer(("wrk",), ("wrk",)),
    "promtool": Peer(("prometheus",), ("promtool",), "prometheus"),
    "chromium": Peer(("chromium",), ("chromium",)),
    "node": Peer(("nodejs", "npm"), ("node", "npm")),
}


def is_installed(peer: Peer) -> bool:
    return all(shutil.which(command, path=_PATH) for command in peer.commands)


def install(names: list[str]) -> None:
    """CalledProcessError if Debian's tools refuse."""
    packages = [package for name in names for package in PEERS[name].packages]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    subprocess.run(["apt-get", "update", "-q"], check=True, env=environment)
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends"]
    subprocess.run([*install, *packages], check=True, env=environment)
    for name in names:
        _stop_service(PEERS[name].service)


def _stop_service(service: str | None) -> None:
    """A machine without an init system has started none."""
    if service is not None and shutil.which("systemctl"):
        subprocess.run(["systemctl", "disable", "--now", service], check=False, capture_output=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PEERS))
    names = parser.parse_args().names or list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        parser.error(f"there is no {unknown[0]!r} here: choose from {', '.join(PEERS)}")
    missing = [name for name in names if not is_installed(PEERS[name])]
    if not missing:
        print(f"installed already: {', '.join(names)}")
        return 0
    if shutil.which("apt-get") is None:
        print(f"no apt-get here: install {', '.join(missing)} by hand", file=sys.stderr)
        return 1
    install(missing)
    print(f"installed: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
