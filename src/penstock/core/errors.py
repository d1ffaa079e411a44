"""Every error Penstock raises on purpose: one root, a stable code, facts as fields. Gateways translate by code."""

from __future__ import annotations

import enum


class ErrorCode(enum.Enum):
    INVALID_ARGUMENT = "invalid-argument"
    NO_SUCH_LOG = "no-such-log"
    LOG_EXISTS = "log-exists"
    OFFSET_OUT_OF_RANGE = "offset-out-of-range"
    TRIMMED = "trimmed"  # rows that were asked for are gone
    TOO_LARGE = "too-large"
    CORRUPT_BATCH = "corrupt-batch"
    CORRUPT_FRAME = "corrupt-frame"
    LOG_DAMAGED = "log-damaged"  # bytes below the checkpoint are missing or wrong
    LOG_STOPPED = "log-stopped"  # what is kept aside of the log could not be put back when the shard was opened
    LOG_POISONED = "log-poisoned"  # a commit failed; the log is rebuilt from disk when the shard is opened again
    JOURNAL_DAMAGED = "journal-damaged"
    JOURNAL_FAILED = "journal-failed"  # a write or sync failed; nothing is acknowledged until the shard is reopened
    OUTCOME_UNKNOWN = "outcome-unknown"  # after a restart the commit is there whole or not at all
    DISK_LOW = "disk-low"  # free space is below disk_reserve; publishes are refused, settlements go on
    DIRECTORY_IN_USE = "directory-in-use"
    DIRECTORY_FORMAT = "directory-format"
    CLOSED = "closed"
    PLATFORM = "platform"
    INVALID_SETTING = "invalid-setting"
    NO_SUCH_QUEUE = "no-such-queue"
    QUEUE_EXISTS = "queue-exists"
    QUEUE_RESERVED = "queue-reserved"  # a name that begins with amq.
    QUEUE_REPLACED = "queue-replaced"  # deleted, and declared anew under its name
    NO_SUCH_GROUP = "no-such-group"
    GROUP_EXISTS = "group-exists"
    GROUP_IN_USE = "group-in-use"  # one consumer has it to itself, or wants to while there are others
    QUEUE_FULL = "queue-full"
    STALE_SETTLEMENT = "stale-settlement"  # the delivery it names is no longer current; nothing was changed
    OUT_OF_ORDER = "out-of-order"
    FENCED_PRODUCER = "fenced-producer"
    STAGE_GONE = "stage-gone"  # a commit names what was committed or collected; nothing of it was committed
    EPOCH_FORGOTTEN = "epoch-forgotten"
    PIPELINE_KNOWN = "pipeline-known"  # another query commits under its name
    FENCED_MEMBER = "fenced-member"
    MALFORMED_PACKET = "malformed-packet"
    PROTOCOL_ERROR = "protocol-error"
    CONNECTION_LOST = "connection-lost"  # of a client to a server
    REFUSED = "refused"  # by a server, to its client
    CANNOT_LISTEN = "cannot-listen"
    BAD_CREDENTIALS = "bad-credentials"
    NOT_AUTHORISED = "not-authorised"
    TOO_MANY_ATTEMPTS = "too-many-attempts"
    NO_SUCH_USER = "no-such-user"
    USER_EXISTS = "user-exists"
    NO_SUCH_EXCHANGE = "no-such-exchange"
    EXCHANGE_DIFFERS = "exchange-differs"  # declared again, with other arguments
    EXCHANGE_IN_USE = "exchange-in-use"
    EXCHANGE_INTERNAL = "exchange-internal"  # messages reach it by bindings only
    EXCHANGE_RESERVED = "exchange-reserved"  # a name that begins with amq., or one that is always there
    DEFAULT_EXCHANGE = "default-exchange"  # every queue is bound to it by its name, and nothing else can be
    EXCHANGE_LIMIT = "exchange-limit"
    QUEUE_LIMIT = "queue-limit"
    NO_SUCH_BINDING = "no-such-binding"
    NO_SUCH_POLICY = "no-such-policy"
    NO_SUCH_NAMESPACE = "no-such-namespace"
    NAMESPACE_REFUSED = "namespace-refused"  # no rule about the user names it
    UNROUTABLE = "unroutable"  # no queue takes it, and its publisher asked to be told


class PenstockError(Exception):
    """Root of all errors. The text says what happened, where, and what to do."""

    code: ErrorCode

    def __reduce__(self) -> tuple[object, ...]:
        """Survives pickling: a subclass takes facts, not the finished text that Exception would call it with again."""
        return _restore, (type(self), self.args), self.__dict__


