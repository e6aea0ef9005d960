"""Names are looked up without threads: names that get no answer cost their own tenant and domain, and nobody else."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from sendonce.channels.http import dial as module
from sendonce.channels.http.answers import outcome_of
from sendonce.channels.http.client import HttpClient, Ours
from sendonce.channels.http.dial import AT_ONCE, LASTING, Names, NameSilent, NoSuchName, NotLookedUp, checked_server
from sendonce.channels.http.guard import Guard
from sendonce.channels.http.webhook import Webhook
from sendonce.domain.answers import NAMES_BUSY
from sendonce.domain.decide import decide
from sendonce.domain.outcomes import Deferred, Delivered, Outcome
from sendonce.domain.policies import DEFAULT_POLICY
from sendonce.errors import ConfigError
from tests.attack.dns import NameServer, name_server
from tests.channels.sending import Seen, message_to
from tests.channels.troubles import raw_server
from tests.domain.values import a_delivery
from tests.processes import until_async

WITHIN = 50  # against a test that hangs
EVIL, GOOD = "evil", "good"
SOON, BACKOFF = timedelta(seconds=2), timedelta(seconds=20)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing ends by itself unless a test says so, however busy the machine is."""
    monkeypatch.setattr(module, "MOMENT_SECONDS", 10.0 * WITHIN)
    monkeypatch.setattr(module, "LONGEST_SECONDS", 10.0 * WITHIN)
    monkeypatch.setattr(module, "_TRIES", 20)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[NameServer]:
    async with name_server(ttl=60) as server:
        server.says("good.example", ["1.2.3.4"])
        yield server


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture
async def names(server: NameServer, clock: Clock) -> AsyncIterator[Names]:
    names = Names([server.address], clock=clock)
    yield names
    await names.close()


async def got(asked: Awaitable[object]) -> object:
    """The answer, or the error."""
    try:
        return await asyncio.wait_for(asked, WITHIN)
    except (OSError, NotLookedUp) as error:
        return error


def everywhere(count: int) -> list[str]:
    """Names without an answer, each of another domain."""
    return [f"hook.d{number}.silent" for number in range(count)]


def together(count: int) -> list[str]:
    """Names without an answer, all of one domain."""
    return [f"hook{number}.one.silent" for number in range(count)]


def entries_of(file: Path) -> dict[str, str]:
    lines = [line.partition("#")[0].split() for line in file.read_text().splitlines()]
    return {line[1]: line[0] for line in lines if len(line) > 1 and "." in line[0]}


def waits_of(found: object) -> timedelta | None:
    """How long what was not looked up waits: as the decision about it says, for the second deferral of a delivery."""
    assert isinstance(found, NotLookedUp)
    outcome = outcome_of(Ours(found.code, found.message, found.again_in))
    return decide(
        a_delivery(attempt_count=1, deferred_count=1), outcome, replace(DEFAULT_POLICY, jitter=0.0), spread=0.0
    ).delay


def hosts(found: object) -> list[str]:
    assert isinstance(found, tuple)
    return [each.host for each in found]


async def test_name_is_asked_for_once_until_its_time_is_over(names: Names, server: NameServer, clock: Clock) -> None:
    first = await asyncio.gather(*(names.of("good.example", GOOD) for _ in range(5)))
    clock.now += 59.9
    kept = await names.of("Good.Example", EVIL)
    assert server.asked == ["good.example"]

    server.says("good.example", ["5.6.7.8"])
    clock.now += 0.2
    await names.close()  # c-ares remembers too, by a clock that is not moved here
    again = await names.of("good.example", GOOD)

    assert {tuple(hosts(each)) for each in (*first, kept)} == {("1.2.3.4",)}
    assert hosts(again) == ["5.6.7.8"]


async def test_name_that_may_not_be_kept_is_asked_for_each_time(names: Names, server: NameServer) -> None:
    server.ttl = 0
    for _ in range(3):
        await names.of("good.example", GOOD)

    assert server.asked == ["good.example"] * 3


async def test_name_is_kept_for_at_most_five_minutes(names: Names, server: NameServer, clock: Clock) -> None:
    """Whatever its owner says: a receiver that moves is found again."""
    server.ttl = 86_400
    await names.of("good.example", GOOD)
    clock.now += 299.9
    await names.of("good.example", GOOD)
    assert server.asked == ["good.example"]

    clock.now += 0.2
    await names.close()  # c-ares remembers too
    await names.of("good.example", GOOD)

    assert server.asked == ["good.example"] * 2


async def test_hosts_file_goes_before_name_servers(names: Names, server: NameServer) -> None:
    """This machine's own: it has localhost at least."""
    entries = entries_of(Path("/etc/hosts"))
    for host in entries:
        server.says(host, ["1.2.3.4"])

    found = {host: hosts(await names.of(host, GOOD)) for host in entries}

    assert entries
    assert [host for host, address in entries.items() if address not in found[host]] == []
    assert server.asked == []


