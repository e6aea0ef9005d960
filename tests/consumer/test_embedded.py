"""Consumers inside a program of one's own: until they are told to stop, beside a block, and begun anew."""

import asyncio
import math
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import sendonce
from sendonce import ConfigError
from sendonce.compose import open_store
from sendonce.consumer import Consumer, Consumers, Incoming, Taken, daemon
from sendonce.consumer.config import ConsumeConfig
from sendonce.consumer.daemon import Parts
from sendonce.observability.facts import Consuming, Fact
from tests.consumer.brokers import NatsPlace
from tests.consumer.working import Bank, deduct, new_bank
from tests.processes import until, until_async


@pytest_asyncio.fixture(params=["sqlite", "postgres"])
async def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Bank:
    made = new_bank(request.param, tmp_path, request)
    await made.make()
    return made


@pytest_asyncio.fixture
async def stream(nats_url: str, tmp_path: Path) -> NatsPlace:
    """A stream, and a settings file that says where it is."""
    place = NatsPlace(nats_url)
    await place.make()
    (tmp_path / "consume.toml").write_text(f'[nats.main]\nurl = "{nats_url}"\n')
    return place


def consumers_on(stream: NatsPlace, handler: Any = deduct) -> Consumers:
    consumers = Consumers()
    consumers.consumer("wallet", f"nats:main/{stream.name}")(handler)
    consumers.consumer("other", f"nats:main/{stream.name}")(deduct)
    return consumers


async def test_consumer_in_a_program_works_until_its_event_is_set(
    bank: Bank, stream: NatsPlace, tmp_path: Path
) -> None:
    stop = asyncio.Event()
    await stream.put(("m-1", b'{"amount": 5}'))

    work = sendonce.aconsume(bank.url, consumers_on(stream), "wallet", config=tmp_path / "consume.toml", stop=stop)
    consuming = asyncio.create_task(work)
    await until_async(lambda: bank.deducted == ["m-1"], "the message")
    stop.set()
    await consuming

    assert bank.ask("select distinct consumer from sendonce_receipts") == [("wallet",)]


async def test_consumer_in_a_program_ends_at_a_signal_and_leaves_no_handler_of_it(
    stream: NatsPlace, tmp_path: Path
) -> None:
    bank = Bank(f"sqlite:///{tmp_path}/bank.db")
    await bank.make()
    await stream.put(("m-1", b'{"amount": 5}'))

    consuming = asyncio.create_task(sendonce.aconsume(bank.url, consumers_on(stream), config=tmp_path / "consume.toml"))
    await until_async(lambda: bank.deducted == ["m-1", "m-1"], "the message at both consumers")
    os.kill(os.getpid(), signal.SIGTERM)
    await consuming

    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def test_embedded_consumers_work_beside_the_block(bank: Bank, stream: NatsPlace, tmp_path: Path) -> None:
    await stream.put(("m-1", b'{"amount": 5}'))

    async with sendonce.aembedded_consumers(bank.url, consumers_on(stream), "wallet", config=tmp_path / "consume.toml"):
        await until_async(lambda: bank.deducted == ["m-1"], "the message")


async def test_embedded_consumers_without_an_event_loop_have_one_of_their_own(
    stream: NatsPlace, tmp_path: Path
) -> None:
    bank = Bank(f"sqlite:///{tmp_path}/bank.db")
    await bank.make()
    await stream.put(("m-1", b'{"amount": 5}'))

    def in_a_program() -> None:
        with sendonce.embedded_consumers(bank.url, consumers_on(stream), "wallet", config=tmp_path / "consume.toml"):
            until(lambda: bank.deducted == ["m-1"], "the message")

    await asyncio.to_thread(in_a_program)


async def test_embedded_consumers_that_fail_are_begun_anew(
    stream: NatsPlace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A database without our tables is nothing that waiting mends; somebody does."""
    bank = Bank(f"sqlite:///{tmp_path}/bank.db")
    await bank.make()

    async with sendonce.aembedded_consumers(bank.url, consumers_on(stream), "wallet", config=tmp_path / "consume.toml"):
        bank.ask("alter table sendonce_messages rename to sendonce_messages_away")
        await until_async(lambda: "the consumer has failed" in caplog.text, "them to fail")
        bank.ask("alter table sendonce_messages_away rename to sendonce_messages")
        await stream.put(("m-1", b'{"amount": 5}'))
        await until_async(lambda: bank.deducted == ["m-1"], "the message")


async def test_embedded_consumers_that_cannot_begin_raise_before_the_block(tmp_path: Path) -> None:
    consumers = Consumers()
    consumers.consumer("wallet", "nats:main/payments")(deduct)

    with pytest.raises(sendonce.ConfigError, match=r"consumer wallet: the settings have no table \[nats.main\]"):
        async with sendonce.aembedded_consumers(f"sqlite:///{tmp_path}/bank.db", consumers):
            raise AssertionError("it cannot be entered")


class Given:
    """A source that gives these messages, and waits then; without any it cannot be opened, whatever is waited for."""

    patience = math.inf

    def __init__(self, *messages: Taken) -> None:
        self.messages = list(messages)
        self.acknowledged: list[str | None] = []

    async def open(self) -> None:
        if not self.messages:
            raise ConfigError("its settings are wrong")

    async def take(self, most: int, seconds: float) -> Sequence[Taken]:
        await asyncio.sleep(0.01)
        found, self.messages = self.messages[:most], self.messages[most:]
        return found

    async def acknowledge(self, taken: Taken) -> None:
        self.acknowledged.append(taken.id)

    async def extend(self, in_hand: Sequence[Taken]) -> None:
        """Nobody else is there."""

    async def close(self) -> None:
        """Nothing is open."""


async def test_consumer_that_fails_for_good_lets_the_others_finish_and_is_raised(tmp_path: Path) -> None:
    bank = Bank(f"sqlite:///{tmp_path}/bank.db")
    await bank.make()
    slow = Given(Taken(id="m-1", body=b'{"amount": 5}', headers={}, position="p-1"))
    facts: list[Fact] = []

    async def waits(connection: Any, message: Incoming) -> None:
        await deduct(connection, message)
        await until_async(
            lambda: any(isinstance(fact, Consuming) and fact.is_over for fact in facts), "the other's end"
        )

    parts = Parts(
        consumers=[
            (Consumer(name="wallet", source="nats:main/a", handler=waits), slow),
            (Consumer(name="broken", source="nats:main/b", handler=deduct), Given()),
        ],
        database=bank.url,
        open_store=lambda: open_store(bank.url, writes=True),
        config=ConsumeConfig(),
        emit=facts.append,
        version="1",
    )
    with pytest.raises(ConfigError, match="its settings are wrong"):
        await daemon.run(parts, stop=asyncio.Event())

    assert (bank.deducted, slow.acknowledged) == (["m-1"], ["m-1"])