def _restore(kind: type[PenstockError], args: tuple[object, ...]) -> PenstockError:
    return kind.__new__(kind, *args)


class InvalidArgument(PenstockError, ValueError):
    code = ErrorCode.INVALID_ARGUMENT


class NoSuchLog(PenstockError):
    code = ErrorCode.NO_SUCH_LOG

    def __init__(self, log: object) -> None:
        super().__init__(f"no log {log!r}: create it first, or see the logs there are with `penstock log stat DIR`")
        self.log = log


class LogExists(PenstockError):
    code = ErrorCode.LOG_EXISTS

    def __init__(self, name: str) -> None:
        super().__init__(f"log {name!r} exists already: open it, or delete it before creating it again")
        self.name = name


class OffsetOutOfRange(PenstockError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, log: str, offset: int, start: int, end: int) -> None:
        super().__init__(
            f"offset {offset} of log {log!r} is outside {start}..{end}: "
            f"the oldest record kept is at {start}, the next one will be at {end}"
        )
        self.log, self.offset, self.start, self.end = log, offset, start, end


class TooLarge(PenstockError):
    code = ErrorCode.TOO_LARGE

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} is {size} bytes, the limit is {limit}: send it in smaller parts")
        self.what, self.size, self.limit = what, size, limit


class CorruptBatch(PenstockError):
    """Bytes that do not form a batch: wrong checksum, lengths that do not fit, offsets out of order."""

    code = ErrorCode.CORRUPT_BATCH

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"corrupt batch at byte {position}: {reason}")
        self.reason, self.position = reason, position


class CorruptFrame(PenstockError):
    code = ErrorCode.CORRUPT_FRAME

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"corrupt frame at byte {position}: {reason}")
        self.reason, self.position = reason, position


class LogDamaged(PenstockError):
    code = ErrorCode.LOG_DAMAGED

    def __init__(self, log: str, file: str, position: int, reason: str) -> None:
        super().__init__(
            f"log {log!r} is damaged in {file} at byte {position}: {reason}. "
            f"Nothing was cut. Look with `penstock log verify DIR --log {log}`, "
            f"repair it with `penstock log repair DIR --log {log}`"
        )
        self.log, self.file, self.position, self.reason = log, file, position, reason


class LogPoisoned(PenstockError):
    code = ErrorCode.LOG_POISONED

    def __init__(self, log: str, reason: str) -> None:
        super().__init__(
            f"log {log!r} takes no more records ({reason}). Start the server again: records that were acknowledged are "
            f"kept aside, and opening the directory restores them"
        )
        self.log, self.reason = log, reason


class LogStopped(LogPoisoned):
    """One that opening could not bring back."""

    code = ErrorCode.LOG_STOPPED

    def __init__(self, log: str, reason: str) -> None:
        PenstockError.__init__(
            self,
            f"log {log!r} is stopped: acknowledged records that are kept aside could not be restored when the "
            f"directory was opened ({reason}). They cannot be read. Repair the disk and start again, or stop the "
            f"server and use `penstock log repair DIR --log {log}`",
        )
        self.log, self.reason = log, reason


class JournalDamaged(PenstockError):
    code = ErrorCode.JOURNAL_DAMAGED

    def __init__(self, sequence: int, known_durable: int, reason: str) -> None:
        known = f"frames up to {known_durable} were durable" if known_durable > sequence else "it may have been durable"
        super().__init__(
            f"the journal is damaged: frame {sequence} cannot be read ({reason}), though {known}. "
            f"Nothing was cut. Repair it with `penstock log repair DIR --journal`"
        )
        self.sequence, self.known_durable, self.reason = sequence, known_durable, reason


class JournalFailed(PenstockError):
    code = ErrorCode.JOURNAL_FAILED

    def __init__(self, reason: str) -> None:
        super().__init__(f"the journal stopped: {reason}. Nothing is acknowledged until the directory is opened again")
        self.reason = reason


class OutcomeUnknown(PenstockError):
    code = ErrorCode.OUTCOME_UNKNOWN

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the commit failed and its outcome is unknown ({reason}): "
            f"once the directory is opened again, all of it is stored or nothing; look before sending it again"
        )
        self.reason = reason


class DiskLow(PenstockError):
    code = ErrorCode.DISK_LOW

    def __init__(self, free_bytes: int, reserve_bytes: int) -> None:
        super().__init__(
            f"only {free_bytes} bytes of the disk are left beside what waits to be written, and disk_reserve is "
            f"{reserve_bytes}: publishes are refused until space is freed (trim or delete logs, or lower disk_reserve)"
        )
        self.free_bytes, self.reserve_bytes = free_bytes, reserve_bytes