async def test_name_that_is_not_there_and_one_that_is_none(names: Names) -> None:
    for host in ("nowhere.example", "a..b", "a" * 300 + ".example", "\ud800.example"):
        assert isinstance(await got(names.of(host, GOOD)), NoSuchName), host


@pytest.mark.parametrize("spelled", [everywhere, together])
async def test_names_without_an_answer_hold_up_nobody_else(
    names: Names, server: NameServer, spelled: Callable[[int], list[str]]
) -> None:
    """By signals: while as many as there can be are being looked up, somebody else's name is found."""
    silent = [asyncio.create_task(got(names.of(host, EVIL))) for host in spelled(300)]
    await asyncio.wait_for(server.until(lambda asked: len(set(asked)) == AT_ONCE), WITHIN)
    not_begun = [each.result() for each in silent if each.done()]

    found = await asyncio.wait_for(names.of("good.example", GOOD), WITHIN)

    assert hosts(found) == ["1.2.3.4"]
    assert sum(not each.done() for each in silent) == AT_ONCE
    assert [waits_of(each) for each in not_begun] == [SOON] * (300 - AT_ONCE)
    assert set(server.asked) == {*spelled(300)[:AT_ONCE], "good.example"}
    for each in silent:
        each.cancel()


async def test_names_of_a_tenants_webhooks_count_for_that_tenant(server: NameServer) -> None:
    """With the client, the channel and the connections that workers have."""
    server.says("good.example", ["127.0.0.1"])
    webhook = Webhook(HttpClient(Guard.parse("127.0.0.0/8"), name_servers=[server.address]))

    def sending(host: str, port: int, tenant: str) -> asyncio.Task[Outcome]:
        message = message_to(f"http://{host}:{port}/", tenant=tenant)
        return asyncio.create_task(webhook.send(message, timeout=10.0 * WITHIN))

    async with raw_server(Seen().connected) as port:
        silent = [sending(host, port, EVIL) for host in everywhere(AT_ONCE)]
        await asyncio.wait_for(server.until(lambda asked: len(set(asked)) == AT_ONCE), WITHIN)
        one_more = await asyncio.wait_for(sending("good.example", port, EVIL), WITHIN)
        others = await asyncio.wait_for(sending("good.example", port, GOOD), WITHIN)
        for each in silent:
            each.cancel()
        await asyncio.wait(silent)
    await webhook.close()

    assert isinstance(one_more, Deferred)
    assert one_more.code == NAMES_BUSY.code
    assert isinstance(others, Delivered)


async def test_domain_has_a_share_of_its_own_whoever_asks(names: Names, server: NameServer) -> None:
    silent = [
        asyncio.create_task(got(names.of(host, f"tenant {number}")))
        for number, host in enumerate(["www.shop.co.uk.silent", *together(AT_ONCE + 1)])
    ]
    await asyncio.wait_for(server.until(lambda asked: len(set(asked)) == AT_ONCE + 1), WITHIN)

    assert isinstance(await silent[-1], NotLookedUp)
    assert not any(each.done() for each in silent[:-1])
    for each in silent:
        each.cancel()


async def test_sends_to_one_name_wait_for_one_look_up(names: Names, server: NameServer) -> None:
    waiting = [asyncio.create_task(got(names.of("hook.one.silent", GOOD))) for _ in range(100)]
    await asyncio.wait_for(server.until(lambda asked: "hook.one.silent" in asked), WITHIN)
    server.says("hook.one.silent", ["1.2.3.4"])
    server.speak()

    assert {tuple(hosts(await each)) for each in waiting} == {("1.2.3.4",)}


async def test_query_for_a_name_is_shared_by_all_who_want_it(names: Names, server: NameServer) -> None:
    silent = [asyncio.create_task(got(names.of(host, EVIL))) for host in everywhere(AT_ONCE)]
    await asyncio.wait_for(server.until(lambda asked: len(set(asked)) == AT_ONCE), WITHIN)

    same = asyncio.create_task(got(names.of(everywhere(1)[0], EVIL)))
    another = await got(asyncio.create_task(names.of("good.example", EVIL)))
    server.says(everywhere(1)[0], ["1.2.3.4"])
    server.speak()

    assert isinstance(another, NotLookedUp)
    assert hosts(await same) == ["1.2.3.4"]
    for each in silent:
        each.cancel()


async def test_resolver_that_is_closed_tells_who_waits_that_we_stopped(names: Names, server: NameServer) -> None:
    waiting = asyncio.create_task(got(names.of("hook.one.silent", GOOD)))
    await asyncio.wait_for(server.until(lambda asked: "hook.one.silent" in asked), WITHIN)
    await names.close()

    told = await waiting

    assert isinstance(told, NotLookedUp)
    assert (told.code, told.message) == ("our_server", "the worker stopped looking")


