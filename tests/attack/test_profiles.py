"""A profile's secrets go below its url only, and to no address that a tenant chose."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.endpoint import HttpEndpoint, HttpProfile
from sendonce.channels.http.guard import Guard
from sendonce.channels.protocol import Credentials
from sendonce.channels.registry import Channels, builtin
from sendonce.domain.destinations import normalise
from sendonce.domain.outcomes import Delivered, Outcome, Refused
from sendonce.engine.attempt import AttemptRunner
from sendonce.engine.orchestrator import Policies
from sendonce.errors import BadDestination
from tests.channels.sending import Seen, message_to
from tests.channels.troubles import HOST, raw_server
from tests.domain.values import a_claim

SECRET, OWN, SIGNING = "operators-bearer", "tenants-bearer", "whsec_" + "b3BlcmF0b3Jz" * 3

# Where a gateway or a server may read `..` in a path below /jobs/: by decoding once or more, by cutting parameters off,
# by other slashes and other dots.
CLIMBING = [
    "../admin", "%2e%2e/admin", ".%2e/admin", "%2e./admin", "%2E%2E/admin", "./../admin", "a/../../admin",
    "..%2Fadmin", "..%2fadmin", "%2e%2e%2fadmin", "a/..%2F..%2Fadmin", "..%2F", "..", "%2e%2e",
    "..;/admin", "..;a=b/admin", "..%3Badmin/x", "%2e%2e;/admin", "..%3b%2fadmin",
    "%252e%252e/admin", "%252e%252e%252fadmin", "..%252fadmin", "..%25252fadmin", "%25252e%25252e/admin",
    "..\\admin", "..%5cadmin", "..%255cadmin", "a\\..\\..\\admin", "%2e%2e%5cadmin",
    "..%c0%afadmin", "%c0%ae%c0%ae/admin", "%e0%80%ae%e0%80%ae/admin", "..%c1%9cadmin", "%ff%ff/admin",
    "%ef%bc%8e%ef%bc%8e/admin", "\uff0e\uff0e/admin", "..%ef%bc%8fadmin", "\u2025/admin", "%e2%80%a5/admin",
    "\u2024\u2024/admin", "..\uff0fadmin", "..\uff3cadmin", "\ufe52\ufe52/admin",
    "..%00/admin", "..%0a/admin", "..%09/admin", "..%20/admin", "%20../admin", ".. /admin", "..%85/admin",
    "..%u2215admin", "%u002e%u002e/admin", "%U002E%U002E/admin", ".../admin", "....//admin", "..../admin",
    "%2525252525252525252e%2525252525252525252e/admin",
]  # fmt: skip
# What has dots and is inside all the same.
INSIDE = [
    "a", "a/b", "v1.2/x", "..a/b", "a../b", "a..b", ".well-known/x", "a%2Fb", "gr%C3%BC%C3%9Fe", "a;b=../c", "?x=../y",
    "a?next=%2e%2e%2f", "a%20b", "a/", "./a", "a/../b", ".;/../b",
]  # fmt: skip


@pytest_asyncio.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient(Guard.parse("127.0.0.0/8"))
    yield client
    await client.close()


async def sent(client: HttpClient, seen: Seen, path: str) -> Outcome | None:
    """What became of it; None when it was not even recorded."""
    async with raw_server(seen.connected) as port:
        profile = HttpProfile(name="runner", url=f"http://{HOST}:{port}/jobs/", bearer=SECRET)
        try:
            address = normalise(f"http://{HOST}:{port}/jobs/{path}")
        except BadDestination:
            return None
        return await HttpEndpoint(profile, client).send(message_to(address), timeout=30)


@pytest.mark.parametrize("path", CLIMBING)
async def test_secret_stays_within_its_path_in_every_spelling_of_dots(client: HttpClient, path: str) -> None:
    seen = Seen()

    outcome = await sent(client, seen, path)

    assert outcome is None or (isinstance(outcome, Refused) and outcome.code == "address_forbidden")
    assert seen.connections == 0


@pytest.mark.parametrize("path", INSIDE)
async def test_path_that_stays_inside_the_profile_is_sent(client: HttpClient, path: str) -> None:
    seen = Seen()

    outcome = await sent(client, seen, path)

    assert isinstance(outcome, Delivered)
    assert seen.requests[0].split()[1].startswith(b"/jobs/")


async def tried(channels: Channels, url: str, *, subscription_id: int | None, own: Credentials) -> Outcome:
    claim = a_claim(destination="subscription:7", address=url, payload="{}", subscription_id=subscription_id)
    attempting = AttemptRunner(channels, "here", _Keyring(own))
    return (await attempting.attempt(claim, 1, Policies().of(claim), lambda _: 5.0)).outcome


class _Keyring:
    def __init__(self, own: Credentials) -> None:
        self._own = own

    async def of(self, subscription_id: int) -> Credentials:
        return self._own


def channels_with(client: HttpClient, port: int, *, for_subscriptions: bool) -> Channels:
    place = f"http://{HOST}:{port}"
    profile = HttpProfile(
        name="runner",
        url=f"{place}/jobs/",
        bearer=SECRET,
        headers={"X-Team": SECRET},
        look_up=f"{place}/by/{{token}}",
        for_subscriptions=for_subscriptions,
        policy={"max_attempts": 3},
    )
    return builtin(client=client, secret=SIGNING, profiles=[profile])


async def test_subscription_below_a_profile_gets_none_of_its_secrets(client: HttpClient) -> None:
    """It is a webhook like any other: with what is its own, with the usual policy, and nobody is asked about it."""
    seen = Seen()
    async with raw_server(seen.connected) as port:
        channels = channels_with(client, port, for_subscriptions=False)
        url = f"http://{HOST}:{port}/jobs/of-the-tenants-choice"
        ours = await tried(channels, url, subscription_id=None, own=Credentials())
        theirs = await tried(channels, url, subscription_id=7, own=Credentials(bearer=OWN))
        bare = await tried(channels, url, subscription_id=7, own=Credentials())
        claim = a_claim(address=url, subscription_id=7)
        policy = Policies(by_channel=channels.settings(), serving=channels.serving).of(claim)

    assert [type(each) for each in (ours, theirs, bare)] == [Delivered] * 3
    assert seen.headers(0)["authorization"] == f"Bearer {SECRET}"
    assert seen.headers(1)["authorization"] == f"Bearer {OWN}"
    for request in seen.requests[1:]:
        assert SECRET.encode() not in request
        assert b"webhook-signature" not in request.lower()
    assert (channels.can_look_up(url), channels.can_look_up(url, is_subscription=True)) == (True, False)
    assert policy.max_attempts == Policies().of(claim).max_attempts


async def test_profile_can_be_opened_to_subscriptions(client: HttpClient) -> None:
    seen = Seen()
    async with raw_server(seen.connected) as port:
        channels = Channels()
        channels.update(channels_with(client, port, for_subscriptions=True))
        url = f"http://{HOST}:{port}/jobs/x"
        await tried(channels, url, subscription_id=7, own=Credentials())
        claim = a_claim(address=url, subscription_id=7)
        policy = Policies(by_channel=channels.settings(), serving=channels.serving).of(claim)

    assert seen.headers()["authorization"] == f"Bearer {SECRET}"
    assert channels.can_look_up(url, is_subscription=True) is True
    assert policy.max_attempts == 3


async def test_own_channel_for_a_beginning_is_closed_to_subscriptions_as_well() -> None:
    channels = builtin()

    @channels.channel("https://runner.example/jobs/")
    async def ours(message: object, *, timeout: float) -> Outcome:
        return Delivered()

    url = "https://runner.example/jobs/1"
    assert channels.find(url) is not channels.find("https:")
    assert channels.find(url, is_subscription=True) is channels.find("https:")
    await channels.close()
