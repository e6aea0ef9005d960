"""The examples of the page about consuming run as they stand."""

import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sendonce
from sendonce.config.load import load
from sendonce.consumer import Consumers, Mode, Taken
from sendonce.domain.durations import parse_duration
from tests.consumer.brokers import NatsPlace
from tests.consumer.working import Bank
from tests.docs.test_examples import examples
from tests.docs.test_services import run
from tests.processes import ROOT, until_async

PAGE = "docs/how-to/consuming.md"


def tables(number: int) -> str:
    found: list[str] = re.findall(r"```toml\n(.*?)```", (ROOT / PAGE).read_text("utf-8"), re.DOTALL)
    return found[number]


@pytest.mark.postgres
async def test_handler_of_the_page_deducts_once(pg_dsn: str, nats_url: str, tmp_path: Path) -> None:
    bank = Bank(pg_dsn)
    await bank.make()
    bank.ask("create table wallets (id int primary key, balance int not null)")
    bank.ask("insert into wallets values (7, 100)")
    place = NatsPlace(nats_url)
    await place.make()
    await place.put(*[("payment-1", b'{"amount": 12, "wallet": 7}')] * 2)
    (tmp_path / "sendonce.toml").write_text(
        f'[nats.main]\nurl = "{nats_url}"\n[consumers.wallet]\nsource = "nats:main/{place.name}"\n'
    )
    consumers: Any = (await run(examples(PAGE)[0], {}))["consumers"]
    here, there = examples(PAGE)[3:5]
    config = f'config="{tmp_path}/sendonce.toml"'

    async def serve() -> None:
        await until_async(lambda: bank.ask("select balance from wallets") == [(88,)], "the deduction")

    names: dict[str, object] = {"consumers": consumers, "serve": serve}
    for each in (there, f"stop = asyncio.Event()\nstop.set()\n{here.replace('config=', 'stop=stop, config=')}"):
        code = each.replace("postgresql://app@localhost/shop", pg_dsn).replace('config="sendonce.toml"', config)
        await run(code, {**names, "asyncio": asyncio})

    assert bank.ask("select balance from wallets") == [(88,)]


async def test_settings_of_the_page_override_its_handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_PASSWORD", "secret")
    (tmp_path / "sendonce.toml").write_text(tables(0) + tables(1) + '[amqp.main]\nurl = "amqp://rabbit.example"\n')
    consumers = (await run(examples(PAGE)[0], {}))["consumers"]
    assert isinstance(consumers, Consumers)

    settings = load(tmp_path / "sendonce.toml", {"NATS_PASSWORD": "secret"})
    [wallet] = [each.override(settings.consumers[each.name]) for each in consumers]

    assert (wallet.source, wallet.mode, wallet.concurrency) == ("amqp:main/payments", Mode.ONCE, 4)
    assert (wallet.policy.max_attempts, wallet.policy.timeout) == (5, parse_duration("1m"))
    assert settings.consume.app == "shop.handlers:consumers"


async def test_consumers_with_sessions_and_ids_of_their_own_are_registered() -> None:
    names = {"consumers": Consumers(), "json": json, "sessions": SimpleNamespace(begin=print), "sendonce": sendonce}

    await run(examples(PAGE)[1], names)
    await run(examples(PAGE)[2], names)

    consumers = names["consumers"]
    assert isinstance(consumers, Consumers)
    ledger, orders = consumers
    assert ledger.begin is print
    assert orders.id_of is not None
    assert orders.id_of(Taken(id=None, body=b'{"uuid": "u-1"}', headers={}, position="p")) == "u-1"