class DirectoryInUse(PenstockError):
    code = ErrorCode.DIRECTORY_IN_USE

    def __init__(self, directory: str, holder: str) -> None:
        super().__init__(
            f"{directory} is held by {holder}: stop it, share the directory between processes with `penstock serve`, "
            f"or read with the commands that need no lock (log cat, stat, verify)"
        )
        self.directory, self.holder = directory, holder


class DirectoryFormat(PenstockError):
    code = ErrorCode.DIRECTORY_FORMAT


class Closed(PenstockError):
    code = ErrorCode.CLOSED


class UnsupportedPlatform(PenstockError):
    code = ErrorCode.PLATFORM


class InvalidSetting(InvalidArgument):
    """A setting that is unknown, of the wrong type or out of range. `path` is as people write it, with dots."""

    code = ErrorCode.INVALID_SETTING

    def __init__(self, path: str, reason: str, nearest: str | None = None) -> None:
        super().__init__(f"setting {path}: {reason}" + (f"; did you mean {nearest}?" if nearest else ""))
        self.path, self.reason, self.nearest = path, reason, nearest


class NoSuchQueue(PenstockError):
    code = ErrorCode.NO_SUCH_QUEUE

    def __init__(self, queue: str) -> None:
        super().__init__(f"no queue {queue!r}: create it first, or publish to `$queue/{queue}` with auto_create on")
        self.queue = queue


class QueueReserved(PenstockError):
    code = ErrorCode.QUEUE_RESERVED

    def __init__(self, queue: str) -> None:
        super().__init__(f"queue name {queue!r} begins with amq., which is reserved: choose another name")
        self.queue = queue


class QueueExists(PenstockError):
    code = ErrorCode.QUEUE_EXISTS

    def __init__(self, queue: str) -> None:
        super().__init__(
            f"queue {queue!r} exists already, with other settings: change it, or delete it before creating it again"
        )
        self.queue = queue


class NoSuchGroup(PenstockError):
    code = ErrorCode.NO_SUCH_GROUP

    def __init__(self, queue: str, group: str) -> None:
        super().__init__(
            f"queue {queue!r} has no consumer group {group!r}: create it, or subscribe with it; "
            f"a group without members goes away after group_expiry"
        )
        self.queue, self.group = queue, group


class GroupExists(PenstockError):
    code = ErrorCode.GROUP_EXISTS

    def __init__(self, queue: str, group: str) -> None:
        super().__init__(
            f"queue {queue!r} has a consumer group {group!r} already: "
            f"consume with it, reset its position, or delete it before creating it again"
        )
        self.queue, self.group = queue, group


class GroupInUse(PenstockError):
    code = ErrorCode.GROUP_IN_USE

    def __init__(self, queue: str, group: str, is_exclusive: bool) -> None:
        """`is_exclusive`: by one who has it alone; else by others, beside whom nobody can have it alone."""
        use, advice = _EXCLUSIVE_USE if is_exclusive else _SHARED_USE
        super().__init__(f"consumer group {group!r} of queue {queue!r} is in {use}: {advice}")
        self.queue, self.group, self.use = queue, group, use

    @property
    def is_exclusive(self) -> bool:
        return self.use == _EXCLUSIVE_USE[0]


_EXCLUSIVE_USE = "exclusive use", "consume with another group, or wait until the consumer that has it alone has gone"
_SHARED_USE = "shared use", "share it too, or wait until its consumers have gone before one has it alone"


class QueueFull(PenstockError):
    code = ErrorCode.QUEUE_FULL

    def __init__(self, queue: str, depth: int, limit: int) -> None:
        super().__init__(
            f"queue {queue!r} is full: its slowest group has {depth} messages to settle, max_queue_depth is {limit}. "
            f"Publish again when some are settled, raise the limit, or set overflow to drop-oldest"
        )
        self.queue, self.depth, self.limit = queue, depth, limit


class ReadyFull(QueueFull):
    def __init__(self, queue: str, ready: int, most: int | None, most_bytes: int | None) -> None:
        limits = [] if most is None else [f"max_ready is {most}"]
        limits += [] if most_bytes is None else [f"max_ready_bytes {most_bytes} bytes"]
        PenstockError.__init__(
            self,
            f"queue {queue!r} is full: {ready} messages wait for a consumer, {' and '.join(limits)}. "
            f"Publish again when some are taken, raise the limit, or set overflow to drop-oldest",
        )
        self.queue, self.depth, self.limit = queue, ready, most or 0


