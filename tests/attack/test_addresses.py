"""No spelling of an address takes a request inside: recorded as a caller would, sent as a worker would."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.guard import Guard
from sendonce.channels.http.webhook import Webhook
from sendonce.domain.destinations import normalise
from sendonce.domain.outcomes import Failed, Outcome, Refused
from sendonce.errors import BadDestination
from tests.attack import spellings
from tests.attack.dns import NameServer
from tests.channels.sending import Seen, message_to
from tests.channels.troubles import raw_server

CLOSED = Guard()


@pytest_asyncio.fixture
async def webhook(names: NameServer) -> AsyncIterator[Webhook]:
    webhook = Webhook(HttpClient(CLOSED, name_servers=[names.address]))
    yield webhook
    await webhook.close()


async def sent(webhook: Webhook, url: str) -> Outcome | None:
    """What became of it; None when it was not even recorded."""
    try:
        address = normalise(url)
    except BadDestination:
        return None
    return await webhook.send(message_to(address), timeout=30)


def is_out(outcome: Outcome | None) -> bool:
    """Whether anything may have been sent. A name that does not exist leads nowhere."""
    if isinstance(outcome, Failed):
        return outcome.code != "dns_error"
    return not isinstance(outcome, Refused | None) or (outcome is not None and outcome.code != "address_forbidden")


@pytest.mark.parametrize("inside", spellings.INSIDE)
async def test_address_inside_is_dialled_in_no_spelling(webhook: Webhook, dialled: list[str], inside: str) -> None:
    hosts = [*spellings.of_v4(inside), *(f"[{each}]" for each in spellings.in_v6(inside))]

    outcomes = {host: await sent(webhook, f"http://{host}:9/") for host in hosts}

    assert [host for host, outcome in outcomes.items() if is_out(outcome)] == []
    assert dialled == []


async def test_ipv6_address_that_is_not_public_is_not_dialled(webhook: Webhook, dialled: list[str]) -> None:
    outcomes = {host: await sent(webhook, f"http://[{host}]:9/") for host in spellings.V6}

    assert [host for host, outcome in outcomes.items() if is_out(outcome)] == []
    assert dialled == []


async def test_url_cannot_hide_an_address_inside(webhook: Webhook, dialled: list[str]) -> None:
    """With a server that would be reached, on the port that all of them mean."""
    seen = Seen()
    async with raw_server(seen.connected) as port:
        urls = [*spellings.EMPTY, *(f"http://{name}:{port}/" for name in spellings.NAMES_OF_THIS_MACHINE)]
        for host in (spellings.LOOPBACK, f"{spellings.LOOPBACK}:{port}"):
            urls += spellings.around(host)
        outcomes = {url: await sent(webhook, url) for url in urls if not url.startswith(("//", "gopher"))}

    assert [url for url, outcome in outcomes.items() if is_out(outcome)] == []
    assert (dialled, seen.connections) == ([], 0)


async def test_name_inside_is_told_like_one_that_is_not_there(
    names: NameServer, webhook: Webhook, dialled: list[str]
) -> None:
    """Else whoever enters URLs could list the names that there are inside."""
    names.says("vault.internal.example", ["10.0.0.5"])
    names.says("both.internal.example", ["10.0.0.5", "fd00::5"])
    hosts = ("vault.internal.example", "both.internal.example", "nowhere.internal.example")

    outcomes = {host: await sent(webhook, f"http://{host}/") for host in hosts}

    assert names.asked == list(hosts)
    assert len(set(outcomes.values())) == 1
    assert isinstance(outcomes["vault.internal.example"], Failed)
    assert dialled == []


async def test_port_that_is_none_is_not_recorded() -> None:
    for port in ("65536", "99999999999", "-1", "8o", "\uff11\uff12\uff13", "80 ", "+80", "0x50", "8_0"):
        with pytest.raises(BadDestination):
            normalise(f"http://good.example:{port}/")


@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"])
async def test_proxy_cannot_be_brought_in_through_the_environment(
    names: NameServer, dialled: list[str], webhook: Webhook, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    proxy = Seen()
    async with raw_server(proxy.connected) as port:
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        outcome = await sent(webhook, "http://hook.example/")

    assert isinstance(outcome, Failed)
    assert (outcome.code, names.asked, dialled, proxy.connections) == ("dns_error", ["hook.example"], [], 0)
