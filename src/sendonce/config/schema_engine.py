"""The settings of the engine: its database, its workers, the policy, retention and alerts."""

from functools import partial

from sendonce.config import types
from sendonce.config.types import Setting
from sendonce.store.urls import DEFAULT_DATABASE

_database = partial(Setting, table="database")
_worker = partial(Setting, table="worker", part="sendonce.engine.config:WorkerConfig")
_policy = partial(Setting, table="policy", part="sendonce.domain.policies:Policy")
_retention = partial(Setting, table="retention", part="sendonce.engine.retention:RetentionSettings")
_inbox = partial(Setting, table="inbox", part="sendonce.engine.retention:InboxSettings")
_reconcile = partial(Setting, table="reconcile", part="sendonce.engine.audits:AuditSettings")
_log = partial(Setting, table="log", part="sendonce.engine.config:LogSettings")
_alerts = partial(Setting, table="alerts", part="sendonce.engine.alerts:AlertSettings")

INSIDE = (
    _database(
        "url",
        types.DATABASE,
        "Where everything is recorded: `sqlite:///file`, from the working directory, or "
        "`postgresql://user@host/name`. Secret when it holds a password.",
        usual=DEFAULT_DATABASE,
        variable="SENDONCE_DATABASE",
        option="--database",
    ),
    _database(
        "listen_url",
        types.DATABASE,
        "Where workers listen for announcements, when the database's own address leads through a pooler.",
        option="--listen-database",
        example='"postgresql://app@localhost:5432/shop"',
    ),
    _database(
        "instance",
        types.TEXT,
        "The name that the database has, where it has one (`sendonce instance`): on one of another name nothing is"
        " sent.",
        variable="SENDONCE_INSTANCE",
        option="--instance",
        example='"production"',
    ),
    _worker("concurrency", types.WHOLE, "How many sends at once.", option="--concurrency"),
    _worker(
        "lease",
        types.DURATION,
        "How long a claim holds without being renewed; what a dead worker held is taken over after that.",
        option="--lease",
    ),
    _worker("poll", types.DURATION, "The longest pause between two looks for work.", option="--poll"),
    _worker("grace", types.DURATION, "How long to finish what is in flight when told to stop.", option="--grace"),
    _worker(
        "per_destination",
        types.WHOLE,
        "The most sends at once to one destination; four fifths of all unless set.",
        option="--per-destination",
        example="5",
    ),
    _worker(
        "per_host",
        types.WHOLE,
        "The most sends at once to one host; all unless set.",
        option="--per-host",
        example="20",
    ),
    _worker(
        "breaker_after",
        types.WHOLE,
        "After so many failures in a row a destination is left alone for a while.",
        option="--breaker-after",
    ),
    _worker(
        "breaker_pause",
        types.DURATION,
        "How long it is left alone until the first probe; for longer when probes fail, up to a third of the outage.",
        option="--breaker-pause",
    ),
    _worker(
        "state",
        types.TEXT,
        "A small file in which a worker remembers its newest claim, one for each worker: so that it notices, also when"
        " it begins anew, that the database has lost commits.",
        option="--state",
        example='"/var/lib/sendonce/worker.state"',
    ),
    _worker(
        "notify",
        types.FLAG,
        "Also listen for announcements of publishers that notify (PostgreSQL).",
        part="",
        usual=False,
        option="--notify",
    ),
    _worker(
        "metrics",
        types.ADDRESS,
        "Where to serve `/metrics`, `/livez` and `/readyz`, like `127.0.0.1:9464`; nowhere unless set.",
        part="",
        option="--metrics",
        example='"127.0.0.1:9464"',
    ),
    _worker(
        "app",
        types.APP,
        "Your own channels, over those of the settings file: a `sendonce.channels.Channels`.",
        part="",
        option="--app",
        example='"shop.messages:channels"',
    ),
    _policy("max_attempts", types.WHOLE, "After so many failed attempts a delivery is given up."),
    _policy("first_delay", types.DURATION, "The wait after the first failure; it doubles each time."),
    _policy("longest_delay", types.DURATION, "The longest wait between two attempts."),
    _policy("jitter", types.NUMBER, "By up to this part a wait is shortened; 0 is exact."),
    _policy("timeout", types.DURATION, "For one send; at most four fifths of the lease."),
    _policy(
        "doubt_wait",
        types.DURATION,
        "The wait before an attempt of unknown outcome is asked about, where somebody can be asked.",
    ),
    _policy("retry_after_cap", types.DURATION, "The longest wait that a receiver can ask for."),
    _policy(
        "if_unsure",
        types.choice("resend", "hold"),
        "What may have been sent and cannot be asked about: `resend` with the same token, or `hold` for a person.",
    ),
    _retention(
        "payloads",
        types.DURATION_OR_NEVER,
        'After this time the content of what has ended is removed; `"never"` keeps it, here and below.',
    ),
    _retention(
        "history",
        types.DURATION_OR_NEVER,
        "After this time deliveries that have ended are removed, with their attempts.",
    ),
    _retention(
        "keys",
        types.DURATION_OR_NEVER,
        "After this time the event itself is removed: until then its key is recognised. At least `history`.",
    ),
    _retention("operations", types.DURATION_OR_NEVER, "How long the operations log is kept."),
    _retention("workers", types.DURATION_OR_NEVER, "How long workers that have stopped are remembered."),
    _retention("every", types.DURATION, "How often one of the workers removes what is old."),
    _retention("batch", types.WHOLE, "How many events it looks at in one step."),
    _inbox(
        "keep",
        types.DURATION_OR_NEVER,
        "For how long after its last sight a message is known again: the deduplication window. At least what senders"
        " keep; messages that have ended and evidence go with it.",
    ),
    _inbox(
        "sender_keeps",
        types.DURATION,
        "For how long a sender may repeat a message, by redelivery or its own replay; a shorter `keep` is refused.",
        example='"90d"',
    ),
    _reconcile(
        "audit_every",
        types.DURATION,
        "How often one of the workers checks what is marked sent against what the other side has; never unless set.",
        example='"1d"',
    ),
    _reconcile(
        "audit_since",
        types.DURATION,
        "How far back it looks each time; twice `audit_every` unless set, and longer than that.",
        example='"2d"',
    ),
    _log(
        "format",
        types.choice("text", "json"),
        "How workers and consumers log: `text`, or one JSON object on each line.",
        option="--log-format",
    ),
    _log(
        "tracebacks",
        types.FLAG,
        "Also log where an exception of your own channel came from: types, files, lines and functions, and no text.",
        option="--tracebacks",
    ),
    _alerts("log", types.FLAG, "Log alerts as warnings."),
    _alerts(
        "webhook",
        types.destination("http", "https"),
        "An address that alerts are posted to.",
        example='"https://ops.example/hooks/sendonce"',
    ),
    _alerts(
        "secret",
        types.SIGNING,
        "Secret; signs those requests like our webhooks.",
        field="webhook_secret",
        example='{ env = "WEBHOOK_SECRET" }',
    ),
    _alerts(
        "mail",
        types.destination("mailto"),
        "An address that alerts are mailed to, through `[mail]`.",
        example='"oncall@example.com"',
    ),
    _alerts("every", types.DURATION, "How often a worker looks."),
    _alerts("repeat", types.DURATION, "After what time an alert that still stands is told again."),
    _alerts("dead_letters", types.WHOLE, "Open dead letters from which on people are told; 0 is off, here and below."),
    _alerts("oldest_due", types.DURATION, "For how long something has been due. What is parked is not due."),
    _alerts(
        "oldest_open",
        types.DURATION,
        "For how long the oldest open delivery has been on its way, parked or waiting for a retry; what a person holds"
        " back does not count.",
    ),
    _alerts("breakers", types.DURATION, "For how long a destination that fails again and again has been left alone."),
    _alerts("in_doubt", types.WHOLE, "Deliveries that may have been sent and about which nobody knows."),
    _alerts(
        "commits_lost",
        types.WHOLE,
        "How often it was noticed within the last `repeat` that the database has lost commits; one that is not settled"
        " yet counts too.",
    ),
    _alerts("dead_messages", types.WHOLE, "Messages that came in, were given up and wait for a person."),
    _alerts("oldest_message", types.DURATION, "For how long a message that came in has been due and not handled."),
    _alerts(
        "findings",
        types.WHOLE,
        "Deliveries marked sent without evidence, or shown to be sent too late, within the last `repeat`.",
    ),
)