async def test_queue_of_names_lets_few_wait_and_remembers_the_others(
    names: Names, server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOMENT_SECONDS", 0.01)
    wanted = everywhere(20)
    waiting = [asyncio.create_task(got(names.of(host, EVIL))) for host in wanted]
    while sum(each.done() for each in waiting) < 20 - LASTING:
        await asyncio.wait([each for each in waiting if not each.done()], return_when=asyncio.FIRST_COMPLETED)
    told = [each.result() for each in waiting if each.done()]
    assert [waits_of(each) for each in told] == [SOON] * (20 - LASTING)

    # A name that was slow once is not begun again while there are enough of them; one that was not is.
    assert waits_of(await got(names.of(wanted[-1], EVIL))) == BACKOFF
    monkeypatch.setattr(module, "MOMENT_SECONDS", 10.0 * WITHIN)
    assert hosts(await names.of("good.example", EVIL)) == ["1.2.3.4"]
    await asyncio.wait_for(server.until(lambda asked: set(wanted) <= set(asked)), WITHIN)
    for host in wanted:
        server.says(host, ["5.6.7.8"])
    server.speak()
    answered = [await each for each in waiting]

    assert sum(isinstance(each, tuple) for each in answered) == LASTING
    before = len(server.asked)
    for host in wanted:
        while host in names._asking:
            await asyncio.wait({names._asking[host]})
        assert hosts(await names.of(host, EVIL)) == ["5.6.7.8"]
    assert len(server.asked) == before


async def test_name_that_answers_again_is_slow_no_longer(
    names: Names, server: NameServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = "hook.one.silent"
    monkeypatch.setattr(module, "MOMENT_SECONDS", 0.01)
    asked = asyncio.create_task(got(names.of(host, EVIL)))
    await until_async(lambda: host in names._slow, "the moment")
    server.says(host, ["5.6.7.8"])
    server.speak()
    assert hosts(await asked) == ["5.6.7.8"]

    monkeypatch.setattr(module, "MOMENT_SECONDS", 10.0 * WITHIN)
    monkeypatch.setattr(module, "LASTING", 0)  # no slow one may wait
    clock.now += 60.1

    assert hosts(await got(names.of(host, EVIL))) == ["5.6.7.8"]


async def test_name_without_an_answer_ends_by_itself(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_SECONDS", 0.05)

    assert isinstance(await got(names.of("hook.one.silent", EVIL)), NameSilent)
    assert (names._shares, names._asking) == ({}, {})


async def test_cancellation_ends_the_wait_for_a_name(names: Names, server: NameServer) -> None:
    waiting = asyncio.create_task(names.of("hook.one.silent", EVIL))
    await asyncio.wait_for(server.until(lambda asked: "hook.one.silent" in asked), WITHIN)
    waiting.cancel()
    await asyncio.wait({waiting})

    assert waiting.cancelled()
    assert names._shares == {}


async def test_name_server_that_is_not_there_is_our_fault() -> None:
    names = Names(["127.0.0.1:1"])  # nobody listens there, and no other test does meanwhile
    found = await got(names.of("good.example", GOOD))
    await names.close()

    assert isinstance(found, NotLookedUp)
    assert found.code == "our_server"


async def test_cache_of_names_is_bounded(names: Names, server: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    for number in range(5):
        server.says(f"{number}.example", ["1.2.3.4"])
        await names.of(f"{number}.example", GOOD)

    assert list(names._known) == ["3.example", "4.example"]


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example", "example"), ("shop.example", "shop.example"), ("a.b.shop.example.", "shop.example"),
        ("a.shop.co.uk", "shop.co.uk"), ("a.b.shop.com.au", "shop.com.au"), ("shop.de", "shop.de"),
        ("a.shop.de", "shop.de"),
    ],
)  # fmt: skip
def test_name_servers_can_be_registered(host: str, domain: str) -> None:
    assert module._domain_of(host) == domain


@pytest.mark.parametrize("text", ["10.0.0.53", "10.0.0.53:5353", "10.0.0.53:65535", "::1", "[::1]", "[::1]:53"])
def test_name_server_is_an_address_with_a_port_or_without(text: str) -> None:
    assert checked_server(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "ns.example", "10.0.0", "10.0.0.53:0", "10.0.0.53:65536", "10.0.0.53:99999", "10.0.0.53:-1", "10.0.0.53:x",
     "10.0.0.53:\u0661", "[::1]:65536", "[::1]:x", "[10.0.0.53"],
)  # fmt: skip
def test_name_server_that_is_invalid_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of a name server"):
        checked_server(text)
