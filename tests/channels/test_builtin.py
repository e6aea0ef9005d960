"""The registry that a worker starts with: webhooks for every address, profiles for those below theirs."""

from datetime import timedelta

import pytest

from sendonce.channels import Asking, Channels, Delivered, Refused
from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.endpoint import HttpEndpoint, HttpProfile
from sendonce.channels.http.guard import Guard
from sendonce.channels.http.webhook import Webhook
from sendonce.channels.registry import builtin
from sendonce.domain.outcomes import Outcome
from sendonce.errors import ConfigError
from sendonce.signing import new_secret
from tests.channels.sending import Seen, message_to
from tests.channels.troubles import HOST, raw_server

RUNNER = HttpProfile(
    name="runner",
    url="https://runner.example/jobs/",
    look_up="https://runner.example/deliveries/{token}",
    remembers=timedelta(days=3),
    policy={"max_attempts": 5},
)


async def sent(channels: Channels, seen: Seen) -> Outcome:
    async with raw_server(seen.connected) as port:
        url = f"http://{HOST}:{port}/"
        channel = channels.find(url)
        assert channel is not None
        outcome = await channel.send(message_to(url), timeout=30)
    await channels.close()
    return outcome


def test_profile_serves_what_is_below_its_url() -> None:
    channels = builtin(profiles=[RUNNER])

    assert isinstance(channels.find("https://runner.example/jobs/run"), HttpEndpoint)
    assert isinstance(channels.find_asking("https://runner.example/jobs/run"), Asking)
    assert isinstance(channels.find("https://runner.example/other"), Webhook)
    assert channels.find_asking("https://runner.example/other") is None
    assert channels.settings()["https://runner.example/jobs/"] == {"max_attempts": 5}


async def test_environment_says_which_networks_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    open_one, closed_one = Seen(), Seen()
    monkeypatch.setenv("SENDONCE_ALLOW_NETWORKS", "127.0.0.0/8")
    assert await sent(builtin(), open_one) == Delivered()
    monkeypatch.delenv("SENDONCE_ALLOW_NETWORKS")
    assert isinstance(await sent(builtin(), closed_one), Refused)

    assert (open_one.connections, closed_one.connections) == (1, 0)


async def test_channels_share_one_client_and_the_secret_signs() -> None:
    seen = Seen()
    client = HttpClient(Guard.parse("127.0.0.0/8"))

    assert await sent(builtin(client=client, secret=new_secret(), profiles=[RUNNER]), seen) == Delivered()
    assert seen.headers()["webhook-signature"].startswith("v1,")


def test_network_that_is_none_is_found_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENDONCE_ALLOW_NETWORKS", "localhost")

    with pytest.raises(ConfigError, match="SENDONCE_ALLOW_NETWORKS"):
        builtin()
