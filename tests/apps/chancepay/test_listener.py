"""The wallet's listener on a real broker, in both modes: each order once, whatever is killed and doubled."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

from apps.chancepay.demo.lossy import Loss
from apps.chancepay.demo.parts import with_stream
from apps.chancepay.stream import STREAM
from tests.apps.chancepay.services import ChancePay, chancepay
from tests.processes import until
from tests.servers.nats import Nats


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """A broker of its own: the stream's name is that of the application."""
    with Nats() as server:
        yield server.url


@pytest.fixture
def services(request: pytest.FixtureRequest, tmp_path: Path, broker: str) -> Iterator[ChancePay]:
    mode, _, kind = request.param.partition("-")
    server = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    asyncio.run(a_new_stream(broker))
    with chancepay(server, tmp_path, mode=mode, broker=f'[nats.main]\nurl = "{broker}"\n') as made:
        made.start()
        yield made


async def a_new_stream(url: str) -> None:
    client = await with_stream(url)
    await client.jetstream().delete_stream(STREAM)
    await client.close()
    await (await with_stream(url)).close()


async def put_again(url: str, bodies: list[bytes]) -> None:
    """The same orders once more, with an id that the broker does not know; and what is no order."""
    client = await nats.connect(url)
    for body in [*bodies, b"no order"]:
        await client.jetstream().publish(STREAM, body)
    await client.close()


async def bodies_in(url: str) -> list[bytes]:
    client = await nats.connect(url)
    last = (await client.jetstream().stream_info(STREAM)).state.last_seq
    found = [(await client.jetstream().get_msg(STREAM, seq)).data or b"" for seq in range(1, last + 1)]
    await client.close()
    return found


@pytest.mark.parametrize(
    "services", ["sure-postgres", pytest.param("chance-sqlite", marks=pytest.mark.more)], indirect=True
)
def test_order_is_taken_once_though_listeners_are_killed_and_messages_doubled(services: ChancePay, broker: str) -> None:
    rich, poor = services.given_wallet("ada", 1000), services.given_wallet("bob", 10)
    first = services.listen()
    paid = [services.pay(rich, 7) for _ in range(10)]
    services.settled(paid[0])
    first.kill()
    paid += [services.pay(rich, 7) for _ in range(10)]
    refused = services.pay(poor, 11)

    with services.second_listener() as second:
        until(lambda: services.balance(rich) == 1000 - 20 * 7, "all deductions")
        assert services.settled(refused)["status"] == "FAILED"
        if services.mode == "sure":  # else a report is lost with its listener
            assert all(services.settled(uuid)["status"] == "SUCCEED" for uuid in paid)
        asyncio.run(put_again(broker, asyncio.run(bodies_in(broker))))
        last = services.pay(rich, 1)
        services.settled(last)
        second.send(signal.SIGTERM)
        assert second.ended() == 0

    assert services.balance(rich) == 1000 - 20 * 7 - 1
    assert services.balance(poor) == 10
    malformed = services.wallet.database.execute(
        "select reason, error_message from sendonce_messages where reason is not null"
    )
    assert [tuple(row) for row in malformed] == [("malformed", "it has no id")]


@pytest.mark.parametrize(
    "services", ["chance-sqlite", pytest.param("sure-sqlite", marks=pytest.mark.more)], indirect=True
)
def test_report_that_is_lost_is_sent_again_in_mode_sure_and_left_in_mode_chance(services: ChancePay) -> None:
    wallet = services.given_wallet("ada", 100)
    losses = iter([Loss.REFUSED])
    services.way.choose = lambda: next(losses, Loss.NONE)

    with services.second_listener() as listener:
        uuid = services.pay(wallet, 30)
        until(lambda: services.balance(wallet) == 70, "the deduction")
        until(lambda: services.way.lost.get(Loss.REFUSED) == 1, "the report to be lost")
        if services.mode == "sure":
            services.settled(uuid)
        listener.send(signal.SIGTERM)
        assert listener.ended() == 0

    assert services.payment(uuid)["status"] == ("SUCCEED" if services.mode == "sure" else "PENDING")
    assert services.balance(wallet) == 70
