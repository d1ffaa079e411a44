from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.support.broker import stage
from tests.support.loop import run

from penstock.core.errors import InvalidArgument
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import Exchange
from penstock.server.config import load
from penstock.server.declared import Declared

WRITTEN = """
exchanges:
  - {name: logs, type: topic, alternate: amq.fanout}
  - {name: parts, type: headers, namespace: shop}
queues:
  - name: orders
    topics: ["a/+"]
    bindings:
      - {exchange: logs, key: "eu.#"}
      - {exchange: amq.topic, key: "b.*"}
      - {exchange: amq.topic, key: "#.c"}
  - name: red
    namespace: shop
    bindings: [{exchange: parts, headers: {colour: red, n: 1}, match: any}]
"""


def test_exchanges_and_bindings_of_the_file_are_there_after_the_start_and_after_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "penstock.yaml"
        file.write_text(WRITTEN)
        config = load(file, {}, [])
        async with stage(tmp_path / "data") as s:
            await Declared(s.broker).apply(config)
            told = s.broker.exchanges.bindings("default")
            assert {(each.source, each.key) for each in told} == {
                ("logs", "eu.#"),
                ("amq.topic", "a.*"),
                ("amq.topic", "b.*"),
                ("amq.topic", "#.c"),
            }
            [other] = s.broker.exchanges.bindings("shop")
            assert other.destination == Destination("queue", "red")
            assert other.arguments == {"x-match": "any", "colour": "red", "n": 1}
            await s.restart()
            end = s.broker.declaring._configuration.log.end
            await Declared(s.broker).apply(config)
            assert s.broker.declaring._configuration.log.end == end
            assert len(s.broker.exchanges.bindings("default")) == 4

    run(main())


def test_what_cannot_be_as_written_is_said_and_the_rest_is_done(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        file = tmp_path / "penstock.yaml"
        file.write_text("""
exchanges: [{name: logs, type: direct}]
queues: [{name: q, bindings: [{exchange: gone}, {exchange: logs, key: k}]}]
""")
        async with stage(tmp_path / "data") as s:
            await s.broker.exchanges.declare("default", Exchange("logs", "topic"))
            with caplog.at_level(logging.WARNING):
                await Declared(s.broker).apply(load(file, {}, []))
            assert [each.key for each in s.broker.exchanges.bindings("default", "logs")] == ["k"]
            assert ["not changed" in each.message or "not bound" in each.message for each in caplog.records] == [
                True
            ] * 2

    run(main())


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("exchanges: [{name: logs, tpye: topic}]", "exchanges[0].tpye"),
        ("exchanges: [{name: logs, type: strange}]", "invalid exchange type"),
        ("exchanges: [{name: amq.mine}]", "amq.mine"),
        ("exchanges: [{type: topic}]", "exchanges[0]"),
        ("queues: [{name: q, bindings: [{exchange: x, kye: k}]}]", "queues[0].bindings[0].kye"),
        ("queues: [{name: q, bindings: {exchange: x}}]", "queues[0].bindings"),
        ("queues: [{name: q, bindings: [x]}]", "queues[0].bindings[0]"),
        ("queues: [{name: q, bindings: [{key: k}]}]", "queues[0].bindings[0]"),
        ("queues: [{name: q, bindings: [{exchange: x, match: most}]}]", "x-match"),
        ("queues: [{name: q, binding: []}]", "queues[0].binding"),
    ],
)
def test_a_mistake_in_the_file_stops_the_start_and_is_named(tmp_path: Path, written: str, said: str) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(written)
    with pytest.raises(InvalidArgument) as caught:
        load(file, {}, [])
    assert said in str(caught.value)
