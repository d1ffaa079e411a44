"""What `.option(...)` may say of a write."""

from __future__ import annotations

import pickle

import pytest

from penstock.core.errors import InvalidArgument
from penstock.spark.sink_options import USUAL_BATCH_ROWS, SinkOptions, parse_sink_options


def _parsed(is_stream: bool = True, **given: str) -> SinkOptions:
    return parse_sink_options({"url": "grpc://127.0.0.1:8815", "queue": "alerts", **given}, is_stream)


def test_url_and_queue_are_all_that_is_needed() -> None:
    options = _parsed(checkpointLocation="/checkpoint", queryName="named by writeStream.queryName()")
    assert (options.server.url, options.queue, options.namespace) == ("grpc://127.0.0.1:8815", "alerts", None)
    assert (options.pipeline, options.reset_pipeline, options.batch_rows) == (None, False, USUAL_BATCH_ROWS)


def test_everything_can_be_said() -> None:
    options = _parsed(token="geheim", namespace="shop", pipeline="sums", resetPipeline="true", BATCHROWS="5")
    assert (options.namespace, options.pipeline, options.reset_pipeline, options.batch_rows) == (
        "shop",
        "sums",
        True,
        5,
    )
    assert "geheim" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("given", "is_stream", "message"),
    [
        ({"url": " "}, True, "option url is missing"),
        ({"queue": ""}, True, "option queue is missing"),
        ({"queue": "a/$b"}, True, "option queue: "),
        ({"path": "/data"}, True, "no option 'path' of a write to format penstock: did you mean url"),
        ({"topic": "alerts"}, True, "did you mean queue"),
        ({"pipelines": "a"}, True, "did you mean pipeline"),
        ({"resetPipeline": "true"}, True, "resetPipeline has no meaning without pipeline"),
        ({"pipeline": "sums"}, False, "option pipeline has no meaning in a batch"),
        ({"batchRows": "0"}, True, "option batchRows: '0'"),
        ({"batchRows": "1000001"}, True, "option batchRows: 1000001 is over"),
    ],
)
def test_what_is_wrong_is_said_with_its_name(given: dict[str, str], is_stream: bool, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        _parsed(is_stream, **given)
