"""What `.option(...)` may say."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.core.errors import InvalidArgument
from penstock.spark.offsets import AtTime, Edge, Named, PartitionId
from penstock.spark.options import NAMES, SourceOptions, parse_options
from penstock.spark.planning import Split


def _parsed(is_stream: bool = False, **given: str) -> SourceOptions:
    return parse_options({"path": "/data", "queue": "orders", **given}, is_stream)


def test_path_and_queue_are_all_that_is_needed() -> None:
    options = _parsed()
    assert (options.path, options.queues, options.namespace) == ("/data", ("orders",), "default")
    assert (options.start, options.stop, options.start_option) == (Edge.EARLIEST, Edge.LATEST, None)
    assert options.fail_on_data_loss and options.columns is None


def test_names_are_the_same_however_they_are_capitalised() -> None:
    assert _parsed(STARTINGOFFSETS="LATEST", failondataloss="False").start is Edge.LATEST


@pytest.mark.parametrize(
    ("written", "meant"),
    [("startingOffset", "startingOffsets"), ("subscribe", "queue"), ("minpartition", "minPartitions")],
)
def test_an_unknown_option_names_the_nearest(written: str, meant: str) -> None:
    with pytest.raises(InvalidArgument, match=f"no option '{written}' .*did you mean {meant}"):
        parse_options({written: "1"}, is_stream=False)


def test_an_option_like_no_other_is_told_which_there_are() -> None:
    with pytest.raises(InvalidArgument, match=", ".join(NAMES)):
        _parsed(zzz="1")


def test_several_queues_are_joined_by_commas() -> None:
    assert _parsed(queue="orders, shop/returns,orders").queues == ("orders", "shop/returns")
    with pytest.raises(InvalidArgument, match="empty name"):
        _parsed(queue="orders,,")


@pytest.mark.parametrize("name", ["path", "queue"])
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"option {name} is missing"):
        parse_options({"path": "/data", "queue": "orders", name: " "}, is_stream=False)


def test_offsets_are_read_by_queue_and_partition() -> None:
    options = _parsed(startingOffsets='{"orders": {"0": 42, "1": -2}}', endingOffsets='{"orders": {"0": -1}}')
    orders = PartitionId("orders", 0), PartitionId("orders", 1)
    assert options.start == Named(((orders[0], 42), (orders[1], -2)))
    assert options.stop == Named(((orders[0], -1),))


@pytest.mark.parametrize(
    "text",
    ["oldest", "12", "{", '{"orders": 1}', '{"orders": {"x": 1}}', '{"orders": {"0": -3}}', '{"orders": {"0": true}}'],
)
def test_offsets_that_make_no_sense_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"option startingOffsets: .*\"orders\": {\"0\": 42"):
        _parsed(startingOffsets=text)


def test_times_are_milliseconds_or_text_with_a_zone() -> None:
    assert _parsed(startingTimestamp="1700000000123").start == AtTime(1700000000123)
    assert _parsed(endingTimestamp="2023-11-14T22:13:20.5Z").stop == AtTime(1700000000500)
    assert _parsed(endingTimestamp="2023-11-14T23:13:20+01:00").stop == AtTime(1700000000000)
    with pytest.raises(InvalidArgument, match="no time zone"):
        _parsed(startingTimestamp="2023-11-14T22:13:20")
    with pytest.raises(InvalidArgument, match="is not a time"):
        _parsed(startingTimestamp="yesterday")


def test_a_start_is_said_once() -> None:
    with pytest.raises(InvalidArgument, match="both say the same"):
        _parsed(startingOffsets="latest", startingTimestamp="0")
    assert _parsed(startingTimestamp="0").start_option == "startingTimestamp"


def test_options_of_a_stream_are_refused_in_a_batch_and_the_other_way_round() -> None:
    with pytest.raises(InvalidArgument, match=r"maxOffsetsPerTrigger has no meaning in a batch"):
        _parsed(maxOffsetsPerTrigger="1")
    with pytest.raises(InvalidArgument, match=r"endingOffsets has no meaning in a stream"):
        _parsed(is_stream=True, endingOffsets="latest")


def test_limits_are_counts_and_sizes_above_0() -> None:
    options = _parsed(is_stream=True, maxOffsetsPerTrigger="1000", maxBytesPerTrigger="64MiB", minPartitions="4")
    assert (options.max_rows, options.max_bytes, options.split) == (1000, 64 << 20, Split(min_tasks=4))
    for name, text in (
        ("maxOffsetsPerTrigger", "0"),
        ("maxBytesPerTrigger", "0"),
        ("packRows", "-1"),
        ("packRows", ""),
    ):
        with pytest.raises(InvalidArgument, match=f"option {name}: "):
            _parsed(is_stream=True, **{name: text})


def test_columns_are_checked_against_those_there_are() -> None:
    assert _parsed(columns="value, offset").columns == ("value", "offset")
    with pytest.raises(InvalidArgument, match="option columns: no column 'vlaue': did you mean value"):
        _parsed(columns="vlaue")
    with pytest.raises(InvalidArgument, match="each once"):
        _parsed(columns="key,key")


def test_a_switch_is_true_or_false() -> None:
    assert _parsed(includeHeaders="TRUE").include_headers
    with pytest.raises(InvalidArgument, match="option includeHeaders: 'yes' is neither"):
        _parsed(includeHeaders="yes")


def test_a_group_needs_the_broker() -> None:
    with pytest.raises(InvalidArgument, match="groupId needs groupUrl"):
        _parsed(is_stream=True, groupId="spark")
    options = _parsed(is_stream=True, groupId="spark", url="http://127.0.0.1:8080", token="secret")
    assert (options.group, options.group_url, options.token) == ("spark", "http://127.0.0.1:8080", "secret")
    with pytest.raises(InvalidArgument, match="option groupId: "):
        _parsed(is_stream=True, groupId="a|b", url="http://127.0.0.1:8080")


def _served(**given: str) -> SourceOptions:
    return parse_options({"url": "grpc://127.0.0.1:8815", "queue": "orders", **given}, is_stream=True)


def test_rows_come_from_a_directory_or_a_server() -> None:
    options = _served(user="ada", password="geheim", waitSeconds="7")
    assert options.path is None and options.server is not None
    assert (options.server.url, options.server.user, options.server.wait_s) == ("grpc://127.0.0.1:8815", "ada", 7)
    assert "geheim" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options
    assert _served(groupId="spark", groupUrl="http://127.0.0.1:8080").group_url == "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "/data"}, "path and url both say where to read"),
        ({"url": "127.0.0.1:8815"}, "not the address of an Arrow Flight listener: write it like grpc://"),
        ({"url": "http://127.0.0.1:8080"}, "not the address of an Arrow Flight listener"),
        ({"token": "t", "user": "u", "password": "p"}, "token and user both say who asks"),
        ({"user": "u"}, "user and password go together"),
        ({"tlsCa": "/ca.pem"}, "tlsCa has no meaning without TLS"),
        ({"url": "grpc+tls://h:1", "tlsCa": "/no/such.pem"}, "tlsCa: /no/such.pem cannot be read"),
        ({"waitSeconds": "soon"}, "option waitSeconds: 'soon' is not a whole number"),
        ({"groupId": "spark"}, "groupId needs groupUrl"),
        ({"assign": '{"orders": [0]}'}, "options queue and assign both say what is read"),
        ({"queue": "", "assign": '{"orders": 0}'}, r"partitions of 'orders' are not a list of numbers; write it like"),
        ({"queue": "", "assign": "orders"}, r"option assign: .*write it like"),
        ({"queue": "", "subscribePattern": "("}, r"option subscribePattern: '\(' is not a regular expression"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "9 is more than maxOffsetsPerTrigger, 5"),
        ({"maxTriggerDelay": "5m"}, "maxTriggerDelay has no meaning without minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "9", "maxTriggerDelay": "soon"}, "option maxTriggerDelay: "),
        ({"startingOffsetsByTimestamp": "1"}, r"option startingOffsetsByTimestamp: .*write it like"),
        (
            {"startingOffsetsByTimestamp": '{"orders": {"0": 1}}', "startingTimestamp": "1"},
            "startingTimestamp and startingOffsetsByTimestamp both say the same",
        ),
    ],
)
def test_what_is_wrong_about_a_server_is_said(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        _served(**given)


def test_certificates_travel_with_the_options(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"PEM")
    server = _served(url="grpc+tls://h:1", tlsCa=str(tmp_path / "ca.pem")).server
    assert server is not None and server.ca == b"PEM"


def test_a_token_is_not_in_what_is_printed() -> None:
    options = _parsed(url="http://127.0.0.1:8080", token="geheim")
    assert "geheim" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options
