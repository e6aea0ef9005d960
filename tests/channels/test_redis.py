"""redis: on a real Redis. What each answer, trouble and limit comes to, and that a token is stored once."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import redis.asyncio

from sendonce.channels.brokers.redis import RedisChannel, RedisProfile
from sendonce.channels.protocol import Channel, Message
from sendonce.domain.answers import NOT_WRITTEN
from sendonce.domain.outcomes import CannotTell, Deferred, Delivered, Failed, Found, NotThere, Refused, Unknown
from sendonce.errors import ConfigError
from tests.channels.broker_troubles import between, place, tls_front
from tests.channels.contract import AskingContract
from tests.channels.sending import PAYLOAD, message_to
from tests.channels.troubles import authority, running_out
from tests.servers.redis import Redis

MARKS = (b"EVALSHA", b"\r\nGET\r\n")
SECONDS = 25.0


@asynccontextmanager
async def channel_to(url: str, **settings: Any) -> AsyncIterator[RedisChannel]:
    channel = RedisChannel(RedisProfile(name="main", url=url, **settings))
    try:
        yield channel
    finally:
        await channel.close()


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Any]:
    """redis-py's stubs know answers of every version alone."""
    async with redis.asyncio.Redis.from_url(url, decode_responses=True) as client:
        yield client


def a_stream() -> str:
    return f"orders-{uuid4().hex[:8]}"


def new_message(stream: str, **changes: Any) -> Message:
    return message_to(f"redis:main/{stream}", **{"recorded_at": datetime.now(UTC), **changes})


class TestRedisInTrouble(AskingContract):
    column = "redis:"

    @pytest.fixture(autouse=True)
    def server(self, redis_url: str) -> None:
        self.port = int(redis_url.rpartition(":")[2])

    @asynccontextmanager
    async def in_trouble(self, trouble: str) -> AsyncIterator[tuple[Channel, Message]]:
        async with place(trouble, self.port, MARKS) as (there, tls), channel_to(f"redis{tls}://{there}") as channel:
            yield channel, new_message(a_stream())


async def test_redis_entry_has_what_the_message_has(redis_url: str) -> None:
    stream = a_stream()
    message = new_message(stream, headers=json.dumps({"Traceparent": "00-1", "Sendonce-Id": "forged"}), subject="ada")

    async with channel_to(redis_url) as channel, client_of(redis_url) as client:
        outcome = await channel.send(message, timeout=SECONDS)
        [(entry, fields)] = await client.xrange(stream)

    assert outcome == Delivered(entry)
    assert {**fields, "headers": json.loads(fields["headers"])} == {
        "id": message.token,
        "type": message.type,
        "body": PAYLOAD,
        "content-type": "application/json",
        "headers": {
            "traceparent": "00-1",
            "sendonce-id": message.token,
            "sendonce-type": message.type,
            "sendonce-attempt": str(message.attempt),
            "sendonce-subject": "ada",
        },
    }


async def test_token_is_added_once_however_many_send_it_and_is_found(redis_url: str) -> None:
    stream = "{shop}." + a_stream()
    message = new_message(stream)

    async with channel_to(redis_url) as one, channel_to(redis_url) as other, client_of(redis_url) as client:
        assert await one.look_up(message, timeout=SECONDS) == NotThere()
        outcomes = await asyncio.gather(*[each.send(message, timeout=SECONDS) for each in (one, other) * 20])
        found = await one.look_up(message, timeout=SECONDS)
        length = await client.xlen(stream)

    assert length == 1
    [outcome] = set(outcomes)
    assert isinstance(outcome, Delivered)
    assert found == Found(outcome.notification_id)


async def test_token_that_redis_may_have_forgotten_cannot_be_told(redis_url: str) -> None:
    old = datetime.now(UTC) - timedelta(hours=2)

    async with channel_to(redis_url, remembers=timedelta(hours=1)) as channel:
        answer = await channel.look_up(new_message(a_stream(), recorded_at=old), timeout=SECONDS)

    assert isinstance(answer, CannotTell)
    assert (answer.code, answer.is_safe_to_repeat) == ("too_old", False)


async def test_token_is_kept_for_as_long_as_the_settings_say(redis_url: str) -> None:
    stream = a_stream()
    message = new_message(stream)

    async with channel_to(redis_url, remembers=timedelta(hours=1)) as channel, client_of(redis_url) as client:
        await channel.send(message, timeout=SECONDS)
        left = await client.pttl(f"sendonce:{{{stream}}}:{message.token}")

    assert 3_000_000 < left <= 3_600_000


async def test_redis_answers_mean_what_the_table_says() -> None:
    with Redis() as server:
        async with channel_to(server.url) as channel, client_of(server.url) as client:
            await client.set("taken", "by something else")
            assert await channel.send(new_message("taken"), timeout=SECONDS) == Refused(
                "wrong_type", "the key holds something else than a stream"
            )
            await client.config_set("maxmemory", "1")
            oom = await channel.send(new_message("orders"), timeout=SECONDS)
            await client.config_set("maxmemory", "0")
            await client.config_set("min-replicas-to-write", "1")
            no_replicas = await channel.send(new_message("orders"), timeout=SECONDS)
            await client.config_set("min-replicas-to-write", "0")

            assert isinstance(oom, Failed)
            assert oom.code == "redis_oom"
            assert isinstance(no_replicas, Failed)
            assert no_replicas.code == "redis_noreplicas"
            assert await client.exists("orders") == 0
            assert isinstance(await channel.send(new_message("orders"), timeout=SECONDS), Delivered)


