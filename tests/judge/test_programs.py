"""Random programs through every door against the reference: see README.md. Many more: `python -m tests.soak
--only judge`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from tests.judge.embedded import judge_embedded, judged_database
from tests.judge.fresh import Fresh
from tests.judge.programs import embedded_programs, programs
from tests.judge.requests import (
    Door,
    Message,
    Producer,
    Program,
    Publish,
    PublishMany,
    Put,
    Receive,
    Settle,
    Transaction,
    Turn,
)
from tests.judge.running import judge, judged_server
from tests.support.http_server import RunningServer

from penstock.embedded.database import Database


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh[RunningServer]]:
    with Fresh(tmp_path_factory.mktemp("judge"), judged_server) as servers:
        yield servers


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh[Database]]:
    with Fresh(tmp_path_factory.mktemp("judge"), judged_database) as databases:
        yield databases


_STALE_AND_TOO_LARGE = Program(
    (Door("embedded"),),
    (
        Turn(((0, Publish("$queue/x/open", Message(b"1"))),)),
        Turn(((0, Receive("x/open", "g", 1)),)),
        Turn(
            (
                (0, Settle("ack", 0)),
                (0, Transaction((Put("x/small", (Message(bytes(80)),)), Put("x/other", (Message(b"2"),))), (0,))),
            )
        ),
    ),
)
"""A transaction beside which a queue is to be made is refused in the same order as one that finds all of its queues."""


_ONE_PRODUCER_ID_OF_TWO_LOGINS = Program(
    (Door("mqtt5", "ann"), Door("http")),
    (
        Turn(((0, Publish("$queue/x/open", Message(b"1"), producer=Producer("q", 1, 1))),)),
        Turn(((1, Put("x/open", (Message(b"2"),), producer=Producer("q", 1, 1))),)),
    ),
)
"""Each login has producers of its own."""


_A_QUEUE_BELOW_ONE_THAT_IS_MADE = Program(
    (Door("mqtt5", "ann"),),
    (
        Turn(
            (
                (0, Publish("$queue/x/new", Message(b"8"))),
                (0, Publish("$queue/x/new/sub", Message(b"9"))),
            ),
            "whole",
        ),
    ),
)
"""The second is the first one's routing key, in one receive as in two."""


_TWO_FAULTS_IN_ONE_CALL = Program(
    (Door("http"),),
    (
        Turn(
            (
                (
                    0,
                    PublishMany(
                        (
                            ("$queue/x/open", Message(b"1")),
                            ("$queue/x/new", Message(b"2")),
                            ("$queue/x//bad", Message(b"3")),
                        )
                    ),
                ),
            )
        ),
    ),
    auto_create=False,
)
"""The first of them is told."""


_A_DEAD_LETTER_OF_A_QUEUE_THAT_A_PUBLISH_MADE = Program(
    (Door("http"),),
    (
        Turn(((0, Put("x/other", (Message(b"1"),))),)),
        Turn(((0, Receive("x/other", "h")),)),
        Turn(((0, Put("x/other", (Message(b"2"),))),)),
        Turn(((0, Receive("x/other", "h")),)),
        Turn(((0, Settle("reject", 0)),)),
    ),
)


@given(program=programs())
@example(program=_A_DEAD_LETTER_OF_A_QUEUE_THAT_A_PUBLISH_MADE)
@example(program=_ONE_PRODUCER_ID_OF_TWO_LOGINS)
@example(program=_A_QUEUE_BELOW_ONE_THAT_IS_MADE)
@example(program=_TWO_FAULTS_IN_ONE_CALL)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_cut_and_mix_of_packets_gives_what_the_reference_gives(
    servers: Fresh[RunningServer], program: Program
) -> None:
    judge(servers.of(program.auto_create), program)


@given(program=embedded_programs())
@example(program=_STALE_AND_TOO_LARGE)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_calls_of_several_threads_give_what_the_reference_gives(databases: Fresh[Database], program: Program) -> None:
    judge_embedded(databases.of(program.auto_create), program)
