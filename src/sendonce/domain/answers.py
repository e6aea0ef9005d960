"""What every answer means: one table, from which outcomes are taken and docs/reference/answers.md is printed.

Where a code or a text depends on what was said, they fill it in: `replace(SAID_NO, code="http_422")`.
"""

from datetime import timedelta
from typing import NamedTuple

from sendonce.domain.outcomes import (
    LEASE_EXPIRED,
    Accepted,
    Deferred,
    Delivered,
    Failed,
    Fault,
    Outcome,
    Refused,
    Unknown,
)

_OURS, _CHANNEL, _RECIPIENT = Fault.OURS, Fault.CHANNEL, Fault.RECIPIENT

# HTTP: webhooks, and endpoints with a profile.
ASKED_TO_WAIT = Deferred("http_{status}", "the receiver asked to wait")
NOT_TAKEN = Failed("http_{status}", "the receiver did not take it")
HAD_IT = Unknown("http_{status}", "it failed while it had the message")
GONE_FOR_GOOD = Refused("http_410", "the receiver is gone for good")
REDIRECTS = Refused("http_{status}", "the receiver redirects; redirects are not followed")
SAID_NO = Refused("http_{status}", "the receiver refused it")
WRONG_BEARER = Deferred("our_credentials", "it does not take our bearer secret", fault=_CHANNEL)
NOT_SENT = Failed("{trouble}", "nothing of the request reached the other side")
LOST = Unknown("{trouble}", "the request may have gone out, and no answer came back")
FORBIDDEN = Refused("address_forbidden", "the address is not one that may be dialled")
BAD_SECRET = Deferred("our_credentials", "the subscription's secret cannot be used", fault=_OURS)
NOT_DIALLED = Deferred("{trouble}", "we could not begin: too busy, or out of something", fault=_OURS)
# A healthy tenant has more names than that too. Where names get no answer it waits as any other deferral does.
NAMES_BUSY = Deferred(
    "names_busy", "too many names of its tenant or domain are being looked up", timedelta(seconds=2), fault=_OURS
)
LACKING = Deferred("our_server", "this worker is out of descriptors, memory or disk", fault=_OURS)

# Mails, by whatever way.
BAD_CONTENT = Refused("bad_content", "its content is not an e-mail", fault=_OURS)
CREDENTIALS = Deferred("our_credentials", "our user, password or key is not accepted", fault=_CHANNEL)
ACCOUNT = Deferred("our_account", "our account may not send, or not as this sender", fault=_OURS)
SERVER = Deferred("our_server", "our mail server or provider cannot be reached, or is out of service", fault=_CHANNEL)

# A mail provider's HTTP API.
RATE_LIMITED = Deferred("rate_limited", "the mail provider asked to wait", fault=_CHANNEL)
PROVIDER_HAD_IT = Unknown("http_{status}", "the mail provider failed while it had the mail", fault=_CHANNEL)
PROVIDER_LOST = Unknown("{trouble}", "the request may have gone out, and no answer came back", fault=_CHANNEL)
NO_MAIL_ID = Unknown("bad_answer", "the mail provider's answer has no id for the mail", fault=_CHANNEL)
KNOWN_TOKEN = Unknown("http_409", "the mail provider has been given this token before", fault=_OURS)
MAIL_REFUSED = Refused("{provider's code}", "the mail provider refused the mail", fault=_RECIPIENT)

# SMTP.
CLOSING = Failed("smtp_421", "the mail server is closing", fault=_CHANNEL)
RECIPIENT_BUSY = Failed("smtp_{code}", "the mail server could not take it for this recipient now", fault=_RECIPIENT)
MAIL_BUSY = Failed("smtp_{code}", "the mail server could not take it now")
SMTP_REFUSED = Refused("smtp_{code}", "the mail server refused it", fault=_RECIPIENT)
NO_SMTPUTF8 = Refused("no_smtputf8", "the mail server takes ASCII addresses only", fault=_RECIPIENT)
MISUNDERSTOOD = Deferred("our_server", "the mail server does not understand us", fault=_OURS)
CUT_BEFORE = Failed("{trouble}", "no valid answer, before the whole mail had gone out", fault=_CHANNEL)
# At RCPT many servers ask the recipient's own one.
RECIPIENT_LATE = Failed("read_timeout", "no answer in time at RCPT", fault=_RECIPIENT)
CUT_AFTER = Unknown("{trouble}", "no valid answer after the whole mail had gone out", fault=_CHANNEL)
CONNECTIONS_BUSY = Deferred("connections_busy", "no connection to the mail server became free in time", fault=_OURS)

