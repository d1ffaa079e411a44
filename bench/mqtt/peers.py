"""The brokers of a run: Penstock and the peers from Debian, each with the settings that suit the workload best."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import trustme

from bench.mqtt.mqtt_speech import QUEUE
from bench.mqtt.servers import HOST, Absent, Server, accepts, free_port, program

# Where Debian puts daemons. Its rabbitmq-server on the path is a wrapper that changes the user.
_DAEMONS, _RABBITMQ = "/usr/sbin", "/usr/lib/rabbitmq/bin"
# Without these mosquitto holds back and drops: 20 in flight, 1000 queued.
_MOSQUITTO = """
listener {port} 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay {nodelay}
{certificate}
max_inflight_messages 65535
max_queued_messages 0
log_type error
"""
_LISTENERS = ("mqtt", "mqtt_ws", "amqp", "http")
_PENSTOCK = f"""
queues:
  - name: {QUEUE}
    topics: ["bench/#"]
    partitions: 10
    limits: {{max_queue_depth: 0}}
"""


@dataclass(frozen=True, slots=True)
class Broker:
    name: str
    address: tuple[str, int]
    server: Server
    helper: Server | None = None
    """what it needs beside itself"""
    http: tuple[str, int] | None = None
    """where it can be asked what it holds"""

    def stop(self) -> None:
        self.server.stop()
        if self.helper is not None:
            self.helper.stop()


def start_penstock(directory: Path) -> Broker:
    server, addresses = serve_penstock(directory, _PENSTOCK, "mqtt")
    return Broker("Penstock", addresses["mqtt"], server)


def serve_penstock(directory: Path, settings: str, *listeners: str) -> tuple[Server, dict[str, tuple[str, int]]]:
    """As a user starts it, on development's open door; everything but the settings, which are YAML, as by default: a
    commit is on the disk. With the addresses of the listeners that are asked for."""
    ready, config = directory / "ready.json", directory / "penstock.yaml"
    config.write_text(settings)
    command = [_console_script(), "serve", "--dev", "-c", str(config), "--data", str(directory / "data")]
    for name in _LISTENERS:
        command += ["--set", f"listeners.{name}.port=0" if name in listeners else f"listeners.{name}=null"]
    server = Server("Penstock", [*command, "--ready-file", str(ready)], directory)
    server.wait(ready.exists)
    found = json.loads(ready.read_text())["listeners"]
    return server, {name: (found[name]["host"], found[name]["port"]) for name in listeners}


def _console_script() -> str:
    return str(Path(sys.executable).with_name("penstock"))


def start_mosquitto(directory: Path) -> Broker:
    """As by default, with Nagle's algorithm: it writes message by message, and is faster so."""
    return _mosquitto(directory, nodelay="false")


def start_prompt_mosquitto(directory: Path) -> Broker:
    """Without Nagle's algorithm, which makes single messages wait."""
    return _mosquitto(directory, nodelay="true")


def start_tls_mosquitto(directory: Path) -> Broker:
    """The same over TLS, with a certificate that is made for it, in a directory that is the user's alone: started as
    root it stays root, or it could not read it."""
    file = certificate(directory)
    return _mosquitto(directory, nodelay="true", certificate=f"user root\ncertfile {file}\nkeyfile {file}")


def certificate(directory: Path) -> Path:
    """One for this machine and its key, in one file."""
    file = directory / "server.pem"
    trustme.CA().issue_cert("localhost", HOST).private_key_and_cert_chain_pem.write_to_path(str(file))
    return file


def _mosquitto(directory: Path, nodelay: str, certificate: str = "") -> Broker:
    port, config = free_port(), directory / "mosquitto.conf"
    config.write_text(_MOSQUITTO.format(port=port, nodelay=nodelay, certificate=certificate))
    server = Server("mosquitto", [program("mosquitto", _DAEMONS), "-c", str(config)], directory)
    server.wait(accepts(port))
    return Broker("mosquitto", (HOST, port), server)


def start_nats(directory: Path) -> Broker:
    """With JetStream in files, which it syncs every two minutes by default."""
    port = free_port()
    command = [program("nats-server", _DAEMONS), "-a", HOST, "-p", str(port), "-js", "-sd", str(directory / "data")]
    server = Server("JetStream", command, directory)
    server.wait(accepts(port))
    return Broker("JetStream", (HOST, port), server)


def start_redis(directory: Path) -> Broker:
    """Synced before each answer. Its file is not rewritten meanwhile, which would take a second processor."""
    port, redis = free_port(), program("redis-server", "/usr/bin")
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0", "--save", ""]
    place = ["--bind", HOST, "--port", str(port), "--dir", str(directory), "--loglevel", "warning"]
    server = Server("Redis", [redis, *durable, *place], directory)
    server.wait(accepts(port))
    return Broker("Redis", (HOST, port), server)


def start_rabbitmq(directory: Path) -> Broker:
    """With a name server of its own for its Erlang, which otherwise would stay behind as a daemon."""
    command = [program("rabbitmq-server", _RABBITMQ)]
    port, names_port = free_port(), free_port()
    (directory / "rabbitmq.conf").write_text("log.console.level = error\nheartbeat = 0\n")
    (directory / "plugins").write_text("[].\n")
    variables = {
        "HOME": str(directory),
        "ERL_EPMD_PORT": str(names_port),
        "ERL_EPMD_ADDRESS": HOST,
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
        "RABBITMQ_LOGS": "-",
    }
    names = Server("epmd", [program("epmd"), "-port", str(names_port), "-address", HOST], directory / "names")
    names.wait(accepts(names_port))
    try:
        server = Server("RabbitMQ", command, directory, variables)
        server.wait(accepts(port))
    except Exception:
        names.stop()
        raise
    return Broker("RabbitMQ", (HOST, port), server, names)


Start = Callable[[Path], Broker]


@contextmanager
def running(directory: Path, *starts: Start) -> Iterator[list[Broker]]:
    """Brokers, each in a directory of its own. The first must be there; of the others those that are installed."""
    raise_open_files()
    with ExitStack() as stack:
        found: list[Broker] = []
        for start in starts:
            own = directory / start.__name__
            own.mkdir()
            try:
                broker = start(own)
            except Absent as absence:
                say_left_out(absence)
                continue
            stack.callback(broker.stop)
            found.append(broker)
        yield found


def say_left_out(absence: Absent) -> None:
    click.secho(f"  LEFT OUT: {absence} (python scripts/install_peers.py installs the peers)", bold=True)


def raise_open_files() -> None:
    """As many as the system lets us have, for this process and those it starts: a connection is one on each side."""
    most = int(Path("/proc/sys/fs/nr_open").read_text())
    for limit in (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        except (OSError, ValueError):
            continue
        return
