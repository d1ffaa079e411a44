"""Receive and acknowledge over HTTP, 100 messages at a time, until every message of a queue is acknowledged once."""

from __future__ import annotations

from functools import partial

import msgspec

from bench.http.api import Api
from bench.http.bare import MESSAGES
from bench.http.peers import start_bare, start_penstock
from bench.http.wrk import Wrk, outcome
from bench.measure import Benchmark, Comparison, Run
from bench.mqtt.link import PeerFailed
from bench.mqtt.load import Outcome
from bench.mqtt.meter import compared
from bench.mqtt.mqtt_speech import GROUP, QUEUE
from bench.mqtt.peers import Broker, running, say_left_out
from bench.mqtt.servers import Absent
from penstock.gateways.http.admin.queues import GroupStats

_MESSAGES, _LEAST_MESSAGES = 200_000, 10_000
_LONGEST_S = 120
_NOTHING_YET = GroupStats(0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0)
# Requests and answers of all connections pass through one thread: receipts that came are acknowledged by whichever is
# next. wrk makes a first request to look at it, and sends it nowhere.
_SCRIPT = """
local ffi = require("ffi")
ffi.cdef("typedef struct {{ long s; long ns; }} moment; int clock_gettime(int clock, moment *now);")
local MONOTONIC, WANTED = 1, {wanted}
local headers = {{["Content-Type"] = "application/json"}}
local receive = '{{"group": "{group}", "max": {most}}}'
local bodies, asked, begun_s = {{}}, 0, 0
local acked, refused, empty = 0, 0, 0

local function now_s()
  local now = ffi.new("moment")
  ffi.C.clock_gettime(MONOTONIC, now)
  return tonumber(now.s) + tonumber(now.ns) / 1e9
end

function request()
  asked = asked + 1
  if asked == 2 then begun_s = now_s() end
  local body = table.remove(bodies)
  if body then return wrk.format("POST", "/api/v1/messages/ack", headers, body) end
  return wrk.format("POST", "/api/v1/queues/{queue}/receive", headers, receive)
end

local function acknowledge(body)
  local receipts = {{}}
  for receipt in string.gmatch(body, '"receipt":("[^"]+")') do receipts[#receipts + 1] = receipt end
  if #receipts == 0 then empty = empty + 1
  else bodies[#bodies + 1] = '{{"receipts":[' .. table.concat(receipts, ",") .. ']}}' end
end

function response(status, _, body)
  local settled = string.match(body, '^{{"settled":(%d+)')
  if status ~= 200 then refused = refused + 1
  elseif settled then acked = acked + tonumber(settled)
  else acknowledge(body) end
  if acked >= WANTED or refused > 0 then
    io.write(string.format('{{"acked": %d, "refused": %d, "empty": %d, "duration_us": %.0f}}\\n',
      acked, refused, empty, 1e6 * (now_s() - begun_s)))
    io.flush()
    wrk.thread:stop()
  end
end
"""


class Acked(msgspec.Struct, frozen=True):
    acked: int
    refused: int
    empty: int
    """answers without a message"""
    duration_us: int


def run(settings: Run) -> list[Comparison]:
    try:
        wrk = Wrk(settings.directory)
    except Absent as absence:
        say_left_out(absence)
        return []
    messages = settings.size(_MESSAGES, _LEAST_MESSAGES)
    with running(settings.directory, start_penstock, start_bare) as brokers:
        taken = partial(_receive, wrk, messages)
        return compared(settings, brokers, taken, f"a message, received and acknowledged {MESSAGES} at a time", {})


def _receive(wrk: Wrk, messages: int, broker: Broker) -> Outcome:
    script = _SCRIPT.format(wanted=messages, group=GROUP, most=MESSAGES, queue=QUEUE)
    if broker.name != "Penstock":
        said, used = wrk.run(broker, script, _LONGEST_S, Acked)
        return outcome(said.acked, said.duration_us / 1e6, used)
    api = Api(broker.address)
    before = api.stats(QUEUE).groups.get(GROUP, _NOTHING_YET)
    api.fill(QUEUE, messages)
    said, used = wrk.run(broker, script, _LONGEST_S, Acked)
    check_group(before, api.stats(QUEUE).groups[GROUP], messages, said)
    api.close()
    return outcome(messages, said.duration_us / 1e6, used)


def check_group(before: GroupStats, after: GroupStats, messages: int, said: Acked) -> None:
    """Each message was handed out once and acknowledged once, and none is left."""
    if said.refused or said.acked != messages:
        raise PeerFailed(f"{said.acked:,} messages of {messages:,} were acknowledged, {said.refused} requests refused")
    acked, delivered = after.acked - before.acked, after.delivered - before.delivered
    again = after.redelivered - before.redelivered
    if (acked, delivered, again, after.lag, after.in_flight) != (messages, messages, 0, 0, 0):
        raise PeerFailed(
            f"the group says: {delivered:,} delivered, {again:,} again, {acked:,} acked, {after.lag:,} left"
        )


BENCHMARK = Benchmark(
    "http-receive", "receive 100 and acknowledge them over HTTP, 32 connections, against canned answers", run
)
