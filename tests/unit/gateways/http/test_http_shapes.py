"""What the description admits is not refused for its shape: texts, settings and rules made from their schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.broker.auth.rules import check_name, rule_of
from penstock.broker.auth.users import check_user_name
from penstock.broker.queues.start import Start
from penstock.codecs.http import shapes, spans
from penstock.codecs.http.deliveries import ReceiveBody
from penstock.core.errors import InvalidArgument
from penstock.core.patterns import size_pattern
from penstock.core.queue_paths import canonical_queue
from penstock.core.units import parse_duration
from penstock.gateways.http.admin import users
from penstock.gateways.http.describe.settings_schema import settings_schema
from penstock.gateways.http.messages.cursors import Vector
from penstock.gateways.http.messages.partition_parts import parse_start
from penstock.gateways.http.server import durations
from penstock.gateways.http.server.addresses import written_queue
from penstock.gateways.http.server.exchange import decoded
from penstock.gateways.http.server.pages import PageQuery, page
from penstock.gateways.http.server.problems import Refusal
from penstock.kernels.topics import check_topic
from penstock.queues.names import check_filter, check_namespace, check_queue_name, parse_group_name
from penstock.queues.properties import Envelope, pack
from penstock.queues.settings import MAX_MESSAGE_BYTES, parse_queue

Schema = Mapping[str, Any]
_LONG_BYTES = 255


def made_from(schema: Schema) -> st.SearchStrategy[Any]:
    """Of the few words that these schemas have."""
    if "anyOf" in schema and "properties" not in schema:
        return st.one_of([made_from(each) for each in schema["anyOf"]])
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    kinds = schema.get("type", [])
    return st.one_of([_of_type(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)])


def _of_type(kind: str, schema: Schema) -> st.SearchStrategy[Any]:
    match kind:
        case "string":
            texts: st.SearchStrategy[str] = st.from_regex(str(schema["pattern"]), fullmatch=True)
            return texts.filter(lambda text: schema.get("minLength", 0) <= len(text) and "\n" not in text[-1:])
        case "integer":
            return st.integers(schema["minimum"], schema["maximum"])
        case "number":
            return st.floats(schema["minimum"], schema["maximum"])
        case "array":
            return st.lists(made_from(schema["items"]), max_size=3)
        case "object":
            fields = {name: made_from(each) for name, each in schema["properties"].items()}
            needed = {name: fields.pop(name) for name in schema.get("required", ())}
            return st.fixed_dictionaries(needed, optional=fields)
        case _:
            return {"null": st.none(), "boolean": st.booleans()}[kind]


def schema_of(kind: object) -> Schema:
    """Of an annotated text."""
    [meta] = get_args(kind)[1:]
    return {"type": "string", **meta.extra_json_schema}


def cursor_is_taken(text: str) -> None:
    page(["a"], str, PageQuery(cursor=text))


TEXTS: dict[str, tuple[Schema, Callable[[str], object]]] = {
    "queue": (schema_of(shapes.QueueName), check_queue_name),
    "queue of a path": (
        shapes.PARAMETERS["queue"],
        lambda text: check_queue_name(canonical_queue(written_queue(text))),
    ),
    "group": (schema_of(shapes.GroupName), parse_group_name),
    "namespace": (schema_of(shapes.Namespace), check_namespace),
    "user or role": (schema_of(shapes.PersonName), check_name),
    "new user": (schema_of(shapes.UserName), check_user_name),
    "header": (schema_of(shapes.HeaderText), lambda text: pack(Envelope(((text, text),)))),
    "topic": (schema_of(shapes.TopicName), lambda text: check_topic(text.encode())),
    "filter": (schema_of(shapes.TopicFilter), check_filter),
    "place": (schema_of(shapes.Place), Start.parse),
    "place to read from": (schema_of(shapes.ReadingPlace), parse_start),
    "cursor": (schema_of(shapes.Cursor), cursor_is_taken),
    "duration": (schema_of(Annotated[str, shapes.span(1)[0]]), parse_duration),
}


@pytest.mark.parametrize(("schema", "take"), TEXTS.values(), ids=TEXTS)
def test_a_text_that_is_described_is_taken(schema: Schema, take: Callable[[str], object]) -> None:
    @given(made_from(schema))
    def check(text: str) -> None:
        assume(len(text.encode()) <= _LONG_BYTES)
        take(text)

    check()


@pytest.mark.parametrize("limit_s", [spans.LONGEST_WAIT_S, spans.LONGEST_LEASE_S, spans.LONGEST_KEY_S])
def test_a_duration_that_is_described_is_within_its_limit(limit_s: float) -> None:
    @given(made_from(schema_of(Annotated[str, shapes.span(limit_s)[0]])))
    def check(text: str) -> None:
        durations.seconds_of(text, "wait", limit_s)

    check()


def test_durations_that_people_write_are_described() -> None:
    wait, lease, key = (
        jsonschema_rs.validator_for(dict(schema_of(Annotated[str, shapes.span(limit_s)[0]])))
        for limit_s in (spans.LONGEST_WAIT_S, spans.LONGEST_LEASE_S, spans.LONGEST_KEY_S)
    )
    assert all(map(wait.is_valid, ["30s", "1ms", "30000ms", "1.5s", "29s999ms", "2s500ms"]))
    assert not any(map(wait.is_valid, ["31s", "30001ms", "1m", "30.5s", "1h", "0s", "30"]))
    assert all(map(lease.is_valid, ["12h", "1h30m", "90m", "720m", "1h30m10s", "11.5h", "43200s"]))
    assert not any(map(lease.is_valid, ["13h", "721m", "1d", "12h1m", "1h90m"]))
    assert all(map(key.is_valid, ["90d", "520w", "3650d", "1w3d", "8760h"]))


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (shapes.Place, ["earliest", "latest", "17", "1h", "1h30m", "200ms", "2026-01-31", "2026-01-31T12:00:00Z"]),
        (shapes.ReadingPlace, ["offset:17"]),
        (shapes.QueueName, ["orders", "shop/orders", "bestellungen/größe 3", "a.b-c_d"]),
        (shapes.GroupName, ["billing", "billing|eu/#", "a b"]),
        (shapes.TopicFilter, ["#", "a/#", "+/a", "a//b", "/", "a/+/b/#"]),
        (shapes.TopicName, ["a", "/a", "a//b", "$queue/orders/eu"]),
        (shapes.Offsets, ["", "0:0", "0:17,1:5"]),
    ],
)
def test_what_people_write_is_described(kind: object, texts: list[str]) -> None:
    validator = jsonschema_rs.validator_for(dict(schema_of(kind)))
    for text in texts:
        assert validator.is_valid(text), text
    assert not validator.is_valid("\0")


def test_sizes_that_people_write_are_described_up_to_the_limit() -> None:
    size = jsonschema_rs.validator_for({"type": "string", "pattern": f"^({size_pattern(MAX_MESSAGE_BYTES)})$"})
    assert all(map(size.is_valid, ["1MiB", "512KiB", "1.5MB", "15MiB", "1024", "1024B", "900kB", "16000000"]))
    assert not any(map(size.is_valid, ["16GiB", "17MiB", "1GB", "0", "0B", "999999999", "999MiB", "-1", "1e3"]))


def test_a_text_that_may_be_empty_is_described_so() -> None:
    settings = jsonschema_rs.validator_for(settings_schema(is_new=True))
    for written in ({"key": ""}, {"key": None}, {"key": "device"}):
        assert settings.is_valid({"name": "a", "compaction": written}), written
        parse_queue({"name": "a", "compaction": written})


@pytest.mark.parametrize("name", ["key:x", "anonymous"])
def test_names_that_no_user_can_have_are_not_described(name: str) -> None:
    validator = jsonschema_rs.validator_for(dict(schema_of(shapes.UserName)))
    assert not validator.is_valid(name) and validator.is_valid(f"x{name}")


def test_whole_numbers_may_be_written_with_a_point() -> None:
    """As JSON Schema has it: 1.0 is an integer."""
    queue = parse_queue({"name": "a", "partitions": 2.0, "limits": {"max_message_size": 1000.0}})
    assert (queue.partitions, queue.limits.max_message_size_bytes) == (2, 1000)
    with pytest.raises(InvalidArgument, match="is not a whole number"):
        parse_queue({"name": "a", "partitions": 2.5})
    assert decoded(b'{"roles": [], "expires_in": 60.0}', users.NewKey) == users.NewKey(expires_in=60)
    assert decoded(b'{"max": 5.0}', ReceiveBody).max == 5
    with pytest.raises(Refusal, match="Expected `int`, got `float` in max"):
        decoded(b'{"max": 5.5}', ReceiveBody)


@given(made_from(schema_of(shapes.Offsets)))
def test_offsets_are_taken_unless_a_partition_is_there_twice(text: str) -> None:
    partitions = [pair.partition(":")[0] for pair in text.split(",")]
    assume(len(set(partitions)) == len(partitions))
    Vector.parse(text)


@given(made_from(settings_schema(is_new=True)))
def test_settings_that_are_described_are_taken(settings: dict[str, Any]) -> None:
    """Unless two of them do not go together."""
    assume(len(settings["name"].encode()) <= _LONG_BYTES and len(settings.get("namespace", "").encode()) <= _LONG_BYTES)
    retry = settings.get("retry_policy", {})
    for name in ("initial_backoff", "max_backoff"):
        retry.pop(name, None)
    letters = settings.get("dlq_config", {})
    letters.pop("topic", None)
    if letters.get("exchange") is None:
        letters.pop("routing_key", None)
    if settings.get("ordering") == "strict":
        settings["partitions"] = 1
    parse_queue(settings)


@given(made_from(users.RULE))
def test_rules_that_are_described_are_taken(written: dict[str, Any]) -> None:
    assume(written.get("user") is None or written.get("role") is None)
    assume(written["action"] != "consume" and not written["pattern"].startswith("$"))  # such name queues
    assume(all(len(str(text).encode()) <= _LONG_BYTES for text in written.values()))
    rule_of(written)


def test_a_duration_over_the_longest_is_refused_and_one_below_is_taken() -> None:
    assert durations.seconds_of("12h", "visibility", spans.LONGEST_LEASE_S) == 12 * 3600
    for written, said in (("13h", "13h"), (46_800, "46800s")):
        with pytest.raises(Refusal, match=f"visibility is 0s to 12h, not {said}"):
            durations.seconds_of(written, "visibility", spans.LONGEST_LEASE_S)
    with pytest.raises(InvalidArgument):
        parse_duration("soon")
