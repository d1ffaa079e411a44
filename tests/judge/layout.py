"""The queues that every program finds, and who may do what: the same for the broker and for the reference."""

from __future__ import annotations

from typing import NamedTuple

FENCE = "fence"
"""a queue that is published to behind each turn: what was taken in before is committed then"""
DEAD = "$dlq/"


class QueueFacts(NamedTuple):
    name: str
    partitions: int = 1
    topics: tuple[str, ...] = ()
    max_depth: int | None = None
    max_bytes: int = 1 << 20
    max_retries: int = 10


class Principal(NamedTuple):
    """`publish`, `consume`, `subscribe`: patterns of what is allowed."""

    name: str
    publish: tuple[str, ...] = ()
    consume: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    is_admin: bool = False
    namespace: str = "default"


QUEUES = (
    QueueFacts("x/open", 3, ("x/open/#",), max_retries=1),
    QueueFacts("x/open/deep", 1, ("x/+/deep",)),
    QueueFacts("x/shut", 1, ("x/shut/+", "$queue/x/open/too")),
    QueueFacts("x/full", 1, ("x/full", "x/open/full/#"), max_depth=4, max_retries=0),
    QueueFacts("x/small", 2, ("x/small/#", "x/open/+/small"), max_bytes=64),
)
GROUPS = (("x/full", "g"), ("x/open", "g"))
"""there from the start, so that `max_depth` counts from the first message"""

RECEIVED = ("x/open", "x/full", "x/other")
"""what programs receive from, and where dead letters come from so"""

PRINCIPALS = (
    Principal("root", roles=("admin",), is_admin=True),
    Principal("ann", ("#", "$queue/#"), ("$queue/#", "$dlq/#"), ("#",), roles=("producer", "consumer")),
    Principal("eve", ("#", "$queue/#"), ("$queue/#", "$dlq/#"), ("#",), ("producer", "consumer"), namespace="other"),
    Principal("bob", ("+/open/#", "$queue/+/open/#"), ("$queue/+/open",), ("+/open/#",)),
)
NAMESPACES = {each.name: each.namespace for each in PRINCIPALS}
