"""All families that there are, in the order in which they are written. docs/howto/metrics.md has the same as a table,
which a test holds against this."""

from __future__ import annotations

from penstock.telemetry.samples import Family, Kind

FAMILIES: list[Family] = []

_QUEUE = ("namespace", "queue")
_PARTITION = (*_QUEUE, "[partition]")
_GROUP = (*_QUEUE, "group")
# By the topic that names the queue; those of other namespaces than `default` say theirs too.
_MQTT = ("queue", "[namespace]")


def _family(name: str, kind: Kind, text: str, *labels: str) -> Family:
    family = Family(name, kind, text, labels)
    FAMILIES.append(family)
    return family


def _counter(name: str, text: str, *labels: str) -> Family:
    return _family(f"penstock_{name}_total", Kind.COUNTER, text, *labels)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return _family(f"penstock_{name}", Kind.GAUGE, text, *labels)


def _histogram(name: str, text: str, *labels: str) -> Family:
    return _family(f"penstock_{name}", Kind.HISTOGRAM, text, *labels)


BUILD = _gauge(
    "build_info", "Always 1: which Penstock runs, with compiled or pure kernels.", "version", "kernels", "python"
)
STARTED = _gauge("start_time_seconds", "When the server was started, in seconds since 1970.")

CONNECTIONS = _gauge("broker_connections", "Open connections.", "protocol")
ACCEPTED = _counter("broker_connections_accepted", "Connections that were accepted.", "protocol")
CONNECTIONS_REFUSED = _counter(
    "broker_connections_refused", "Connections refused before anything was read of them.", "reason"
)
PROTOCOL_ERRORS = _counter(
    "broker_protocol_errors",
    "Connections ended because the client broke the protocol, or could not be served.",
    "protocol",
    "reason",
)
LOGINS = _counter("broker_logins", "Logins: accepted, failed, or refused unseen after too many failures.", "outcome")
RECEIVED = _counter("broker_messages_received", "Messages taken from publishers.", "protocol")
SENT = _counter("broker_messages_sent", "Messages sent to clients, queues and topics.", "protocol")
UNSENT = _counter(
    "broker_messages_unsent", "Messages of topics dropped because their receiver had no room.", "protocol"
)
REJECTED = _counter(
    "broker_messages_rejected", "Messages whose publishers were told that they are not taken.", "protocol", "reason"
)
THROTTLED = _counter(
    "broker_throttled",
    "Times that a client had to wait for a limit, or was refused for it.",
    "protocol",
    "reason",
)
BYTES_RECEIVED = _counter("broker_bytes_received", "Bytes from clients, of the protocol itself too.", "protocol")
BYTES_SENT = _counter("broker_bytes_sent", "Bytes to clients, of the protocol itself too.", "protocol")
SUBSCRIPTIONS = _gauge("broker_subscriptions", "Subscriptions to topics.", "protocol")
SESSIONS = _gauge("broker_sessions", "Stored sessions, connected or not.")
SESSION_MESSAGES = _gauge("broker_session_queued_messages", "Messages that wait for stored sessions.")
SESSION_BYTES = _gauge("broker_session_queued_bytes", "Bytes of messages that wait for stored sessions.")
SESSION_GONE = _counter(
    "broker_session_messages_dropped", "Messages of stored sessions that never reached them.", "reason"
)
RETAINED = _gauge("broker_retained_messages", "Retained messages.")
RETAINED_BYTES = _gauge("broker_retained_bytes", "Bytes of retained messages.")
PUBLISH_LATENCY = _histogram(
    "broker_publish_latency_seconds", "From a publish to queues to its commit, by message; without transactions."
)
STAGES = _gauge("broker_stages", "Stages: rows that are stored until an epoch commits them, or they are collected.")
STAGED_BYTES = _gauge("broker_staged_bytes", "Bytes of stages; as many are kept free on the disk for their commits.")
EPOCH_COMMITS = _counter(
    "broker_epoch_commits", "Commits of staged rows: done, or repeated and answered as before.", "outcome"
)

