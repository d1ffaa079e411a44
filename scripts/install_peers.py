"""Installs the programs that tests and benchmarks hold Penstock against, from Debian's packages: `install_peers.py
mosquitto nats-server`, or all of them without a name. Does nothing for those that are there; needs root for the others.
Services that Debian starts with a package are stopped: tests and benchmarks start their own.

`kafka`, and only if it is named, comes from Maven Central by mvn: the jars of a broker and of Spark's connector, 105 MB
in the user's cache directory, without root."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# Servers are in directories that an ordinary user's PATH does not name.
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/games"])


class Peer(NamedTuple):
    packages: tuple[str, ...]
    commands: tuple[str, ...]
    """there when it is installed"""
    service: str | None = None
    """what Debian would start with it"""
    files: tuple[str, ...] = ()
    """there too"""


PEERS: Mapping[str, Peer] = {
    "mosquitto": Peer(("mosquitto", "mosquitto-clients"), ("mosquitto", "mosquitto_pub", "mosquitto_sub"), "mosquitto"),
    "paho-c": Peer(("paho.mqtt.c-examples",), ("paho_c_sub",)),
    "nats-server": Peer(("nats-server",), ("nats-server",), "nats-server"),
    "rabbitmq": Peer(("rabbitmq-server",), ("rabbitmq-server",), "rabbitmq-server"),
    "redis": Peer(("redis-server",), ("redis-server",), "redis-server"),
    "cc": Peer(("gcc", "libc6-dev"), ("cc",)),
    "libssl-dev": Peer(("libssl-dev",), (), files=("/usr/include/openssl/ssl.h",)),
    "wrk": Peer(("wrk",), ("wrk",)),
    "promtool": Peer(("prometheus",), ("promtool",), "prometheus"),
    "chromium": Peer(("chromium",), ("chromium",)),
    "node": Peer(("nodejs", "npm"), ("node", "npm")),
}


KAFKA = "kafka"
# Maven Central has no connector for Spark 4.3 (2026-11-18): the one of 4.2 works with it. Its provider of tokens, which
# is loaded and not used here, is there for 4.0 only.
_KAFKA_JARS = {
    "broker": (("org.apache.kafka", "kafka_2.13", "4.3.1"),),
    "spark": (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ),
}
# What Spark brings itself.
_OF_SPARK = ("org.apache.spark", "org.scala-lang", "org.slf4j")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>penstock.peers</groupId><artifactId>{name}</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{dependencies}</dependencies></project>
"""


def kafka_jars(kind: str) -> list[Path]:
    """Of the `broker`, or of the connector of `spark`; none if they are not all there."""
    return sorted((_kafka_directory(kind) / "jars").glob("*.jar"))


def _kafka_directory(kind: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "penstock" / "peers" / "-".join([KAFKA, kind, *(version for _, _, version in _KAFKA_JARS[kind])])


def install_kafka(kind: str) -> None:
    """CalledProcessError if mvn refuses. The jars are put where they are looked for when all have come."""
    directory = _kafka_directory(kind)
    coming = directory / "coming"
    shutil.rmtree(coming, ignore_errors=True)
    coming.mkdir(parents=True)
    dependencies = "".join(_dependency(*each, is_bare=kind == "spark") for each in _KAFKA_JARS[kind])
    (directory / "pom.xml").write_text(_POM.format(name=directory.name, dependencies=dependencies))
    fetch = ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={coming}"]
    subprocess.run(fetch, check=True, cwd=directory)
    coming.rename(directory / "jars")


def _dependency(group: str, artifact: str, version: str, *, is_bare: bool) -> str:
    left_out = "".join(
        f"<exclusion><groupId>{each}</groupId><artifactId>*</artifactId></exclusion>"
        for each in (_OF_SPARK if is_bare else ())
    )
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"<exclusions>{left_out}</exclusions></dependency>"
    )


def is_installed(peer: Peer) -> bool:
    commands = all(shutil.which(command, path=_PATH) for command in peer.commands)
    return commands and all(Path(file).exists() for file in peer.files)


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


def _kafka() -> bool:
    missing = [kind for kind in _KAFKA_JARS if not kafka_jars(kind)]
    if missing and shutil.which("mvn") is None:
        print("no mvn here, which fetches Kafka: install the packages maven and default-jdk-headless", file=sys.stderr)
        return False
    for kind in missing:
        install_kafka(kind)
        print(f"Kafka's jars are in {_kafka_directory(kind)}")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*PEERS, KAFKA]))
    names = parser.parse_args().names or list(PEERS)
    if unknown := [name for name in names if name not in PEERS and name != KAFKA]:
        parser.error(f"there is no {unknown[0]!r} here: choose from {', '.join([*PEERS, KAFKA])}")
    if KAFKA in names and not _kafka():
        return 1
    missing = [name for name in names if name != KAFKA and not is_installed(PEERS[name])]
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
