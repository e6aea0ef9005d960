"""The settings of message brokers: a table for each profile, as in [amqp.main]."""

from sendonce.config import types
from sendonce.config.types import Setting
from sendonce.domain.carried import Format

_MODULES = {
    "amqp": "sendonce.channels.brokers.amqp:AmqpProfile",
    "nats": "sendonce.channels.brokers.nats:NatsProfile",
    "kafka": "sendonce.channels.brokers.kafka:KafkaProfile",
    "redis": "sendonce.channels.brokers.redis:RedisProfile",
}


def _setting(
    table: str, key: str, kind: types.Kind, about: str, *, example: str = "", required: bool = False
) -> Setting:
    return Setting(key, kind, about, table=table, part=_MODULES[table], example=example, is_required=required)


def _common(table: str, scheme: str) -> tuple[Setting, ...]:
    """What every broker's table has."""
    return (
        _setting(
            table, "password", types.SECRET, "Secret; the url's unless set.", example='{ env = "BROKER_PASSWORD" }'
        ),
        _setting(
            table, "ca", types.SECRET,
            f"The certificate authority to trust instead of the system's, as PEM, with {scheme}.",
            example='{ file = "ca.pem" }',
        ),
        _setting(
            table, "certificate", types.SECRET, "Secret; a client certificate and its key, as PEM.",
            example='{ file = "client.pem" }',
        ),
        _setting(
            table, "format", types.choice(*Format),
            "How messages are written: as they were recorded (`plain`), or as CloudEvents 1.0, in the body "
            "(`cloudevents`) or in headers (`cloudevents-binary`).",
        ),
        _setting(table, "source", types.TEXT, "The `source` of CloudEvents: a URI, like `/shop`."),
        _setting(
            table, "policy", types.POLICY, "Settings that go over those of `[policy]`.",
            example='{ max_attempts = 5, if_unsure = "hold" }',
        ),
    )  # fmt: skip


def _url(table: str, example: str, more: str) -> Setting:
    about = f"`{example}`; {more} Secret when it holds a password."
    return _setting(table, "url", types.SECRET_ADDRESS, about, example=f'"{example}"', required=True)


BROKER_SETTINGS: tuple[Setting, ...] = (
    _url("amqp", "amqp://shop@rabbit.example:5672/shop", "`amqps:` for TLS. The path is the virtual host."),
    *_common("amqp", "`amqps:`"),
    _setting("amqp", "max_bytes", types.WHOLE, "The largest body that is sent; what is larger is refused here."),
    _url("nats", "nats://shop@nats.example:4222", "`tls:` for TLS; several with commas between them."),
    *_common("nats", "`tls:`"),
    _setting(
        "kafka", "servers", types.TEXTS, "Brokers to begin with.",
        example='["kafka1.example:9092", "kafka2.example:9092"]', required=True,
    ),
    _setting("kafka", "tls", types.FLAG, "Whether connections are encrypted."),
    _setting("kafka", "user", types.TEXT, "Who logs in by SASL; nobody unless set.", example='"shop"'),
    _setting("kafka", "mechanism", types.choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"), "How the user logs in."),
    *_common("kafka", "`tls = true`"),
    _setting(
        "kafka", "key", types.choice("none", "subject"),
        "The key of a message, by which its partition is chosen: none, or the event's subject.",
    ),
    _setting(
        "kafka", "message_timeout", types.DURATION,
        "When librdkafka gives a message up; less than the policy's `timeout`, so that nothing is written later.",
    ),
    _url("redis", "redis://shop@redis.example:6379/0", "`rediss:` for TLS."),
    *_common("redis", "`rediss:`"),
    _setting("redis", "remembers", types.DURATION, "How long a token is kept, so that Redis can be asked for it."),
    _setting("redis", "max_entries", types.WHOLE, "About how many entries a stream keeps; 0 for all."),
    _setting("redis", "max_bytes", types.WHOLE, "The largest entry that is added; what is larger is refused here."),
    _setting("redis", "create", types.FLAG, "Whether a stream that is not there is made."),
    _setting("redis", "lanes", types.WHOLE, "How many connections send."),
)  # fmt: skip