QUEUES = _gauge("broker_queues", "Queues.")
PUBLISHED = _counter("broker_messages_published", "Messages committed to a queue.", *_QUEUE)
REFUSED = _counter("broker_publishes_refused", "Attempts to publish to a queue that was full.", *_QUEUE)
DELIVERED = _counter("broker_messages_delivered", "First deliveries, to each group.", *_QUEUE)
REDELIVERED = _counter("broker_messages_redelivered", "Further deliveries, to each group.", *_QUEUE)
ACKED = _counter("broker_messages_acked", "Messages that consumers are done with.", *_QUEUE)
FAILED = _counter(
    "broker_messages_failed", "Deliveries that failed: negative answers, and leases that ran out.", *_QUEUE
)
RETURNED = _counter("broker_messages_returned", "Messages that came back from consumers who left.", *_QUEUE)
STALE = _counter("broker_settlements_stale", "Answers to deliveries that were no longer current.", *_QUEUE)
DEAD_LETTERED = _counter("broker_messages_dead_lettered", "Messages moved to the dead letters.", *_QUEUE, "reason")
DROPPED = _counter("broker_messages_dropped", "Messages given up on, or pushed out of a full queue.", *_QUEUE)
EXPIRED = _counter("broker_messages_expired", "Messages that were too old when their turn came.", *_QUEUE)
FILTERED = _counter("broker_messages_filtered", "Messages that a group's filter passed over.", *_QUEUE)
LOST = _counter("broker_messages_lost", "Messages gone by retention before a group settled them.", *_QUEUE)
DELIVERY_LATENCY = _histogram(
    "broker_delivery_latency_seconds", "From the commit of a message to its first delivery to a group.", *_QUEUE
)
DEPTH = _gauge("queue_depth", "Messages that the slowest group has not settled, of those that came after it.", *_QUEUE)
MESSAGES = _gauge("queue_messages", "Messages kept, settled or not.", *_QUEUE)
SIZE = _gauge("queue_size_bytes", "Bytes in the files of messages.", *_QUEUE)
PARTITIONS = _gauge("queue_partitions", "Partitions.", *_QUEUE)
PAUSED = _gauge("queue_paused", "1 while nothing is delivered on purpose.", *_QUEUE)
LOG_START = _gauge("queue_log_start_offset", "First offset kept; the sum over partitions, or of each.", *_PARTITION)
LOG_END = _gauge(
    "queue_log_end_offset", "First offset not committed yet; the sum over partitions, or of each.", *_PARTITION
)

MEMBERS = _gauge("consumer_group_members", "Consumers that are members.", *_GROUP)
SUSPENDED = _gauge(
    "consumer_group_suspended_members", "Members that get no messages, because they settle nothing.", *_GROUP
)
COMMITTED = _gauge(
    "consumer_group_committed_offset",
    "All below is settled; the sum over partitions, or of each.",
    *_GROUP,
    "[partition]",
)
LAG = _gauge(
    "consumer_group_lag",
    "Messages that the group has not settled; in all partitions, or in each.",
    *_GROUP,
    "[partition]",
)
LAG_SECONDS = _gauge("consumer_group_lag_seconds", "Age of the oldest message that the group has not settled.", *_GROUP)
IN_FLIGHT = _gauge("consumer_group_in_flight", "Messages that consumers hold.", *_GROUP)
WAITING = _gauge("consumer_group_waiting", "Messages that wait for their backoff.", *_GROUP)
REBALANCES = _counter("consumer_group_rebalances", "Times that partitions were shared out anew.", *_GROUP)

CLOCK_JUMPS = _counter("clock_jumps", "Times that the wall clock was set by a second or more.")