class VolatileFull(QueueFull):
    """Of a queue that is in memory alone: by bytes."""

    def __init__(self, queue: str, size: int, limit: int, setting: str) -> None:
        PenstockError.__init__(
            self,
            f"queue {queue!r} is in memory alone, and {setting} is {limit} bytes, of which {size} are used. "
            f"Publish again when messages are settled, raise the limit, or declare the queue durable",
        )
        self.queue, self.depth, self.limit = queue, size, limit


class QueueLimit(PenstockError):
    code = ErrorCode.QUEUE_LIMIT

    def __init__(self, what: str, limit: int, setting: str) -> None:
        super().__init__(f"there are {limit} {what}, and {setting} is {limit}: delete some first, or raise the limit")
        self.what, self.limit = what, limit


class StaleSettlement(PenstockError):
    code = ErrorCode.STALE_SETTLEMENT

    def __init__(self, message_id: str, reason: str) -> None:
        super().__init__(
            f"the settlement of {message_id} changed nothing: {reason}. "
            f"If the message is not settled it will come again; settle that delivery"
        )
        self.message_id, self.reason = message_id, reason


class StageGone(PenstockError):
    code = ErrorCode.STAGE_GONE

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(
            f"staged rows {stage} cannot be committed: {reason}. Nothing was committed; stage all rows again"
        )
        self.stage, self.reason = stage, reason


class EpochForgotten(PenstockError):
    """Whether an epoch so old was committed is no longer known: taking it could store its rows twice."""

    code = ErrorCode.EPOCH_FORGOTTEN

    def __init__(self, query: str, epoch: int, oldest: int) -> None:
        super().__init__(
            f"epoch {epoch} of query {query!r} is older than {oldest}, the oldest that is remembered: nothing was "
            f"committed. Continue with the epoch after the newest, or use a new query id"
        )
        self.query, self.epoch, self.oldest = query, epoch, oldest


class PipelineKnown(PenstockError):
    """Another query commits under this name: a checkpoint that was lost, or a second job."""

    code = ErrorCode.PIPELINE_KNOWN

    def __init__(self, pipeline: str, known: str, query: str) -> None:
        super().__init__(
            f"pipeline {pipeline!r} belongs to query {known!r}, and {query!r} would start over: nothing was committed. "
            f"Continue with its checkpoint, use another name, or reset the pipeline on purpose"
        )
        self.pipeline, self.known, self.query = pipeline, known, query


class OutOfOrder(PenstockError):
    code = ErrorCode.OUT_OF_ORDER

    def __init__(self, producer: str, expected: int, got: int) -> None:
        super().__init__(
            f"producer {producer!r} sent sequence {got} where {expected} must follow: "
            f"send what is missing first, or start over with a higher producer epoch"
        )
        self.producer, self.expected, self.got = producer, expected, got


class FencedProducer(PenstockError):
    code = ErrorCode.FENCED_PRODUCER

    def __init__(self, producer: str, epoch: int) -> None:
        super().__init__(
            f"producer {producer!r} continued with a higher epoch than {epoch}: "
            f"another instance took its place; stop this one, or start over with a higher epoch"
        )
        self.producer, self.epoch = producer, epoch


class FencedMember(PenstockError):
    code = ErrorCode.FENCED_MEMBER

    def __init__(self, group: str, generation: int) -> None:
        super().__init__(
            f"generation {generation} of consumer group {group!r} is over: "
            f"join again to get partitions; messages that were held went back to the group"
        )
        self.group, self.generation = group, generation


class BadCredentials(PenstockError):
    """Name or password, token or proof is wrong. The text does not say which, as it may reach whoever tried."""

    code = ErrorCode.BAD_CREDENTIALS

    def __init__(self, reason: str = "user name or password is wrong") -> None:
        super().__init__(f"login refused: {reason}; check the credentials, or ask an admin")
        self.reason = reason


class NotAuthorised(PenstockError):
    code = ErrorCode.NOT_AUTHORISED

    def __init__(self, what: str) -> None:
        super().__init__(f"not allowed: {what}; an admin can allow it (`penstock user`, `penstock acl`)")
        self.what = what


class NoSuchPolicy(PenstockError):
    code = ErrorCode.NO_SUCH_POLICY

    def __init__(self, policy: str) -> None:
        super().__init__(f"no policy {policy!r}: `penstock policy list` shows those there are")
        self.policy = policy


