"""One message in the dress of every protocol, as a table: what each part of it is called where. The kernels amqp_view
and amqp_native do what it says; docs/howto/message_view.md shows it; tests hold both to it."""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """A part of a message. Names in code quotes are those of fields."""

    common: str
    mqtt5: str
    http: str
    tables: str
    amqp091: str
    header: str | None = None
    """the header that an AMQP property is for everybody else"""
    amqp_property: str | None = None
    """the property of AMQP 0.9.1 that it is"""

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        return self.common, self.mqtt5, self.http, self.tables, self.amqp091


def _as_header(name: str, amqp: str, note: str = "") -> Part:
    """Of a property that only AMQP has a field for."""
    said = f"`{amqp}`{note}"
    return Part(f"header `{name}`", "user property", "in `headers`", "in `headers`", said, name, amqp)


VIEW = (
    Part("value", "payload", "`text`, `base64`", "`value`", "body"),
    Part(
        "content type",
        "content type",
        "`content_type`",
        "`headers`: `content-type`",
        "`content_type`",
        None,
        "content_type",
    ),
    _as_header("content-encoding", "content_encoding"),
    Part(
        "reply address",
        "response topic: `$queue/NAME` for a queue",
        "`reply_to`",
        "`headers`: `reply-to`",
        "`reply_to`: `NAME` for `$queue/NAME`",
        None,
        "reply_to",
    ),
    Part(
        "correlation id, bytes",
        "correlation data",
        "`correlation_id`",
        "`headers`: `correlation-id`",
        "`correlation_id`; base64 and header `x-correlation-id-encoding: base64` where it is no UTF-8",
        None,
        "correlation_id",
    ),
    _as_header("message-id-of-sender", "message_id"),
    _as_header("timestamp-of-sender", "timestamp", ", seconds since 1970"),
    _as_header("type", "type"),
    _as_header("app-id", "app_id"),
    _as_header("user-id", "user_id", " of messages that came by AMQP; else a header, as nobody checked it"),
    _as_header("cluster-id", "cluster_id"),
    Part(
        "headers: text, in order, with repeats",
        "user properties",
        "`headers`",
        "`headers`",
        "`headers`: long strings, an array where a name is there more than once",
        None,
        "headers",
    ),
    Part(
        "payload format", "payload format indicator", "not shown", "not shown", "header `x-payload-format`: `0` or `1`"
    ),
    Part(
        "expiry",
        "message expiry interval, s, rounded up",
        "not shown",
        "not shown",
        "`expiration`, ms",
        None,
        "expiration",
    ),
    Part("topic", "topic", "`topic`", "`topic`", "exchange and routing key"),
    Part("key", "user property `partition-key`", "`key`", "`key`", "header `partition-key`"),
)

NOT_SHOWN = ("delivery_mode", "priority")
"""Properties of AMQP 0.9.1 that say something to a broker, and nothing to readers by other protocols."""

TYPES = (
    ("long string (`S`) of UTF-8 without NUL", "as it is"),
    ("other long strings, byte arrays (`x`)", "base64"),
    ("boolean (`t`)", "`true`, `false`"),
    ("integers (`b` `B` `s` `U` `u` `I` `i` `l` `L`)", "decimal; `l` and `L` are signed"),
    ("float, double (`f` `d`)", "the shortest digits that give the same double; `nan`, `inf`, `-inf`"),
    ("decimal (`D`)", "`12.50`; `1.2E-254` where zeros would be more than six"),
    ("timestamp (`T`)", "seconds since 1970"),
    ("nothing (`V`)", "an empty text"),
    (
        "table (`F`), array (`A`)",
        "JSON without spaces, names in their order; bytes in it are base64, `nan` and `inf` strings",
    ),
)
"""What text a header's value is, by its type in AMQP."""


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def view_table() -> str:
    """As Markdown."""
    head = ("common", "MQTT 5", "HTTP", "tables, Spark", "AMQP 0.9.1")
    return "\n".join([_row(head), _row(("---",) * 5), *(_row(part.cells) for part in VIEW)])


def type_table() -> str:
    return "\n".join([_row(("type in AMQP 0.9.1", "text of the header")), "|---|---|", *map(_row, TYPES)])