# Message brokers.
BROKER_ADDRESS = Refused("bad_address", "its address does not name what this broker needs", fault=_OURS)
BROKER_AWAY = Failed("cannot_connect", "no connection to the broker came about", fault=_CHANNEL)
BROKER_LOST = Unknown("connection_lost", "the connection broke before the broker had confirmed it", fault=_CHANNEL)
NOT_CONFIRMED_IN_TIME = Unknown("no_confirm", "the broker did not confirm it in time", fault=_CHANNEL)
NOT_WRITTEN = Failed("not_written", "it was not written to the broker: the connection was lost before", fault=_CHANNEL)
BROKER_SERVER = Deferred("our_server", "the broker does not have what our settings name", fault=_CHANNEL)
TOO_BIG = Refused("too_big", "it is larger than the broker takes", fault=_OURS)

UNROUTABLE = Failed("unroutable", "the exchange has no queue for its key")
NO_EXCHANGE = Failed("no_exchange", "the broker has no such exchange")
NACK = Failed("nack", "the broker did not take it: a queue is full")
BLOCKED = Deferred("broker_blocked", "the broker takes nothing now: it is short of memory or disk", fault=_CHANNEL)
CHANNEL_CLOSED = Unknown("channel_closed", "the broker closed the channel while others were on it", fault=_CHANNEL)
NO_ACCESS = Deferred("our_credentials", "our user may not write there", fault=_OURS)

NO_STREAM = Failed("no_stream", "no stream takes this subject, or it has no leader for the moment")
STREAM_BUSY = Failed("nats_{code}", "the stream could not take it now")
STREAM_REFUSED = Refused("nats_{code}", "the stream refused it")
BEING_STORED = Unknown("nats_{code}", "an earlier send of it is just being stored", fault=_CHANNEL)

NO_TOPIC = Failed("no_topic", "the cluster has no such topic")
KAFKA_REFUSED = Refused("kafka_{code}", "the cluster refused it")
KAFKA_UNKNOWN = Unknown("kafka_{code}", "the cluster may have stored it", fault=_CHANNEL)
QUEUE_FULL = Deferred(
    "queue_full", "more waits for the broker than its client holds", timedelta(seconds=1), fault=_OURS
)

NO_REDIS_STREAM = Failed("no_stream", "there is no such stream, and the settings say not to create it")
NOT_A_STREAM = Refused("wrong_type", "the key holds something else than a stream")
REDIS_BUSY = Failed("redis_{code}", "Redis could not take it now")

# Apprise.
BAD_ADDRESS = Refused("bad_address", "Apprise cannot send to this address", fault=_RECIPIENT)
SERVICE_LATE = Unknown("no_answer", "the service did not answer in time", fault=_CHANNEL)
NOT_CONFIRMED = Unknown("not_confirmed", "Apprise could not say that it was sent")

