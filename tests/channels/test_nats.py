"""nats: on a real JetStream. What each answer and trouble comes to, and what a stream can be asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig

from sendonce.channels.brokers.nats import NatsChannel, NatsProfile, outcome_of
from sendonce.channels.protocol import Channel, Message
from sendonce.domain.answers import BROKER_LOST, NO_STREAM, NOT_CONFIRMED_IN_TIME
from sendonce.domain.outcomes import CannotTell, Deferred, Delivered, Failed, Found, NotThere, Refused, Unknown
from sendonce.errors import ConfigError
from tests.channels.broker_troubles import between, place
from tests.channels.contract import AskingContract
from tests.channels.sending import PAYLOAD, message_to
from tests.channels.troubles import authority, free_port
from tests.processes import until_async
from tests.servers.nats import Nats

MARKS = (b"HPUB", b"STREAM.MSG.GET")
SECONDS = 25.0


@asynccontextmanager
async def channel_to(url: str, **settings: Any) -> AsyncIterator[NatsChannel]:
    channel = NatsChannel(NatsProfile(name="main", url=url, **settings))
    try:
        yield channel
    finally:
        await channel.close()


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Client]:
    client = await nats.connect(url)
    try:
        yield client
    finally:
        await client.close()


async def a_stream(client: Client, **settings: Any) -> str:
    """A new stream; its subjects are its name and what follows."""
    name = f"S{uuid4().hex[:8]}"
    await client.jetstream().add_stream(StreamConfig(name=name, subjects=[f"{name}.>"], **settings))
    return name


def new_message(to: str, **changes: Any) -> Message:
    return message_to(f"nats:main/{to}", **{"recorded_at": datetime.now(UTC), **changes})


class TestNatsInTrouble(AskingContract):
    column = "nats:"

    @pytest.fixture(autouse=True)
    def server(self, nats_url: str) -> None:
        self.url = nats_url

    @asynccontextmanager
    async def in_trouble(self, trouble: str) -> AsyncIterator[tuple[Channel, Message]]:
        async with client_of(self.url) as client:
            stream = await a_stream(client)
        message = new_message(stream + ".{token}")
        if trouble == "TLS error":
            with tls_server() as server:
                async with channel_to(server.url.replace("nats:", "tls:")) as channel:
                    yield channel, message
            return
        port = int(self.url.rpartition(":")[2])
        async with place(trouble, port, MARKS) as (there, _), channel_to(f"nats://{there}") as channel:
            yield channel, message


@contextmanager
def tls_server() -> Iterator[Nats]:
    """A server that speaks TLS alone, with a certificate of `authority()`."""
    with TemporaryDirectory() as folder:
        pem = f"{folder}/server.pem"
        authority().issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(pem)
        with Nats(f'tls {{ cert_file: "{pem}", key_file: "{pem}" }}') as server:
            yield server


async def test_nats_over_tls_trusts_the_authority_that_is_named() -> None:
    with tls_server() as server:
        ca = authority().cert_pem.bytes().decode()
        async with channel_to(server.url.replace("nats:", "tls:"), ca=ca) as channel:
            trusted = await channel.send(new_message("orders.a"), timeout=SECONDS)

    assert trusted == NO_STREAM


async def test_stream_has_what_the_message_has_and_none_of_its_headers_commands_the_server(nats_url: str) -> None:
    headers = json.dumps({"Traceparent": "00-1", "Nats-Rollup": "all", "Nats-Msg-Id": "forged", "b a d": "1"})
    async with channel_to(nats_url) as channel, client_of(nats_url) as client:
        stream = await a_stream(client)
        message = new_message(f"{stream}.placed", headers=headers, subject="Grüße 1")

        outcome = await channel.send(message, timeout=SECONDS)
        found = await client.jetstream().get_msg(stream, 1)

    assert outcome == Delivered(f"{stream}:1")
    assert (found.subject, found.data) == (f"{stream}.placed", PAYLOAD.encode())
    assert found.headers == {
        "Nats-Msg-Id": message.token,
        "Content-Type": "application/json",
        "traceparent": "00-1",
        "sendonce-id": message.token,
        "sendonce-type": message.type,
        "sendonce-attempt": "1",
        "sendonce-subject": "Gr%C3%BC%C3%9Fe%201",
    }


async def test_duplicate_is_delivered_with_the_sequence_of_the_first(nats_url: str) -> None:
    async with channel_to(nats_url) as one, channel_to(nats_url) as other, client_of(nats_url) as client:
        stream = await a_stream(client)
        message = new_message(f"{stream}.placed")

        outcomes = [await each.send(message, timeout=SECONDS) for each in (one, other, one)]
        info = await client.jetstream().stream_info(stream)

    assert outcomes == [Delivered(f"{stream}:1")] * 3
    assert info.state.messages == 1


async def test_token_is_recognised_while_the_duplicate_window_lasts(nats_url: str) -> None:
    async with channel_to(nats_url) as channel, client_of(nats_url) as client:
        stream = await a_stream(client, duplicate_window=7200)
        new, old = new_message(f"{stream}.a"), datetime.now(UTC) - timedelta(hours=2)

        inside = await channel.look_up(new, timeout=SECONDS)
        outside = await channel.look_up(new_message(f"{stream}.a", recorded_at=old), timeout=SECONDS)

        assert isinstance(inside, CannotTell)
        assert isinstance(outside, CannotTell)
        assert (inside.is_safe_to_repeat, outside.is_safe_to_repeat) == (True, False)
        assert channel.remembers == timedelta(hours=2)


async def test_token_as_the_end_of_the_subject_is_found_for_as_long_as_the_stream_keeps_it(nats_url: str) -> None:
    async with channel_to(nats_url) as channel, client_of(nats_url) as client:
        stream = await a_stream(client, duplicate_window=0.1)
        message = new_message(stream + ".{token}")

        before = await channel.look_up(message, timeout=SECONDS)
        outcome = await channel.send(message, timeout=SECONDS)
        after = await channel.look_up(message, timeout=SECONDS)
        found = await client.jetstream().get_last_msg(stream, f"{stream}.{message.token}")

    assert before == NotThere()
    assert outcome == Delivered(f"{stream}:{found.seq}")
    assert isinstance(after, Found)
    assert after.notification_id == f"{stream}:{found.seq}"


@pytest.mark.parametrize("what", ["a work queue", "purged"])
async def test_stream_that_may_have_dropped_a_message_does_not_say_that_it_is_not_there(
    nats_url: str, what: str
) -> None:
    retention = RetentionPolicy.WORK_QUEUE if what == "a work queue" else RetentionPolicy.LIMITS
    async with channel_to(nats_url) as channel, client_of(nats_url) as client:
        stream = await a_stream(client, retention=retention)
        message = new_message(stream + ".{token}")
        await channel.send(message, timeout=SECONDS)
        await client.jetstream().purge_stream(stream)

        answer = await channel.look_up(message, timeout=SECONDS)

    assert isinstance(answer, CannotTell)
    assert not answer.is_safe_to_repeat


async def test_subject_without_a_stream_fails_and_may_have_one_later(nats_url: str) -> None:
    subject = f"later{uuid4().hex[:8]}"
    async with channel_to(nats_url) as channel, client_of(nats_url) as client:
        before = await channel.send(new_message(f"{subject}.a"), timeout=SECONDS)
        await client.jetstream().add_stream(name=subject, subjects=[f"{subject}.>"])
        after = await channel.send(new_message(f"{subject}.a"), timeout=SECONDS)

    assert before == NO_STREAM
    assert isinstance(after, Delivered)


async def test_stream_answers_mean_what_the_table_says(nats_url: str) -> None:
    async with channel_to(nats_url) as channel, client_of(nats_url) as client:
        full = await a_stream(client, max_msgs=1, discard=DiscardPolicy.NEW)
        small = await a_stream(client, max_msg_size=100)
        await channel.send(new_message(f"{full}.a", key="1"), timeout=SECONDS)

        is_full = await channel.send(new_message(f"{full}.a", key="2"), timeout=SECONDS)
        too_big = await channel.send(new_message(f"{small}.a", payload=json.dumps("x" * 200)), timeout=SECONDS)

    assert isinstance(is_full, Failed)
    assert is_full.code == "nats_10077"
    assert isinstance(too_big, Refused)
    assert too_big.code == "nats_10054"


async def test_stream_that_is_not_the_one_expected_refuses_and_no_header_of_an_event_says_which(nats_url: str) -> None:
    async with channel_to(nats_url) as channel, client_of(nats_url) as client:
        stream = await a_stream(client)
        headers = {"Nats-Expected-Stream": "ANOTHER"}
        said = await client.request(f"{stream}.a", b"{}", headers=headers, timeout=SECONDS)
        sent = await channel.send(new_message(f"{stream}.a", headers=json.dumps(headers)), timeout=SECONDS)

    wrong = outcome_of(said)
    assert isinstance(wrong, Refused)
    assert wrong.code == "nats_10060"
    assert isinstance(sent, Delivered)


async def test_token_is_recognised_by_its_stream_whatever_the_subject(nats_url: str) -> None:
    async with channel_to(nats_url) as channel, client_of(nats_url) as client:
        stream, other = await a_stream(client), await a_stream(client)
        message, elsewhere = new_message(f"{stream}.a"), new_message(f"{other}.a")
        for token in (message.token, elsewhere.token):
            await client.jetstream().publish(f"{stream}.b", b"{}", headers={"Nats-Msg-Id": token})

        outcomes = [await channel.send(each, timeout=SECONDS) for each in (message, elsewhere)]

    assert outcomes == [Delivered(f"{stream}:1"), Delivered(f"{other}:1")]


async def test_token_that_is_sent_again_and_again_is_stored_again_when_the_first_is_forgotten(nats_url: str) -> None:
    """A repeat does not begin the window anew: else this would never end."""
    async with channel_to(nats_url) as channel, client_of(nats_url) as client:
        stream = await a_stream(client, duplicate_window=1.0)
        message = new_message(f"{stream}.a")
        outcomes = [await channel.send(message, timeout=SECONDS)]
        async with asyncio.timeout(SECONDS):
            while outcomes[-1] == Delivered(f"{stream}:1"):
                await asyncio.sleep(0.02)
                outcomes.append(await channel.send(message, timeout=SECONDS))

    assert outcomes[-1] == Delivered(f"{stream}:2")


@pytest.mark.parametrize("again", [True, False])
async def test_stream_that_takes_one_message_for_each_subject_is_asked_whether_it_is_that_one(
    nats_url: str, again: bool
) -> None:
    async with channel_to(nats_url) as channel, client_of(nats_url) as client:
        name = f"S{uuid4().hex[:8]}"
        # Forgotten at once, so that its subject alone knows it.
        made = {"name": name, "subjects": [f"{name}.>"], "retention": "limits", "storage": "file", "max_msgs": 1}
        made |= {
            "discard": "new",
            "discard_new_per_subject": True,
            "max_msgs_per_subject": 1,
            "duplicate_window": 10**8,
        }
        answer = await client.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(made).encode(), timeout=SECONDS)
        assert "error" not in json.loads(answer.data)
        message = new_message(name + ".{token}")
        first = await channel.send(message, timeout=SECONDS)
        await asyncio.sleep(0.2)

        second = await channel.send(message if again else new_message(name + ".{token}", key="other"), timeout=SECONDS)

    assert first == Delivered(f"{name}:1")
    if again:
        assert second == first
    else:
        assert isinstance(second, Failed), "the stream is full, and does not have this one"
        assert second.code == "nats_10077"


def remembers(channel: NatsChannel, seconds: float) -> bool:
    return channel.remembers == timedelta(seconds=seconds)


async def test_stream_window_is_known_from_the_first_message_on(nats_url: str) -> None:
    async with channel_to(nats_url) as channel, client_of(nats_url) as client:
        short, long = await a_stream(client, duplicate_window=7), await a_stream(client, duplicate_window=7200)
        assert channel.remembers is None

        for stream, seconds in ((long, 7200), (short, 7), (long, 7)):
            await channel.send(new_message(f"{stream}.a"), timeout=SECONDS)
            await until_async(partial(remembers, channel, seconds), "it is read")

        own = await a_stream(client, duplicate_window=1)
        await channel.send(new_message(own + ".{token}"), timeout=SECONDS)

    assert channel.remembers == timedelta(seconds=7), "what has a subject of its own needs no window"


async def test_message_larger_than_the_server_takes_harms_none_of_its_neighbours() -> None:
    """The client looks at the body alone: with its headers it would be too much, and the server would hang up."""
    with Nats("max_payload: 2048") as server:
        async with channel_to(server.url) as channel, client_of(server.url) as client:
            stream = await a_stream(client)
            outcomes = await asyncio.gather(
                *[channel.send(new_message(f"{stream}.a", key=str(each)), timeout=SECONDS) for each in range(20)],
                channel.send(new_message(f"{stream}.a", payload=json.dumps("x" * 2040)), timeout=SECONDS),
            )

    assert isinstance(outcomes[-1], Refused)
    assert outcomes[-1].code == "too_big"
    assert all(isinstance(each, Delivered) for each in outcomes[:-1])


async def test_message_for_a_server_that_is_away_is_never_written_when_it_is_back() -> None:
    with Nats() as server:
        async with channel_to(server.url) as channel:
            async with client_of(server.url) as client:
                stream = await a_stream(client)
            assert isinstance(await channel.send(new_message(f"{stream}.a", key="1"), timeout=SECONDS), Delivered)
            server.kill()
            meanwhile = [
                await channel.send(new_message(f"{stream}.a", key=f"away-{each}"), timeout=SECONDS) for each in range(5)
            ]
            server.start()
            back = []

            async def sent() -> bool:
                back.append(await channel.send(new_message(f"{stream}.a", key="2"), timeout=SECONDS))
                return isinstance(back[-1], Delivered)

            while not await sent():
                await asyncio.sleep(0.05)
            async with client_of(server.url) as client:
                info = await client.jetstream().stream_info(stream)

    assert not any(isinstance(each, Delivered) for each in meanwhile)
    assert info.state.messages == 2


async def test_connection_that_is_lost_puts_all_that_was_on_it_in_doubt_at_once(nats_url: str) -> None:
    with Nats() as server:
        async with channel_to(server.url) as channel, client_of(server.url) as client:
            stream = await a_stream(client)
            await channel.send(new_message(f"{stream}.a", key="1"), timeout=SECONDS)
            server.freeze()
            sends = [
                asyncio.create_task(channel.send(new_message(f"{stream}.a", key=str(each)), timeout=3600))
                for each in range(50)
            ]
            late = await channel.send(new_message(f"{stream}.a", key="late"), timeout=0.2)
            server.kill()
            outcomes = await asyncio.gather(*sends)

    assert late == NOT_CONFIRMED_IN_TIME
    assert set(outcomes) == {BROKER_LOST}


async def test_password_that_is_wrong_is_our_own_fault() -> None:
    with Nats('authorization { user: shop, password: "geheim" }') as server:
        for user, password in (("", None), ("shop:wrong@", None), ("shop@", "wrong")):
            async with channel_to(server.url.replace("//", f"//{user}"), password=password) as channel:
                outcome = await channel.send(new_message("orders.a"), timeout=SECONDS)
            assert isinstance(outcome, Deferred), outcome
            assert outcome.code == "our_credentials"
        async with channel_to(server.url.replace("//", "//shop@"), password="geheim") as channel:
            assert await channel.send(new_message("orders.a"), timeout=SECONDS) == NO_STREAM


async def test_second_server_is_dialled_when_the_first_is_away(nats_url: str) -> None:
    async with client_of(nats_url) as client:
        stream = await a_stream(client)
    for _ in range(4):
        async with channel_to(f"nats://127.0.0.1:{free_port()},{nats_url}") as channel:
            assert isinstance(await channel.send(new_message(f"{stream}.a"), timeout=SECONDS), Delivered)


async def test_answer_that_was_lost_is_in_doubt_and_sending_again_stores_nothing_more(nats_url: str) -> None:
    async with client_of(nats_url) as client:
        stream = await a_stream(client)
        message = new_message(f"{stream}.a")
        async with (
            between(int(nats_url.rpartition(":")[2]), "accepted, then dropped", MARKS) as own,
            channel_to(f"nats://127.0.0.1:{own}") as channel,
        ):
            outcome = await channel.send(message, timeout=SECONDS)
        async with channel_to(nats_url) as channel:
            again = await channel.send(message, timeout=SECONDS)
        info = await client.jetstream().stream_info(stream)

    assert isinstance(outcome, Unknown)
    assert again == Delivered(f"{stream}:1")
    assert info.state.messages == 1


@pytest.mark.parametrize("subject", ["", "a b", "a.>", "*.a", "a..b", ".a", "$JS.API.STREAM.DELETE.S", "_INBOX.a"])
async def test_subject_that_nobody_may_publish_to_is_refused(nats_url: str, subject: str) -> None:
    async with channel_to(nats_url) as channel:
        outcome = await channel.send(new_message(subject), timeout=SECONDS)

    assert isinstance(outcome, Refused)
    assert outcome.code == "bad_address"


@pytest.mark.parametrize("url", ["", "http://h", "nats://", "nats://h:99999", "nats://h?tls=1"])
def test_settings_that_cannot_be_are_refused_in_a_sentence(url: str) -> None:
    with pytest.raises(ConfigError, match=r"\[nats\.main\] url must"):
        NatsProfile(name="main", url=url)
