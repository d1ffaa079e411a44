"""Sessions of Spark Connect: the packages they need, and a server that must be there."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.errors import PySparkException, PySparkValueError
from pyspark.sql import SparkSession

from penstock.client.errors import ConnectionLost
from penstock.core.errors import InvalidArgument, UnsupportedPlatform
from penstock.spark.session import QUERY_SETTINGS

# A server that is up answers in milliseconds, also through a tunnel; one that is being started is waited for.
_FIRST_ANSWER_S = 10.0
# About twenty seconds a call. Spark's own ten minutes would keep a command from ending, which nobody can tell from one
# that works; and a server that was started again knows nothing of the session.
_RETRIES, _LONGEST_PAUSE_MS = 7, 5000


def remote_session(url: str, settings: Mapping[str, str]) -> SparkSession:
    """Of the server at `sc://host:port`, which takes what it can of the settings. UnsupportedPlatform without the
    packages, InvalidArgument for another kind of address, ConnectionLost if nobody answers there."""
    try:
        # Not before: a worker has no use for them.
        from pyspark.sql.connect.client.retries import DefaultPolicy
    except ImportError as error:
        raise UnsupportedPlatform(
            f"Spark Connect needs more packages ({error}): pip install 'pyspark[connect]', or name a master"
        ) from error
    _wait_for_server(url)
    builder: SparkSession.Builder = SparkSession.builder
    for name, value in {**QUERY_SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    try:
        session: SparkSession = builder.remote(url).getOrCreate()
    except PySparkException as error:
        raise ConnectionLost(f"what listens at {url} gives no session: {error}; is it Spark Connect?") from error
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES, max_backoff=_LONGEST_PAUSE_MS)])
    return session


def register_source(session: SparkSession) -> None:
    """`format("penstock")`, where nothing tells the server of `pyspark_penstock`. UnsupportedPlatform if its Python has
    no Penstock."""
    from penstock.spark.source import PenstockSource

    try:
        session.dataSource.register(PenstockSource)
    except PySparkException as error:
        if "No module named" not in str(error):
            raise
        raise UnsupportedPlatform(
            "the Python of the Spark Connect server has no Penstock: pip install 'penstock[spark]' there, and on its "
            "executors, or set its PYSPARK_PYTHON to one that has it"
        ) from error


def carry_modules(directory: Path) -> None:
    """What was imported from there goes to Spark's workers with the functions that use it: those of a server do not
    have the directory."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        # An environment may lie beside a declaration, or Penstock itself; workers have their own.
        if file is None or "site-packages" in Path(file).parts or module.__name__.partition(".")[0] == "penstock":
            continue
        if Path(file).is_relative_to(directory):
            register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # PySpark's copy has no types


def _wait_for_server(url: str) -> None:
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    try:
        channel = DefaultChannelBuilder(url).toChannel()
    except PySparkValueError as error:
        raise InvalidArgument(
            f"{url!r} is not the address of a Spark Connect server ({error}): write sc://host:15002"
        ) from None
    try:
        grpc.channel_ready_future(channel).result(timeout=_FIRST_ANSWER_S)
    except grpc.FutureTimeoutError:
        raise ConnectionLost(
            f"no Spark Connect server answers at {url}: check the address, and whether sbin/start-connect-server.sh of "
            "Spark has started one"
        ) from None
    finally:
        channel.close()