class NoSuchNamespace(PenstockError):
    code = ErrorCode.NO_SUCH_NAMESPACE

    def __init__(self, namespace: str) -> None:
        super().__init__(f"no namespace {namespace!r}: declare a queue in it, or write a rule that names it")
        self.namespace = namespace


class NamespaceRefused(PenstockError):
    code = ErrorCode.NAMESPACE_REFUSED

    def __init__(self, user: str, namespace: str) -> None:
        super().__init__(f"{user} does not work in namespace {namespace!r}: a rule about the user there lets it in")
        self.user, self.namespace = user, namespace


class TooManyAttempts(PenstockError):
    """`wait_s`: after so many seconds it is worth another try."""

    code = ErrorCode.TOO_MANY_ATTEMPTS

    def __init__(self, reason: str, wait_s: float) -> None:
        super().__init__(f"login refused: {reason}; try again in {max(1, round(wait_s))} s")
        self.reason, self.wait_s = reason, wait_s


class NoSuchUser(PenstockError):
    code = ErrorCode.NO_SUCH_USER

    def __init__(self, user: str) -> None:
        super().__init__(f"no user {user!r}: `penstock user list` lists them")
        self.user = user


class UserExists(PenstockError):
    code = ErrorCode.USER_EXISTS

    def __init__(self, user: str) -> None:
        super().__init__(
            f"user {user!r} exists already: change the password with `penstock user passwd {user}`, "
            f"or remove the user first"
        )
        self.user = user


class NoSuchExchange(PenstockError):
    code = ErrorCode.NO_SUCH_EXCHANGE

    def __init__(self, exchange: str) -> None:
        super().__init__(f"no exchange {exchange!r}: declare it first; `penstock exchange list` shows those there are")
        self.exchange = exchange


class ExchangeDiffers(PenstockError):
    code = ErrorCode.EXCHANGE_DIFFERS

    def __init__(self, exchange: str, what: str, wanted: object, current: object) -> None:
        super().__init__(
            f"exchange {exchange!r} exists with another {what}: {current!r}, not {wanted!r}. Declare it as it is, or "
            f"delete it before declaring it again"
        )
        self.exchange, self.what, self.wanted, self.current = exchange, what, wanted, current


class ExchangeInUse(PenstockError):
    code = ErrorCode.EXCHANGE_IN_USE

    def __init__(self, exchange: str, bindings: int) -> None:
        super().__init__(f"exchange {exchange!r} has {bindings} bindings: remove them first, or delete it with them")
        self.exchange, self.bindings = exchange, bindings


class ExchangeInternal(PenstockError):
    code = ErrorCode.EXCHANGE_INTERNAL

    def __init__(self, exchange: str) -> None:
        super().__init__(f"exchange {exchange!r} is internal: publish to an exchange that is bound to it")
        self.exchange = exchange


class ExchangeReserved(PenstockError):
    code = ErrorCode.EXCHANGE_RESERVED

    def __init__(self, exchange: str, reason: str) -> None:
        super().__init__(f"exchange {exchange!r} {reason}")
        self.exchange, self.reason = exchange, reason


class DefaultExchange(PenstockError):
    code = ErrorCode.DEFAULT_EXCHANGE

    def __init__(self) -> None:
        super().__init__("the default exchange has no bindings of its own: every queue is bound to it by its name")


class ExchangeLimit(PenstockError):
    code = ErrorCode.EXCHANGE_LIMIT

    def __init__(self, namespace: str, what: str, limit: int) -> None:
        super().__init__(f"namespace {namespace!r} has {limit} {what}, which is the limit: remove some first")
        self.namespace, self.what, self.limit = namespace, what, limit


class NoSuchBinding(PenstockError):
    code = ErrorCode.NO_SUCH_BINDING

    def __init__(self, source: str, destination: str, key: str) -> None:
        super().__init__(f"{destination} is not bound to exchange {source!r} with key {key!r} and these arguments")
        self.source, self.destination, self.key = source, destination, key


class Unroutable(PenstockError):
    code = ErrorCode.UNROUTABLE

    def __init__(self, exchange: str, key: str) -> None:
        super().__init__(
            f"no queue is bound to exchange {exchange!r} for key {key!r}: bind one, or publish without mandatory"
        )
        self.exchange, self.key = exchange, key


class CannotListen(PenstockError):
    code = ErrorCode.CANNOT_LISTEN

    def __init__(self, listener: str, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"listener {listener} cannot listen on {host}:{port} ({reason}): stop who uses the port, "
            f"or set listeners.{listener}.host and port to others"
        )
        self.listener, self.host, self.port, self.reason = listener, host, port, reason