# The engine, whatever the channel.
CHANNEL_ERROR = Unknown("channel_error", "the channel raised", fault=_CHANNEL)
TIMED_OUT = Unknown("timeout", "no answer in time", fault=_CHANNEL)
BAD_OUTCOME = Unknown("bad_outcome", "the channel answered with something else than an outcome", fault=_CHANNEL)
NO_ID = Unknown("no_provider_id", "the receiver can be asked, but gave no id for it: it will be asked", fault=_OURS)
CUT_OFF = Unknown("stopped", "the worker stopped while it was being sent", fault=_OURS)
HELD = Unknown(
    "held", "it may have been sent, nobody can be asked, and the policy is to hold it for a person", fault=_OURS
)
HANDED_BACK = Deferred("handed_back", "the worker stopped before it was tried", timedelta(0), fault=_OURS)
TOO_LATE = Deferred("lease_too_short", "too little of the lease was left", fault=_OURS)
EXPIRED = Deferred("expired", "its deadline has passed", fault=_OURS)
NO_CHANNEL = Deferred("no_channel", "this worker has no channel for it", fault=_OURS)
NO_SECRET = Deferred("no_secret", "its secret could not be read now", timedelta(seconds=5), fault=_OURS)
UNREADABLE = Deferred(
    "our_credentials",
    "its secret cannot be read; see the worker's SENDONCE_SECRET_KEYS, and rights",
    timedelta(minutes=1),
    fault=_OURS,
)
MISPLACED = Deferred(
    "our_credentials",
    "its secret was stored for another subscription or another use; delete it and enter the right one",
    timedelta(minutes=1),
    fault=_OURS,
)
UNSIGNED = Deferred(
    "our_credentials",
    "it is to be signed and has no secret to sign with; enter one with: sendonce subscriptions rotate-secret",
    timedelta(minutes=1),
    fault=_OURS,
)
REMOVED = Refused("subscription_removed", "the subscription was removed", fault=_OURS)
GONE = Refused("content_gone", "its content was erased before it could be sent", fault=_OURS)
LIMIT_REACHED = Failed("limit_reached", "as many attempts as the limit now allows were made before", fault=_OURS)
SPENT = Failed("not_found", "the receiver does not have it, and the attempts are used up", fault=_OURS)

# Asking about what may have been sent.
NO_ANSWER = Deferred("{trouble}", "the receiver could not be asked")
BAD_LOOK_UP = Deferred("bad_look_up", "the channel answered a look-up with something else", fault=_CHANNEL)
LOOK_UP_FAILED = Deferred("channel_error", "the channel raised when it was to ask", fault=_CHANNEL)
LOOK_UP_LATE = Deferred("look_up_timeout", "no answer to the look-up in time", fault=_CHANNEL)
NOT_FOUND = Deferred("not_found", "the receiver does not have it: a worker sends it", timedelta(0), fault=_OURS)
LEFT = Deferred("cannot_be_asked", "nobody can tell: a worker sends it again", fault=_OURS)

# Nobody has put these off: they wait as long as they say, and the backoff is no floor under that.
MAY_COME_AT_ONCE = frozenset(each.code for each in (HANDED_BACK, NOT_FOUND, LEFT, NAMES_BUSY))


class Row(NamedTuple):
    """One line of the table: what came back, in words, and what it means."""

    said: str
    outcome: Outcome


