"""The settings of consumers: those of the process, and a table for each of them, as in [consumers.wallet]."""

from functools import partial

from sendonce.config import types
from sendonce.config.types import Setting

_consume = partial(Setting, table="consume")
_consumer = partial(Setting, table="consumers", part="sendonce.consumer.registry:Consumer")

CONSUMER_SETTINGS = (
    _consume(
        "app",
        types.APP,
        "Your consumers: a `sendonce.consumer.Consumers`.",
        option="--app",
        example='"shop.handlers:consumers"',
    ),
    _consume(
        "grace",
        types.DURATION,
        "How long to finish what is in hand when told to stop.",
        part="sendonce.consumer.config:ConsumeConfig",
        option="--grace",
    ),
    _consume(
        "metrics",
        types.ADDRESS,
        "Where to serve `/metrics`, `/livez` and `/readyz`, like `127.0.0.1:9465`; nowhere unless set.",
        option="--metrics",
        example='"127.0.0.1:9465"',
    ),
    _consumer(
        "source",
        types.TEXT,
        "Where its messages come from, instead of where the application says: `nats:PROFILE/STREAM`,"
        " `amqp:PROFILE/QUEUE`, `kafka:PROFILE/TOPIC` or `redis:PROFILE/STREAM`.",
        example='"nats:main/payments"',
    ),
    _consumer(
        "mode",
        types.choice("retry", "once"),
        "What fails is tried again by the policy and then a dead letter (`retry`), or a dead letter at once (`once`).",
    ),
    _consumer("prefetch", types.WHOLE, "How many messages are in hand at most."),
    _consumer("concurrency", types.WHOLE, "How many of them are handled at once; on SQLite one."),
    _consumer("most_lost", types.WHOLE, "After so many tries that ended with their process a message is given up."),
    _consumer("largest_body", types.WHOLE, "The largest body, in bytes; what is larger is a dead letter at once."),
    _consumer(
        "policy",
        types.POLICY,
        "Settings that go over those of the application: `max_attempts`, the delays, and `timeout`, for one try of a"
        " handler that is awaited.",
        part="",
        example='{ max_attempts = 5, timeout = "30s" }',
    ),
)
