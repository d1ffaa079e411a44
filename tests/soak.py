"""`python -m tests.soak`: what `make test` does a few times, for as long as it is given; stops by itself.

Every part runs on when another has failed; what a failed part left stays where it says, with the seed to run it
again."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.crash.appends import many_messages
from tests.crash.clock_rounds import clock_rounds
from tests.crash.exhaustion import exhaustion_rounds
from tests.crash.mqtt_rounds import mqtt_kill_rounds, mqtt_power_cut_rounds
from tests.crash.queue_rounds import queue_kill_rounds, queue_power_cut_rounds
from tests.crash.rounds import Report, kill_rounds, power_cut_rounds
from tests.crash.storage_faults import storage_fault_rounds
from tests.sim.broker_damage_walk import failure_of as broker_damage_of
from tests.sim.damage_walk import failure_of as damage_of
from tests.sim.refusal_walk import refusal_walk
from tests.sim.soak_queues import failure_of
from tests.stress.beside import EVERYTHING, SENSITIVE, beside
from tests.stress.http_deaf import exhaust_http
from tests.stress.mqtt_churn import churn
from tests.stress.mqtt_connections import CannotOpen, costs
from tests.stress.mqtt_deaf import exhaust
from tests.stress.mqtt_queue import through_queue
from tests.stress.mqtt_stalled import put_out, stall
from tests.stress.threads import stress
from tests.support.cli import ENVIRONMENT
from tests.support.faults import REPOSITORY, why_no_mounts
from tests.support.http_fuzz import ANY_LOGIN, fuzz
from tests.support.live_server import live_server
from tests.support.rabbitmq import rabbitmq_command

# A history is checked whole after each crash, so a directory that has seen this many gives way to a new one.
ROUNDS_A_DIRECTORY = 25
WALKS_CHUNK = 2_000
FUZZ_MUTANTS, FUZZ_CHUNK = 1_000_000, 100_000
JUDGED_PROGRAMS, JUDGED_CHUNK = 20_000, 500
DIFFERENTIAL_SCRIPTS, DIFFERENTIAL_CHUNK = 10_000, 200
CHAOS_S, CHAOS_TASKS = 300.0, 5_000
GARBAGE_MUTANTS, GARBAGE_CHUNK = 1_000_000, 100_000
IDLE_CONNECTIONS = (10_000, 50_000)
CHURNING = 10_000
MESSAGES = 1_000_000
QUEUE_STEPS, REFUSAL_STEPS = 800, 400
STRESS_S = 20.0
# The queue of the worker that does not read holds 100,000 messages.
STALLED_S = 120.0
HTTP_FUZZ_S = 600.0
# Eight sessions of Spark, one of them a cluster, on two cores that are busy otherwise.
SPARK_S, SPARK_LEAST = 1800.0, 20_000
# Unit and end-to-end tests one after the other, with a sixth of a processor.
BESIDE_S = 1000.0
# No piece of a part takes nearly as long; one that does has hung.
GRACE_S = 600.0


@dataclass
class Budget:
    """What a part may use: a place of its own, a time to stop, a number to draw its seeds from."""

    place: Path
    seconds: float
    seed: int
    report: Report

    def __post_init__(self) -> None:
        self.end = time.monotonic() + self.seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end


@dataclass(frozen=True)
class Part:
    name: str
    share: float
    """of the whole time"""
    run: Callable[[Budget], str]
    """what it did, in a few words; raises what it found"""


class Skipped(Exception):
    pass


def crash_model(budget: Budget) -> str:
    done = 0
    while not (done and budget.is_over):
        first = budget.seed + done
        said = _call(["-m", "tests.sim.soak_crash", "--first", str(first), "--count", str(WALKS_CHUNK)], GRACE_S)
        done += WALKS_CHUNK
        budget.report(f"{done} walks: {said}")
    return f"{done} walks, seeds {budget.seed} to {budget.seed + done - 1}"


def kernel_fuzz(budget: Budget) -> str:
    done = 0
    while done < FUZZ_MUTANTS and not (done and budget.is_over):
        seed = budget.seed + done // FUZZ_CHUNK
        said = _call(["-m", "tests.fuzz.kernels_fuzz", "--count", str(FUZZ_CHUNK), "--seed", str(seed)], GRACE_S)
        done += FUZZ_CHUNK
        budget.report(f"{done} mutants, seed {seed}: {said}")
    return f"{done} mutated batches and frames"


def amqp091_frames(budget: Budget) -> str:
    done = 0
    while done < FUZZ_MUTANTS and not (done and budget.is_over):
        seed, chunk = budget.seed + done // FUZZ_CHUNK, 1_000 if budget.seconds < 10 else FUZZ_CHUNK
        said = _call(["-m", "tests.fuzz.amqp091_frames", "--count", str(chunk), "--seed", str(seed)], GRACE_S)
        done += chunk
        budget.report(f"{done} mutants, seed {seed}: {said}")
    return f"{done} mutated streams of AMQP 0.9.1"


def judged(budget: Budget) -> str:
    done = 0
    while done < JUDGED_PROGRAMS and not (done and budget.is_over):
        seed, chunk = budget.seed + done // JUDGED_CHUNK, 20 if budget.seconds < 10 else JUDGED_CHUNK
        said = _call(["-m", "tests.judge.rounds", "--count", str(chunk), "--seed", str(seed)], GRACE_S)
        done += chunk
        budget.report(f"{done} programs: {said}")
    return f"{done} programs through doors and {done} by threads, as the reference has it"


def amqp_differential(budget: Budget) -> str:
    if rabbitmq_command() is None:
        raise Skipped("RabbitMQ is not installed")
    done = 0
    while done < DIFFERENTIAL_SCRIPTS and not (done and budget.is_over):
        seed, chunk = budget.seed + done, 5 if budget.seconds < 10 else DIFFERENTIAL_CHUNK
        said = _call(
            ["-m", "tests.differential.amqp091.rounds", "--count", str(chunk), "--seed", str(seed)], 2 * GRACE_S
        )
        done += chunk
        budget.report(f"{done} scripts: {said}")
    return f"{done} scripts of AMQP 0.9.1 go as in RabbitMQ, seeds {budget.seed} to {budget.seed + done - 1}"


def amqp_chaos(budget: Budget) -> str:
    """A process of its own: Celery leaves much behind."""
    seconds = min(CHAOS_S, max(budget.seconds, 20.0))
    tasks = round(CHAOS_TASKS * seconds / CHAOS_S)
    command = ["-m", "tests.e2e.amqp091.chaos", str(budget.place), str(seconds), str(tasks)]
    return f"Celery with acks_late: {_call(command, seconds + GRACE_S)}"


def kills(budget: Budget) -> str:
    return _crashes(budget, kill_rounds, "kill -9")


def power_cuts(budget: Budget) -> str:
    if reason := why_no_mounts():
        raise Skipped(reason)
    return _crashes(budget, power_cut_rounds, "power cuts")


def storage_faults(budget: Budget) -> str:
    return _crashes(budget, storage_fault_rounds, "restarts after faults of every system call of storage")


def descriptors(budget: Budget) -> str:
    return _crashes(budget, exhaustion_rounds, "servers without descriptors")


def queue_model(budget: Budget) -> str:
    walks, seed = 0, budget.seed
    while not (walks and budget.is_over):
        failure = failure_of(seed, QUEUE_STEPS)
        assert failure is None, failure
        walks, seed = walks + 1, seed + 1
        budget.report(f"{walks} walks")
    return f"{walks} walks of {QUEUE_STEPS} steps through the rules of queues, seeds {budget.seed} to {seed - 1}"


def refusals(budget: Budget) -> str:
    walks, seed = 0, budget.seed
    while not (walks and budget.is_over):
        place = budget.place / str(seed)
        place.mkdir()
        refusal_walk(place / "data", seed, REFUSAL_STEPS)
        shutil.rmtree(place)
        walks, seed = walks + 1, seed + 1
        budget.report(f"{walks} walks")
    return f"{walks} walks of {REFUSAL_STEPS} calls around what is refused, seeds {budget.seed} to {seed - 1}"


def damaged_files(budget: Budget) -> str:
    done = 0
    while not (done and budget.is_over):
        failure = damage_of(budget.seed + done)
        assert failure is None, failure
        done += 1
        budget.report(f"{done} directories")
    return f"{done} directories with a damaged file, mended, seeds {budget.seed} to {budget.seed + done - 1}"


def damaged_brokers(budget: Budget) -> str:
    done = 0
    while not (done and budget.is_over):
        failure = broker_damage_of(budget.place / str(done), budget.seed + done)
        assert failure is None, failure
        done += 1
        budget.report(f"{done} brokers")
    return f"{done} brokers with a damaged file, started, seeds {budget.seed} to {budget.seed + done - 1}"


def queue_kills(budget: Budget) -> str:
    return _crashes(budget, queue_kill_rounds, "kill -9 while producing and consuming")


def queue_power_cuts(budget: Budget) -> str:
    if reason := why_no_mounts():
        raise Skipped(reason)
    return _crashes(budget, queue_power_cut_rounds, "power cuts while producing and consuming")


def mqtt_kills(budget: Budget) -> str:
    return _crashes(budget, mqtt_kill_rounds, "kill -9 under load over MQTT")


def mqtt_power_cuts(budget: Budget) -> str:
    if reason := why_no_mounts():
        raise Skipped(reason)
    return _crashes(budget, mqtt_power_cut_rounds, "power cuts under load over MQTT")


def mqtt_garbage(budget: Budget) -> str:
    done = 0
    while done < GARBAGE_MUTANTS and not (done and budget.is_over):
        seed, chunk = budget.seed + done // GARBAGE_CHUNK, 1_000 if budget.seconds < 10 else GARBAGE_CHUNK
        said = _call(["-m", "tests.fuzz.mqtt_live", "--count", str(chunk), "--seed", str(seed)], GRACE_S)
        done += chunk
        budget.report(said)
    return f"{done} mutated sessions through live servers"


def mqtt_connections(budget: Budget) -> str:
    found: list[str] = []
    for count in IDLE_CONNECTIONS if budget.seconds >= 60 else (500,):
        place = budget.place / str(count)
        place.mkdir()
        try:
            found += [str(cost) for cost in costs(place, count)]
        except CannotOpen as error:
            found.append(f"NOT RUN: {error}")
        budget.report(found[-1])
    return "; ".join(found)


def mqtt_churn(budget: Budget) -> str:
    return churn(budget.place, CHURNING if budget.seconds >= 60 else 500)


def mqtt_stalled(budget: Budget) -> str:
    seconds = min(STALLED_S, budget.seconds / 2)
    found = []
    for run in (stall, put_out):
        place = budget.place / run.__name__
        place.mkdir()
        found.append(run(place, seconds))
        budget.report(found[-1])
    return f"subscribers that did not read for {seconds:.0f} s: " + "; ".join(found)


def mqtt_memory(budget: Budget) -> str:
    found = []
    for count in (60, 600, 2000) if budget.seconds >= 60 else (60,):
        for exhausted in (exhaust, exhaust_http):
            place = budget.place / f"{exhausted.__name__}-{count}"
            place.mkdir()
            found.append(exhausted(place, count))
            budget.report(found[-1])
    return "; ".join(found)


def mqtt_million(budget: Budget) -> str:
    messages = MESSAGES if budget.seconds >= 60 else MESSAGES // 100
    with live_server(budget.place / "server", ["storage.disk_reserve=0"]) as server:
        asyncio.run(through_queue(server.address, messages))
    return f"{messages} messages through one queue over MQTT"


def http_fuzz(budget: Budget) -> str:
    found: list[str] = []
    with live_server(budget.place / "server", ["storage.disk_reserve=0", "log.level=warning"]) as server:
        url = f"http://127.0.0.1:{server.ports['http']}"
        while not (found and budget.is_over):
            seconds = max(10, round(min(HTTP_FUZZ_S, budget.seconds)))
            found.append(fuzz(url, budget.place, seconds, budget.seed + len(found), ANY_LOGIN))
            budget.report(found[-1])
    return f"schemathesis over the whole HTTP API: {'; '.join(found)}"


def spark_million(budget: Budget) -> str:
    """A process of its own: Spark leaves much behind."""
    runs = 0
    while not (runs and budget.is_over):
        place = budget.place / str(runs)
        place.mkdir()
        rows = MESSAGES if budget.seconds >= 60 else SPARK_LEAST
        command = ["-m", "tests.spark.million", str(place), str(rows), str(budget.seed + runs)]
        said = _call(command, max(budget.seconds, SPARK_S) + GRACE_S)
        budget.report(said)
        shutil.rmtree(place)
        runs += 1
    return f"{runs} times queue to queue through Spark with faults: {said}"


def million(budget: Budget) -> str:
    for compression in ("none", "lz4", "zstd"):
        directory = budget.place / compression
        assert many_messages(directory, MESSAGES, compression) == MESSAGES
        shutil.rmtree(directory)
        budget.report(f"{MESSAGES} messages, compression {compression}")
    return f"3 x {MESSAGES} messages appended and read back"


def threads(budget: Budget) -> str:
    done, seed = 0, budget.seed
    while not (done and budget.is_over):
        place = budget.place / str(seed)
        said = asyncio.run(stress(place, min(STRESS_S, budget.seconds), seed))
        budget.report(said)
        shutil.rmtree(place)
        done, seed = done + 1, seed + 1
    return f"{done} runs of {STRESS_S:.0f} s with all threads at work, seeds {budget.seed} to {seed - 1}"


def beside_others(budget: Budget) -> str:
    """All of it takes hours where processors are busy: it is left out of a short soak."""
    tests = EVERYTHING if budget.seconds >= BESIDE_S else SENSITIVE
    return beside(budget.place, tests, max(budget.seconds, BESIDE_S) * 4 + GRACE_S)


def clock_jumps(budget: Budget) -> str:
    return _crashes(budget, clock_rounds, "jumps of a wall clock")


PARTS = [
    Part("model", 0.3, crash_model),
    Part("fuzz", 0.1, kernel_fuzz),
    Part("amqp091-frames", 0.05, amqp091_frames),
    Part("amqp-differential", 0.1, amqp_differential),
    Part("amqp-chaos", 0.05, amqp_chaos),
    Part("judge", 0.1, judged),
    Part("damage", 0.1, damaged_files),
    Part("broker-damage", 0.05, damaged_brokers),
    Part("kill", 0.1, kills),
    Part("power", 0.05, power_cuts),
    Part("storage-faults", 0.1, storage_faults),
    Part("descriptors", 0.02, descriptors),
    Part("queue-model", 0.15, queue_model),
    Part("refusals", 0.05, refusals),
    Part("queue-kill", 0.1, queue_kills),
    Part("queue-power", 0.05, queue_power_cuts),
    Part("threads", 0.05, threads),
    Part("million", 0.1, million),
    Part("mqtt-kill", 0.1, mqtt_kills),
    Part("mqtt-power", 0.05, mqtt_power_cuts),
    Part("clock", 0.02, clock_jumps),
    Part("beside", 0.1, beside_others),
    Part("mqtt-garbage", 0.15, mqtt_garbage),
    Part("mqtt-connections", 0.05, mqtt_connections),
    Part("mqtt-churn", 0.02, mqtt_churn),
    Part("mqtt-stalled", 0.02, mqtt_stalled),
    Part("mqtt-memory", 0.02, mqtt_memory),
    Part("mqtt-million", 0.05, mqtt_million),
    Part("http-fuzz", 0.05, http_fuzz),
    Part("spark-million", 0.1, spark_million),
]


def _crashes(budget: Budget, rounds: Callable[[Path, int, int, Report], object], what: str) -> str:
    crashes, seed = 0, budget.seed
    while not (crashes and budget.is_over):
        place = budget.place / str(seed)
        place.mkdir()
        left = 1 if budget.seconds < 10 else ROUNDS_A_DIRECTORY
        budget.report(f"seed {seed}, {left} rounds")
        rounds(place, seed, left, budget.report)
        shutil.rmtree(place)
        crashes, seed = crashes + left, seed + 1
    return f"{crashes} {what}, seeds {budget.seed} to {seed - 1}"


def _call(command: list[str], timeout_s: float) -> str:
    """Run a Python program; its last line. AssertionError, with what it said, if it fails."""
    ran = subprocess.run(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        timeout=timeout_s,
    )
    assert ran.returncode == 0, ran.stdout[-5000:]
    return ran.stdout.splitlines()[-1]


def _reporter(name: str, every_s: float = 5.0) -> Report:
    last = -every_s

    def report(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= every_s:
            last = time.monotonic()
            print(f"{time.strftime('%H:%M:%S')} {name}: {text}", flush=True)

    return report


def _run(part: Part, seconds: float, seed: int) -> tuple[str, bool]:
    """The line of the summary, and whether it may stand."""
    place = Path(tempfile.mkdtemp(prefix=f"penstock-soak-{part.name}-"))
    print(f"{time.strftime('%H:%M:%S')} {part.name}: begins, {seconds:.0f} s, seed {seed}", flush=True)
    begun = time.monotonic()
    try:
        done = part.run(Budget(place, seconds, seed, _reporter(part.name)))
    except Skipped as skipped:
        shutil.rmtree(place)
        return f"NOT RUN {part.name:17} {skipped}", True
    except Exception:
        traceback.print_exc()
        return f"FAILED  {part.name:17} see above; what it left is in {place}", False
    shutil.rmtree(place)
    return f"passed  {part.name:17} {done} in {time.monotonic() - begun:.0f} s", True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Long runs under load and faults.")
    minutes_help = "for all parts together (480: millions of walks of the model, a million mutants at a live server)"
    parser.add_argument("--minutes", type=float, default=480.0, help=minutes_help)
    parser.add_argument("--only", nargs="+", choices=[part.name for part in PARTS], help="these parts alone")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="to run again what has failed")
    options = parser.parse_args(arguments)
    parts = [part for part in PARTS if options.only is None or part.name in options.only]
    whole = sum(part.share for part in parts)
    results = [_run(part, options.minutes * 60 * part.share / whole, options.seed) for part in parts]
    print("", *(line for line, _ in results), sep="\n")
    return 0 if all(stands for _, stands in results) else 1


if __name__ == "__main__":
    sys.exit(main())
