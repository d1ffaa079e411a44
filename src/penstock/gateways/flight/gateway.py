"""The server's side of the Flight listener. The other reads the data directory, and asks here who may read what."""

from __future__ import annotations

from penstock.broker.auth.access import Access
from penstock.broker.broker import Broker
from penstock.gateways.beside.door import BesideDoor, Program
from penstock.gateways.beside.requests import Requests
from penstock.gateways.flight.answers import answer
from penstock.gateways.flight.heads import Head
from penstock.gateways.flight.messages import Answer, Options, Question
from penstock.gateways.flight.writes import FlightWrites

# glibc keeps what record batches took in heaps of many threads, more than twice of what they are; with fixed thresholds
# whole batches go back at once. The pieces in which gRPC receives them do not: most of the processor's time went into
# pages that were taken anew for each. Eight clients with batches of 30 MiB: 1264 MiB without all this, 530 with it,
# 272 instead of 794 afterwards (162 where pieces of 64 KiB go back too).
_ALLOCATION = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "16777216"}
_PROGRAM = Program("flight", "penstock.gateways.flight.child", _ALLOCATION)

FlightDoor = BesideDoor[Head, Question]


def flight_door(broker: Broker, access: Access, options: Options, is_loopback: bool) -> FlightDoor:
    async def answered(question: Question) -> Answer:
        found = await answer(access, question, is_loopback)
        if question.is_fresh and any(found.may_read):
            await broker.shard.show()
        return found

    def requests() -> Requests[Head]:
        return FlightWrites(broker, access, is_loopback).requests

    return BesideDoor(_PROGRAM, options, requests, Question, answered)
