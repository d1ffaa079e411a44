"""Messages that came by AMQP 0.9.1, to programs that open the directory themselves."""

from __future__ import annotations

from tests.support.amqp091 import TASK, TASK_HEADERS

import penstock
from penstock.log.columns import Columns

ONE = Columns.of([b"task", b"plain"], native=[TASK.stored(), b""])


def test_a_message_shows_what_came_by_amqp(db: penstock.Database) -> None:
    db.put_many("tasks", ONE)
    with db.consume("tasks") as messages:
        message, plain = messages.get(timeout=5), messages.get(timeout=5)
        assert message is not None and plain is not None
        assert message.envelope.headers == TASK_HEADERS
        assert (message.content_type, message.reply_to) == ("application/json", "$queue/answers")
        assert message.correlation_id == b"c-1"
        assert (plain.value, plain.headers, plain.content_type) == (b"plain", {}, None)
        message.dead_letter("no")
    [letter] = db.browse("$dlq/tasks")
    assert (letter.headers["dlq-detail"], letter.headers["lang"]) == ("no", "py")


def test_a_reply_goes_to_the_queue_that_the_sender_named(db: penstock.Database) -> None:
    db.put_many("tasks", ONE)
    with db.consume("tasks") as messages:
        message = messages.get(timeout=5)
        assert message is not None
        message.reply(b"done")
    [reply] = db.browse("answers")
    assert (reply.value, reply.correlation_id) == (b"done", b"c-1")
