"""`sendonce consume` as a process in tests: its settings, its handlers, and what is put for them."""

import json
from collections.abc import Mapping
from pathlib import Path

import nats
from nats.js.api import AckPolicy, ConsumerConfig

from tests.consumer.brokers import NatsPlace
from tests.consumer.working import Bank
from tests.processes import Process, sendonce

APP = "tests.consumer.handlers:consumers"


def settings(folder: Path, place: NatsPlace, more: str = "", consumer: str = "wallet") -> Path:
    """A settings file that says where the broker is, and the stream."""
    path = folder / "consume.toml"
    path.write_text(
        f'[nats.main]\nurl = "{place.address}"\n[consumers.{consumer}]\nsource = "nats:main/{place.name}"\n{more}'
    )
    return path


def consuming(
    bank: Bank, config: Path, *options: str, name: str = "wallet", environment: Mapping[str, str] | None = None
) -> Process:
    return sendonce(
        "consume", name, "--app", APP, "--config", str(config), *options, database=bank.url, environment=environment
    )


async def patient_for_a_second(place: NatsPlace, consumer: str = "wallet") -> None:
    """Have the broker give again after a second what a killed process had."""
    client = await nats.connect(place.address)
    durable = ConsumerConfig(
        durable_name=consumer, ack_policy=AckPolicy.EXPLICIT, ack_wait=1, max_deliver=-1, max_ack_pending=-1
    )
    await client.jsm().add_consumer(place.name, durable)
    await client.close()


def paid(**more: object) -> bytes:
    return json.dumps({"amount": 5, **more}).encode()