async def test_stream_is_not_created_where_the_settings_say_so(redis_url: str) -> None:
    async with channel_to(redis_url, create=False) as channel:
        outcome = await channel.send(new_message(a_stream()), timeout=SECONDS)

    assert isinstance(outcome, Failed)
    assert outcome.code == "no_stream"


async def test_user_without_rights_or_with_a_wrong_password_is_our_own_fault() -> None:
    with Redis({"requirepass": "geheim"}) as server:
        own = server.url.replace("//", "//default:geheim@")
        async with client_of(own) as client:
            await client.acl_setuser(
                "reader", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-xadd"], reset=True
            )
        for user, code in (
            ("", "our_credentials"),
            ("default:wrong@", "our_credentials"),
            ("reader:x@", "our_credentials"),
        ):
            async with channel_to(server.url.replace("//", f"//{user}")) as channel:
                outcome = await channel.send(new_message("orders"), timeout=SECONDS)
            assert isinstance(outcome, Deferred), (user, outcome)
            assert outcome.code == code
            assert "geheim" not in repr(outcome)


async def test_token_that_may_not_be_kept_leaves_no_entry() -> None:
    """XADD has been done when SET is refused: it is taken back."""
    with Redis() as server:
        async with client_of(server.url) as client:
            await client.acl_setuser(
                "half", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-set"], reset=True
            )
            async with channel_to(server.url.replace("//", "//half:x@")) as channel:
                outcome = await channel.send(new_message("orders"), timeout=SECONDS)

            assert isinstance(outcome, Deferred)
            assert await client.xlen("orders") == 0


async def test_answer_that_was_lost_is_in_doubt_and_nothing_is_sent_twice(redis_url: str) -> None:
    """What redis-py's own retries double: XADD that was done, and whose answer did not come back."""
    stream = a_stream()
    message = new_message(stream)
    port = int(redis_url.rpartition(":")[2])

    async with between(port, "accepted, then dropped", MARKS) as own, client_of(redis_url) as client:
        async with channel_to(f"redis://127.0.0.1:{own}") as channel:
            outcome = await channel.send(message, timeout=SECONDS)
        length = await client.xlen(stream)
        async with channel_to(redis_url) as channel:
            found = await channel.look_up(message, timeout=SECONDS)

    assert isinstance(outcome, Unknown)
    assert length == 1
    assert isinstance(found, Found)


async def test_entry_that_waited_until_its_time_was_over_is_never_written() -> None:
    with Redis() as server:
        async with channel_to(server.url, lanes=1) as channel, client_of(server.url) as client:
            assert isinstance(await channel.send(new_message("orders"), timeout=SECONDS), Delivered)
            server.freeze()
            first = asyncio.create_task(channel.send(new_message("orders", key="first"), timeout=SECONDS))
            await asyncio.sleep(0)
            await asyncio.sleep(0)

            outcome = await running_out(
                lambda seconds: channel.send(new_message("orders", key="second"), timeout=min(seconds, 0.5)),
                lambda answer: isinstance(answer, Failed),
            )
            server.thaw()
            await first

            assert outcome == NOT_WRITTEN
            assert await client.xlen("orders") == 2


async def test_connection_that_was_closed_while_idle_is_opened_again(redis_url: str) -> None:
    with Redis() as server:
        async with channel_to(server.url, lanes=1) as channel:
            assert isinstance(await channel.send(new_message("orders"), timeout=SECONDS), Delivered)
            server.kill()
            server.start()

            async def until_open(_: float) -> object:
                return await channel.send(new_message("orders", key="again"), timeout=SECONDS)

            assert isinstance(await running_out(until_open, lambda answer: isinstance(answer, Delivered)), Delivered)


async def test_redis_over_tls_trusts_the_authority_that_is_named(redis_url: str) -> None:
    ca = authority().cert_pem.bytes().decode()

    async with tls_front(int(redis_url.rpartition(":")[2])) as port:
        async with channel_to(f"rediss://127.0.0.1:{port}", ca=ca) as channel:
            trusted = await channel.send(new_message(a_stream()), timeout=SECONDS)
        async with channel_to(f"rediss://127.0.0.1:{port}") as channel:
            untrusted = await channel.send(new_message(a_stream()), timeout=SECONDS)

    assert isinstance(trusted, Delivered)
    assert isinstance(untrusted, Failed)
    assert untrusted.code == "tls_error"


async def test_message_larger_than_the_limit_is_refused_here(redis_url: str) -> None:
    async with channel_to(redis_url, max_bytes=1000) as channel:
        outcome = await channel.send(new_message(a_stream(), payload=json.dumps("x" * 1000)), timeout=SECONDS)

    assert isinstance(outcome, Refused)
    assert outcome.code == "too_big"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"url": "http://h"}, "[redis.main] url must be an address like redis://user@host:6379/0"),
        ({"url": "redis://h/zero"}, "[redis.main] url must end with the number of a database"),
        ({"url": "redis://h", "remembers": timedelta(0)}, "[redis.main] remembers must be at least 10m"),
        ({"url": "redis://h", "lanes": 0}, "[redis.main] lanes must be between 1 and 100"),
        ({"url": "redis://h", "format": "xml"}, "[redis.main] format must be one of plain, cloudevents"),
        ({"url": "redis://h", "ca": "nonsense"}, "[redis.main] the certificate authority cannot be read"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        RedisProfile(name="main", **settings)

    assert str(error.value).startswith(sentence)
