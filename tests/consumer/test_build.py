"""Sources built from the profiles that channels are built from: on each broker, over TLS, and with what is wrong."""

import asyncio
from typing import Any

import pytest

from sendonce.channels.brokers.amqp import AmqpProfile
from sendonce.channels.brokers.kafka import KafkaProfile
from sendonce.channels.brokers.nats import NatsProfile
from sendonce.channels.brokers.profile import BrokerProfile
from sendonce.channels.brokers.redis import RedisProfile
from sendonce.consumer.incoming import Taken
from sendonce.consumer.registry import Consumer
from sendonce.consumer.sources.build import build_source
from sendonce.consumer.sources.protocol import SourceLost
from tests.channels.broker_troubles import tls_front
from tests.channels.test_nats import tls_server
from tests.channels.troubles import authority
from tests.consumer.brokers import AmqpPlace, KafkaPlace, NatsPlace, Place, RedisPlace
from tests.processes import SECONDS
from tests.servers.nats import Nats


def profile_of(place: Place, url: str | None = None, **settings: Any) -> BrokerProfile:
    match place:
        case NatsPlace():
            return NatsProfile(name="main", url=url or place.address, **settings)
        case AmqpPlace():
            return AmqpProfile(name="main", url=url or place.address, **settings)
        case RedisPlace():
            return RedisProfile(name="main", url=url or place.address, **settings)
        case KafkaPlace():
            return KafkaProfile(name="main", servers=tuple(place.address.split(",")), **settings)
    raise AssertionError(place)


async def taken_from(place: Place, profile: BrokerProfile) -> Taken:
    """The first message of the place, through what is built from this profile."""
    consumer = Consumer(name="wallet", source=f"{profile.beginning}{place.name}", handler=print)
    source = build_source(consumer, profile)
    try:
        await source.open()
        async with asyncio.timeout(SECONDS):
            while not (found := await source.take(1, 0.5)):
                pass
        await source.acknowledge(found[0])
    finally:
        await source.close()
    return found[0]


async def test_source_of_a_profile_gives_what_is_there(place: Place) -> None:
    await place.put(("m-1", b"one"))

    taken = await taken_from(place, profile_of(place))

    assert (taken.id, taken.body) == ("m-1", b"one")


@pytest.mark.parametrize("kind", ["amqp", "redis"])
async def test_source_over_tls_trusts_the_authority_that_is_named(request: pytest.FixtureRequest, kind: str) -> None:
    if kind == "amqp":
        place: AmqpPlace | RedisPlace = AmqpPlace(request.getfixturevalue("rabbitmq_url"))
    else:
        place = RedisPlace(request.getfixturevalue("redis_url"))
    await place.make()
    await place.put(("m-1", b"one"))
    before, _, after = place.address.rpartition(":")

    async with tls_front(int(after.partition("/")[0])) as port:
        url = f"{before.replace('://', 's://', 1)}:{port}/"
        taken = await taken_from(place, profile_of(place, url, ca=authority().cert_pem.bytes().decode()))
        with pytest.raises(SourceLost):
            await taken_from(place, profile_of(place, url))

    assert taken.id == "m-1"


async def test_nats_source_over_tls_trusts_the_authority_that_is_named() -> None:
    with tls_server() as server:
        place = NatsPlace(server.url)
        trusted = profile_of(place, server.url.replace("nats:", "tls:"), ca=authority().cert_pem.bytes().decode())
        untrusted = profile_of(place, server.url.replace("nats:", "tls:"))

        with pytest.raises(SourceLost, match=f"NATS has no stream {place.name}"):
            await taken_from(place, trusted)
        with pytest.raises(SourceLost, match="no trusted TLS connection came about"):
            await taken_from(place, untrusted)


async def test_source_with_a_wrong_password_says_so_without_showing_it() -> None:
    with Nats('authorization { user: shop, password: "geheim" }') as server:
        profile = NatsProfile(name="main", url=server.url.replace("//", "//shop@"), password="wrong-4711")

        with pytest.raises(
            SourceLost, match="NATS cannot be reached: our user, password or key is not accepted"
        ) as raised:
            await taken_from(NatsPlace(server.url), profile)

    assert "4711" not in str(raised.value)


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (NatsProfile(name="main", url="nats://127.0.0.1:1"), "NATS cannot be reached: nobody listens there"),
        (AmqpProfile(name="main", url="amqp://127.0.0.1:1"), "RabbitMQ cannot be reached: nobody listens there"),
        (RedisProfile(name="main", url="redis://127.0.0.1:1"), "Redis cannot be consumed from now"),
    ],
)
async def test_source_that_nobody_serves_says_so(profile: BrokerProfile, said: str) -> None:
    with pytest.raises(SourceLost, match=said):
        await taken_from(NatsPlace(""), profile)