TABLE: dict[str, tuple[Row, ...]] = {
    "Webhooks and HTTP endpoints": (
        Row("2xx", Delivered()),
        Row("429 or 503 with `Retry-After`", ASKED_TO_WAIT),
        Row("429 or 503 without it, 408, 425", NOT_TAKEN),
        Row("every other 5xx: 500, 502, 504 and the like", HAD_IT),
        Row("401, where the endpoint's profile has our `bearer`", WRONG_BEARER),
        Row("410; a subscription is disabled by it", GONE_FOR_GOOD),
        Row("3xx", REDIRECTS),
        Row("any other status", SAID_NO),
        Row("no connection: no such name, nobody listens, no trusted TLS, no time", NOT_SENT),
        Row("the request may have gone out, and no answer, or none that is HTTP, came back", LOST),
        Row("a network that is closed to us", FORBIDDEN),
        Row("a bearer or certificate of the subscription that cannot be used", BAD_SECRET),
        Row("too many names of its tenant or domain are being looked up", NAMES_BUSY),
        Row("we could not begin: out of descriptors or memory", NOT_DIALLED),
        Row("no room for the certificate's file", LACKING),
    ),
    "Mail providers": (
        Row("taken, with an id", Delivered()),
        Row("429", RATE_LIMITED),
        Row("503, or it cannot be reached", SERVER),
        Row("every other 5xx: 500, 502, 504 and the like", PROVIDER_HAD_IT),
        Row("the request may have gone out, and no answer, or none that is HTTP, came back", PROVIDER_LOST),
        Row("2xx without an id", NO_MAIL_ID),
        Row("409 (Resend): the token is known", KNOWN_TOKEN),
        Row("it does not know our key", CREDENTIALS),
        Row("our account or this sender may not send", ACCOUNT),
        Row("it refuses the mail", MAIL_REFUSED),
        Row("content that is no e-mail", BAD_CONTENT),
        Row("we could not begin: too many look-ups of names, out of descriptors or memory", LACKING),
    ),
    "SMTP": (
        Row("250 to the final dot", Delivered()),
        Row("it cannot be reached, no TLS, a wrong certificate, does not greet", SERVER),
        Row("530, 534, 535, 538 at any step: log in, wrong password", CREDENTIALS),
        Row("421 at any step after the login", CLOSING),
        Row("4xx to RCPT: greylisting, mailbox full", RECIPIENT_BUSY),
        Row("4xx to MAIL, DATA or the final dot", MAIL_BUSY),
        Row("5xx to RCPT, DATA or the final dot: no such mailbox, policy, spam, too large", SMTP_REFUSED),
        Row('5xx to MAIL, "relay" in a 5xx to RCPT, 5.7.60, 5.4.5 (sending limit)', ACCOUNT),
        Row("500, 502, 503: it does not understand us", MISUNDERSTOOD),
        Row("connection lost, timeout or nonsense before the final dot", CUT_BEFORE),
        Row("no answer in time to RCPT", RECIPIENT_LATE),
        Row("connection lost, timeout or nonsense after the final dot", CUT_AFTER),
        Row("no connection became free in time", CONNECTIONS_BUSY),
        Row("a mailbox outside ASCII, and a server without SMTPUTF8", NO_SMTPUTF8),
        Row("content that is no e-mail", BAD_CONTENT),
        Row("out of descriptors or memory", LACKING),
    ),
    "RabbitMQ": (
        Row("Basic.Ack", Delivered()),
        Row("Basic.Return: no queue for its key, which may come later", UNROUTABLE),
        Row("no such exchange", NO_EXCHANGE),
        Row("Basic.Nack: a queue is full and rejects", NACK),
        Row("larger than `max_bytes`, or than the broker takes", TOO_BIG),
        Row("the channel was closed while several messages were on it", CHANNEL_CLOSED),
        Row("the connection broke, before or after the broker had it", BROKER_LOST),
        Row("no confirm in time; also when an alarm came up meanwhile", NOT_CONFIRMED_IN_TIME),
        Row("an alarm for memory or disk is known: nothing is written", BLOCKED),
        Row("the connection was found lost before it was written", NOT_WRITTEN),
        Row("it cannot be reached", BROKER_AWAY),
        Row("wrong user or password", CREDENTIALS),
        Row("no right to write to the exchange", NO_ACCESS),
        Row("no such virtual host", BROKER_SERVER),
        Row("an address without an exchange and a key", BROKER_ADDRESS),
    ),
    "NATS JetStream": (
        Row("the stream's acknowledgement, also of a duplicate", Delivered("{stream}:{sequence}")),
        Row("no stream has the subject, or no leader for the moment", NO_STREAM),
        Row("the stream is full, or another 5xx", STREAM_BUSY),
        Row("larger than the stream takes, or another 4xx", STREAM_REFUSED),
        Row("409: the same token is just being stored", BEING_STORED),
        Row("larger than `max_payload`, headers included", TOO_BIG),
        Row("the connection broke, before or after the server had it", BROKER_LOST),
        Row("no acknowledgement in time", NOT_CONFIRMED_IN_TIME),
        Row("the connection was found lost: nothing is kept for later", NOT_WRITTEN),
        Row("no server can be reached", BROKER_AWAY),
        Row("wrong user, password or token", CREDENTIALS),
        Row("a subject that may not be published to", BROKER_ADDRESS),
    ),
    "Kafka (experimental)": (
        Row("acknowledged by all replicas in sync", Delivered("{topic}:{partition}:{offset}")),
        Row("larger than the producer or the topic takes", TOO_BIG),
        Row("no right to write to the topic", NO_ACCESS),
        Row("no such topic", NO_TOPIC),
        Row("not valid, or another permanent answer", KAFKA_REFUSED),
        Row("not enough replicas, brokers down or too late: given up after `message_timeout`", NOT_CONFIRMED_IN_TIME),
        Row("any other error: it may have been appended", KAFKA_UNKNOWN),
        Row("no broker answers a question for the topic: nothing is written", BROKER_AWAY),
        Row("wrong user or password", CREDENTIALS),
        Row("the producer's queue is full", QUEUE_FULL),
        Row("an address without a topic", BROKER_ADDRESS),
    ),
    "Redis streams": (
        Row("the entry's id, also of an entry that was there", Delivered("{entry}")),
        Row("the key holds something else than a stream", NOT_A_STREAM),
        Row("out of memory, too few replicas, read only, loading", REDIS_BUSY),
        Row("no such stream, where `create = false`", NO_REDIS_STREAM),
        Row("larger than `max_bytes`", TOO_BIG),
        Row("the connection broke after it was written", BROKER_LOST),
        Row("no answer in time", NOT_CONFIRMED_IN_TIME),
        Row("no connection was free, or it was lost before anything was written", NOT_WRITTEN),
        Row("it cannot be reached", BROKER_AWAY),
        Row("wrong user or password", CREDENTIALS),
        Row("our user may not run the script or write the keys", NO_ACCESS),
        Row("an address without a stream", BROKER_ADDRESS),
    ),
    "Apprise": (
        Row("yes", Delivered()),
        Row("no", NOT_CONFIRMED),
        Row("no answer in time", SERVICE_LATE),
        Row("an address that is none", BAD_ADDRESS),
        Row("nothing to send in its content", BAD_CONTENT),
    ),
    "A channel of one's own": (
        Row("`Delivered(id)`", Delivered()),
        Row("`Accepted(id)`", Accepted("id")),
        Row("`Refused(code)`", Refused("{code}")),
        Row("`Failed(code)`", Failed("{code}")),
        Row("`Failed(code, fault=Fault.RECIPIENT)`", Failed("{code}", fault=_RECIPIENT)),
        Row("`Failed(code, fault=Fault.CHANNEL)`", Failed("{code}", fault=_CHANNEL)),
        Row("`Unknown(code)`", Unknown("{code}")),
        Row("`Deferred(code)`", Deferred("{code}")),
        Row('`Deferred("our_…")`', Deferred("our_…")),
        Row("an exception", CHANNEL_ERROR),
        Row("no answer within `timeout`", TIMED_OUT),
        Row("something else than an outcome", BAD_OUTCOME),
    ),
    "The engine": (
        Row("2xx without an id, where the receiver can be asked and is to give one", NO_ID),
        Row("the lease was lost: the worker died, or stood still", LEASE_EXPIRED),
        Row("the worker stopped during the send", CUT_OFF),
        Row("the worker stopped before the send", HANDED_BACK),
        Row("too little of the lease was left", TOO_LATE),
        Row("in doubt, nobody can be asked, and `if_unsure` is `hold`", HELD),
        Row("its deadline has passed", EXPIRED),
        Row("this worker has no channel for it", NO_CHANNEL),
        Row("the database is too busy to read its secret", NO_SECRET),
        Row("its secret cannot be read", UNREADABLE),
        Row("its secret is that of another subscription or kind", MISPLACED),
        Row("it was signed before, and there is no secret to sign with", UNSIGNED),
        Row("its subscription was removed", REMOVED),
        Row("its content was erased", GONE),
        Row("the limit was lowered: as many attempts were made before", LIMIT_REACHED),
        Row("not found by a look-up, and no attempt is left", SPENT),
    ),
    "Asking about what may have been sent": (
        Row("no answer", NO_ANSWER),
        Row("no answer within `timeout`", LOOK_UP_LATE),
        Row("an exception", LOOK_UP_FAILED),
        Row("something else than an answer", BAD_LOOK_UP),
        Row("not found, said to `sendonce reconcile`", NOT_FOUND),
        Row("nobody can tell, said to `sendonce reconcile`", LEFT),
    ),
}


def http_answer(status: int, *, asks_to_wait: bool) -> Outcome:
    """The row of an HTTP status, the same for every HTTP channel. `asks_to_wait`: it came with a Retry-After."""
    if 200 <= status < 300:
        return Delivered()
    if status in (429, 503):
        return ASKED_TO_WAIT if asks_to_wait else NOT_TAKEN
    if status in (408, 425):
        return NOT_TAKEN
    if status >= 500:
        # A gateway, or a crash, can come after the moment in which the receiver took the message.
        return HAD_IT
    if status == 410:
        return GONE_FOR_GOOD
    return REDIRECTS if 300 <= status < 400 else SAID_NO