WRITTEN = _counter("storage_bytes_written", "Bytes written to files.", "file")
READ = _counter("storage_bytes_read", "Bytes of batches read for consumers and those who browse.")
TAKEN_BYTES = _counter("storage_batch_bytes", "Bytes of batches taken: bytes written to that is write amplification.")
RECORDS = _counter("storage_records", "Records taken by all logs, those about messages included.")
FRAMES = _counter("storage_frames", "Commits.")
SYNCS = _counter("storage_syncs", "Syncs of files.", "file")
SYNC_LATENCY = _histogram("storage_journal_sync_seconds", "How long syncs of the journal took.")
GROUP_SIZE = _histogram("storage_commit_group_frames", "Commits that share one write to the journal.")
ROLLS = _counter("storage_journal_rolls", "Changes to the next file of the journal.")
JOURNAL_WAITS = _counter("storage_journal_waits", "Times that the journal was full and waited for a checkpoint.")
ADMISSION_WAITS = _counter("storage_admission_waits", "Commits that waited for room in memory.")
CHECKPOINTS = _counter("storage_checkpoints", "Checkpoints.")
CHECKPOINT_TIME = _counter("storage_checkpoint_seconds", "Time spent on checkpoints.")
REPLAYED = _gauge("storage_replayed_frames", "Commits that were read from the journal at the start.")
REPLAY_TIME = _gauge("storage_replay_seconds", "How long the recovery at the start took.")
SEALED = _counter("storage_segments_sealed", "Segments that were completed.")
RETENTION_SEGMENTS = _counter("storage_retention_segments", "Segments let go by retention.")
RETENTION_RECORDS = _counter("storage_retention_records", "Records let go by retention.")
RETENTION_BYTES = _counter("storage_retention_bytes", "Bytes let go by retention.")
COMPACTIONS = _counter("storage_compactions", "Compactions, done and failed.", "outcome")
COMPACTED_RECORDS = _counter("storage_compacted_records", "Records taken out by compaction.")
COMPACTED_BYTES = _counter("storage_compacted_bytes", "Bytes taken out by compaction.")
DISK_REFUSED = _counter("storage_publishes_refused", "Attempts to publish while the disk was nearly full.")
POISONED = _counter("storage_logs_poisoned", "Logs that take nothing any more because a sync or a write failed.")
STOPPED = _counter("storage_logs_stopped", "Logs stopped because their files failed; some of it is kept aside.")
PUT_OFF = _counter("storage_commits_put_off", "Group commits that waited because the journal could not be written.")
HOUSEKEEPING = _counter("storage_housekeeping_failures", "Retention and compaction that failed and is tried again.")
FAULTY = _gauge("storage_logs_faulty", "Logs that take no records now: stopped, poisoned or damaged.")
JOURNAL_FAILED = _gauge("storage_journal_failed", "1 once nothing is acknowledged until the server is started again.")
FREE = _gauge("storage_free_bytes", "Free on the disk.")
LOGS = _gauge("storage_logs", "Logs.")

RELOADS = _counter("config_reloads", "Reloads of the configuration.", "outcome")
RELOADED = _gauge(
    "config_last_reload_seconds",
    "When the configuration was last reloaded, in seconds since 1970; 0: never.",
    "outcome",
)

MQTT_DEPTH = _family("mqtt_queue_depth", Kind.GAUGE, "As penstock_queue_depth.", *_MQTT)
MQTT_ENQUEUED = _family(
    "mqtt_queue_enqueue_total", Kind.COUNTER, "As penstock_broker_messages_published_total.", *_MQTT
)
MQTT_DEQUEUED = _family("mqtt_queue_dequeue_total", Kind.COUNTER, "Deliveries, first and further ones.", *_MQTT)
MQTT_ACKED = _family("mqtt_queue_ack_total", Kind.COUNTER, "As penstock_broker_messages_acked_total.", *_MQTT)
MQTT_NACKED = _family("mqtt_queue_nack_total", Kind.COUNTER, "As penstock_broker_messages_failed_total.", *_MQTT)
MQTT_LATENCY = _family(
    "mqtt_queue_delivery_latency_seconds",
    Kind.SUMMARY,
    "Delivery latency of the last five to ten minutes.",
    *_MQTT,
    "quantile",
)
MQTT_DEAD = _family(
    "mqtt_queue_dlq_total", Kind.COUNTER, "As penstock_broker_messages_dead_lettered_total.", *_MQTT, "reason"
)
MQTT_CONSUMERS = _family(
    "mqtt_queue_active_consumers", Kind.GAUGE, "As penstock_consumer_group_members.", *_MQTT, "group"
)
