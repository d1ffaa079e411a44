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
        ({"queue": "$queue/$b"}, True, "option queue: "),
        ({"path": "/data"}, True, "no option 'path' of a write to format penstock: did you mean url"),
        ({"topic": "alerts"}, True, "did you mean queue"),
        ({"pipelines": "a"}, True, "did you mean pipeline"),
        ({"resetPipeline": "true"}, True, "resetPipeline has no meaning without pipeline"),
        ({"pipeline": "sums"}, False, "option pipeline has no meaning in a batch"),
        ({"queues": "a,b"}, True, "options queue and queues both say where to write"),
        ({"queryId": "q"}, False, "options queryId and epochId go together"),
        ({"queryId": "q", "epochId": "1"}, True, "option queryId has no meaning in a stream"),
        ({"queryId": "q", "epochId": "-1"}, False, "option epochId: '-1' is not a whole number"),
        ({"createQueues": "perhaps"}, True, "option createQueues: 'perhaps'"),
        ({"batchRows": "0"}, True, "option batchRows: '0'"),
        ({"batchRows": "1000001"}, True, "option batchRows: 1000001 is over"),
    ],
)
def test_what_is_wrong_is_said_with_its_name(given: dict[str, str], is_stream: bool, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        _parsed(is_stream, **given)


def _key(**given: str) -> tuple[str, int] | None:
    written = {"url": "grpc://127.0.0.1:8815", "queryId": "nightly", "epochId": "1", **given}
    return parse_sink_options(written, is_stream=False).key


def test_the_key_of_a_write_is_that_of_its_queue_and_namespace() -> None:
    keys = [_key(queue="a"), _key(queue="b"), _key(queue="a", namespace="shop"), _key(queue="a", namespace="other")]
    assert len(set(keys)) == len(keys)
    assert _key(queue="a", namespace="default") == _key(queue="a")


def test_the_key_of_several_queues_does_not_depend_on_their_order() -> None:
    assert _key(queues="a,b") == _key(queues="b, a") == _key(queues="b,a,b")
    assert _key(queues="a,b") != _key(queues="a,b,c")


def test_a_key_stays_what_it_was_so_that_a_write_said_again_after_an_upgrade_is_known() -> None:
    assert _key(queue="a") == ("nightly>6b55f2cc299e08e8b2a69d3d3766a3b9", 1)
