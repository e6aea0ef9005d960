"""A database goes back to what it was a while ago, under a running worker: nothing is doubled that can be helped."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest

from sendonce.channels.protocol import Message
from sendonce.domain.outcomes import LookUp, NotFound
from sendonce.outbox.drafts import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.stores.sqlite import orchestrating
from sendonce.stores.sqlite.lanes import QUERIES
from tests.simulation.run import virtual_time
from tests.simulation.scene import Profile, Scene
from tests.simulation.world import ASKED, HOLD, TOKEN, Weather, World

EVENTS = 24
# How long a receiver needs to find what it has taken: less than the policy's doubt_wait.
LAG = 0.3
ONE_WORKER = Profile(events=0, seconds=6.0, nodes=1)
Planted = Callable[[], AbstractContextManager[Any]]


class LaggingWorld(World):
    """Its receivers do not find at once what they have taken."""

    def _look(self, message: Message, answer: "asyncio.Future[LookUp]") -> None:
        took = [effect for send in self.sends if send.token == message.token for effect in send.effects]
        times = [send.at for send in self.sends if send.token == message.token]
        if took and self._loop.time() - min(times) < LAG:
            self._later(0.001, answer.set_result, NotFound())
        else:
            super()._look(message, answer)


def play(seed: int) -> Counter[str]:
    """How often each message had an effect that the database knows of at the end; it has come to its end."""
    scene = Scene(seed, ONE_WORKER)
    scene.world.__class__ = LaggingWorld
    scene._sorts = [()]  # one worker, who serves everything
    scene.world.weather = Weather(slow=0.3, fails=0.2)
    with virtual_time(scene):
        scene.loop.run_until_complete(_play(scene))
        effects = Counter(send.intent for send in scene.world.sends for _ in send.effects)
        open_ones = scene.database.rows(
            "select id from sendonce_deliveries where status not in ('Completed', 'DeadLettered')"
        )
        scene.loop.bury()
    scene.database.connection.close()
    assert scene.broken == []
    assert open_ones == []
    assert effects
    return effects


async def _play(scene: Scene) -> None:
    dice = scene.dice("loss")
    scene.start_node()
    store = scene.database.store
    going_back = sorted(dice.sample(range(2, EVENTS), 2))
    copy = sqlite3.connect(":memory:")
    with closing(copy):
        for number in range(EVENTS):
            draft = Draft("memo.saved", {"n": number}, key=str(number), to=f"{dice.choice([TOKEN, ASKED, HOLD])}:1")
            await store.transact(partial(_publish, draft=draft))
            await asyncio.sleep(dice.random() * 0.2)
            if number == going_back[0]:
                scene.database.connection.backup(copy)
            elif number == going_back[1]:
                copy.backup(scene.database.connection)
        scene.world.weather = Weather()
        for _ in range(400):
            await asyncio.sleep(0.5)
            if not scene.database.one(
                "select exists (select 1 from sendonce_deliveries where status not in ('Completed', 'DeadLettered'))"
            ):
                break
    for node in scene.live():
        assert node.worker is not None
        node.worker.stop()
    while scene.live():
        await asyncio.sleep(0.2)


def _publish(connection: sqlite3.Connection, draft: Draft) -> None:
    Outbox().publish_many(connection, [draft])


def doubled(seeds: range) -> list[str]:
    return [f"seed {seed}: {intent}" for seed in seeds for intent, times in play(seed).items() if times > 1]


def test_a_database_that_goes_back_doubles_nothing() -> None:
    assert doubled(range(30)) == []


def notices_nothing() -> AbstractContextManager[Any]:
    """A worker does not look whether its newest claim is still there."""
    return patch.object(orchestrating, "refusal", lambda *args: None)


def asks_at_once() -> AbstractContextManager[Any]:
    """What is put in doubt is asked about as soon as somebody comes by."""
    at_once = {name: sql.replace(":due_at", ":now") for name, sql in QUERIES.items() if name == "doubt"}
    return patch.dict(QUERIES, at_once)


@pytest.mark.parametrize("plant", [notices_nothing, asks_at_once])
def test_a_planted_fault_doubles(plant: Planted) -> None:
    with plant():
        assert doubled(range(30)) != []
    with nullcontext():
        assert doubled(range(3)) == []
