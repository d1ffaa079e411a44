"""The Flight listener as the configuration wants it."""

from __future__ import annotations

from pathlib import Path

from penstock.broker.auth.access import Access
from penstock.broker.broker import Broker
from penstock.gateways.flight.gateway import FlightDoor, flight_door
from penstock.gateways.flight.messages import Options
from penstock.server.config import Config
from penstock.server.config_listeners import FlightListener, Tls, is_loopback
from penstock.server.tls import context_of


def check_flight(config: Config) -> None:
    """BadConfiguration for files of TLS that will not do."""
    listener = config.listeners.flight
    if listener is not None and listener.tls is not None:
        context_of(listener.tls, "listeners.flight.tls")


def flight_gateway(config: Config, broker: Broker, access: Access) -> FlightDoor | None:
    """None where it is switched off."""
    listener = config.listeners.flight
    if listener is None:
        return None
    return flight_door(broker, access, _options(config, listener), is_loopback(listener))


def _options(config: Config, listener: FlightListener) -> Options:
    certificate, key, client_ca = _pem(listener.tls)
    return Options(
        directory=str(Path(config.data_dir).absolute()),
        host=listener.host,
        port=listener.port,
        certificate=certificate,
        key=key,
        client_ca=client_ca,
        max_streams=listener.max_streams,
        max_streams_per_client=listener.max_streams_per_client,
    )


def _pem(tls: Tls | None) -> tuple[str | None, str | None, str | None]:
    """Certificate, key, and the authority of clients."""
    if tls is None:
        return None, None, None
    client_ca = None if tls.client_ca is None else Path(tls.client_ca).read_text()
    return Path(tls.certificate).read_text(), Path(tls.key).read_text(), client_ca
