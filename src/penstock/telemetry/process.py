"""Numbers of the whole server: connections, logins, sessions, storage, reloads."""

from __future__ import annotations

from penstock.broker.staging.staging import Staging
from penstock.core.metrics import ReloadMetrics
from penstock.log.shard import Shard
from penstock.telemetry import families as names
from penstock.telemetry.samples import NO_LABELS, Family, Labels, Samples, Value, distribution
from penstock.telemetry.sources import MetricSources, ProtocolCounters


def collect_process(sources: MetricSources, out: Samples) -> None:
    """In one piece: there are about a hundred."""
    build = sources.build
    facts = Labels(("version", build.version), ("kernels", build.kernels), ("python", build.python))
    out[names.BUILD].put(facts, 1)
    _put(out, names.STARTED, sources.started_ms / 1000)
    for protocol, count in sources.connections().items():
        _put(out, names.CONNECTIONS, count, protocol=protocol)
    for protocol, counters in sources.protocols.items():
        _protocol(protocol, counters, out)
    _logins(sources, out)
    _sessions(sources, out)
    _put(out, names.PUBLISH_LATENCY, distribution(sources.broker.publishing.intake.latency))
    _staging(sources.broker.staging, out)
    _storage(sources.broker.shard, out)
    _reloads(sources.reloads, out)


def _put(out: Samples, family: Family, value: Value, **labels: str) -> None:
    out[family].put(Labels(*labels.items()) if labels else NO_LABELS, value)


def _protocol(protocol: str, counters: ProtocolCounters, out: Samples) -> None:
    for family, value in (
        (names.ACCEPTED, counters.accepted),
        (names.RECEIVED, counters.received),
        (names.SENT, counters.sent),
        (names.UNSENT, counters.dropped),
        (names.BYTES_RECEIVED, counters.received_bytes),
        (names.BYTES_SENT, counters.sent_bytes),
        (names.SUBSCRIPTIONS, counters.subscriptions),
    ):
        _put(out, family, value, protocol=protocol)
    for family, by_reason in (
        (names.REJECTED, counters.refused),
        (names.THROTTLED, counters.throttled),
        (names.PROTOCOL_ERRORS, counters.errors),
    ):
        for reason, count in by_reason.items():
            _put(out, family, count, protocol=protocol, reason=reason)


def _logins(sources: MetricSources, out: Samples) -> None:
    logins = sources.access.metrics
    _put(out, names.CONNECTIONS_REFUSED, sources.limits.connections_refused, reason="connection-rate")
    _put(out, names.CONNECTIONS_REFUSED, sources.limits.connections_over_limit, reason="connection-limit")
    _put(out, names.LOGINS, logins.logins, outcome="accepted")
    _put(out, names.LOGINS, logins.logins_failed, outcome="failed")
    _put(out, names.LOGINS, logins.logins_refused, outcome="refused")


def _sessions(sources: MetricSources, out: Samples) -> None:
    _put(out, names.RETAINED, sources.retained.count)
    _put(out, names.RETAINED_BYTES, sources.retained.message_bytes)
    if (sessions := sources.sessions) is None:
        return
    totals = sessions.totals
    _put(out, names.SESSIONS, len(sessions))
    _put(out, names.SESSION_MESSAGES, sessions.queued_messages)
    _put(out, names.SESSION_BYTES, sessions.queued_bytes)
    for reason, count in (("full", totals.dropped), ("expired", totals.expired), ("lost", totals.lost)):
        _put(out, names.SESSION_GONE, count, reason=reason)


def _staging(staging: Staging, out: Samples) -> None:
    _put(out, names.STAGES, staging.stage_count)
    _put(out, names.STAGED_BYTES, staging.staged_bytes)
    _put(out, names.EPOCH_COMMITS, staging.commits, outcome="done")
    _put(out, names.EPOCH_COMMITS, staging.repeated_commits, outcome="repeated")


def _storage(shard: Shard, out: Samples) -> None:
    metrics = shard.metrics
    for family, value in (
        (names.READ, metrics.read_bytes),
        (names.TAKEN_BYTES, metrics.batch_bytes),
        (names.RECORDS, metrics.records),
        (names.CLOCK_JUMPS, shard.timeline.jumps),
        (names.FRAMES, metrics.frames),
        (names.ROLLS, metrics.journal_rolls),
        (names.JOURNAL_WAITS, metrics.journal_waits),
        (names.ADMISSION_WAITS, metrics.admission_waits),
        (names.CHECKPOINTS, metrics.checkpoints),
        (names.CHECKPOINT_TIME, metrics.checkpoint_ns / 1e9),
        (names.REPLAYED, metrics.replayed_frames),
        (names.REPLAY_TIME, metrics.replay_ns / 1e9),
        (names.SEALED, metrics.segments_sealed),
        (names.RETENTION_SEGMENTS, metrics.segments_removed),
        (names.RETENTION_RECORDS, metrics.retained_away_records),
        (names.RETENTION_BYTES, metrics.retained_away_bytes),
        (names.COMPACTED_RECORDS, metrics.compacted_records),
        (names.COMPACTED_BYTES, metrics.compacted_bytes),
        (names.DISK_REFUSED, metrics.publishes_refused_disk),
        (names.POISONED, metrics.logs_poisoned),
        (names.STOPPED, metrics.logs_stopped),
        (names.PUT_OFF, metrics.commits_put_off),
        (names.HOUSEKEEPING, metrics.housekeeping_failures),
        (names.FAULTY, len(shard.faulty_logs)),
        (names.JOURNAL_FAILED, int(shard.failure is not None)),
        (names.FREE, shard.free_bytes),
        (names.LOGS, shard.log_count),
        (names.SYNC_LATENCY, distribution(metrics.journal_sync_s)),
        (names.GROUP_SIZE, distribution(metrics.commit_frames)),
    ):
        _put(out, family, value)
    _files(shard, out)


def _files(shard: Shard, out: Samples) -> None:
    metrics = shard.metrics
    _put(out, names.WRITTEN, metrics.journal_bytes, file="journal")
    _put(out, names.WRITTEN, metrics.segment_bytes, file="segment")
    _put(out, names.SYNCS, metrics.journal_syncs, file="journal")
    _put(out, names.SYNCS, metrics.segment_syncs, file="segment")
    _put(out, names.COMPACTIONS, metrics.compactions, outcome="done")
    _put(out, names.COMPACTIONS, metrics.compaction_failures, outcome="failed")


def _reloads(reloads: ReloadMetrics, out: Samples) -> None:
    _put(out, names.RELOADS, reloads.reloads, outcome="done")
    _put(out, names.RELOADS, reloads.failures, outcome="failed")
    _put(out, names.RELOADED, reloads.last_success_ms / 1000, outcome="done")
    _put(out, names.RELOADED, reloads.last_failure_ms / 1000, outcome="failed")
