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

from sendonce.admin.dead_letters import requeue
from sendonce.channels.protocol import Message
from sendonce.domain.outcomes import LookUp, NotThere
from sendonce.outbox.entries import Draft
from sendonce.outbox.outbox import Outbox
from sendonce.sql.steps import Steps
from sendonce.store.sqlite import claims
from sendonce.store.sqlite.connection import QUERIES
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
            self._later(0.001, answer.set_result, NotThere())
        else:
            super()._look(message, answer)


def play(seed: int) -> Counter[str]:
    """How often each message had an effect beyond those that a person has asked for; all have come to their end."""
    scene = Scene(seed, ONE_WORKER)
    scene.world.__class__ = LaggingWorld
    scene._sorts = [()]  # one worker, who serves everything
    scene.world.weather = Weather(slow=0.3, fails=0.2, unanswered=0.2 * (seed % 2))
    with virtual_time(scene):
        decided = scene.loop.run_until_complete(_play(scene))
        effects = Counter(send.intent for send in scene.world.sends for _ in send.effects)
        effects.subtract(decided)
        open_ones = scene.database.rows(
            "select id from sendonce_deliveries where status not in ('Completed', 'DeadLettered')"
        )
        scene.loop.bury()
    scene.database.connection.close()
    assert scene.broken == []
    assert open_ones == []
    assert effects
    return effects


async def _play(scene: Scene) -> Counter[str]:
    """What a person has had sent again, and how often."""
    decided: Counter[str] = Counter()
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
            if scene.world.weather.unanswered:
                decided.update(await _send_again(scene))
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
    return decided


async def _send_again(scene: Scene) -> list[str]:
    """A person looks at what is held, and has it sent."""
    held = scene.database.rows("""
        select l.id, e.payload || '>' || d.destination as intent
          from sendonce_dead_letters l
          join sendonce_deliveries d on d.id = l.delivery_id
          join sendonce_events e on e.id = d.event_id
         where l.closed_at is null and l.reason = 'in_doubt'
    """)
    if held:
        await requeue(scene.database.store, [row["id"] for row in held], even_if_sent=True, operator="ada", reason="x")
    return [row["intent"] for row in held]


def _publish(connection: sqlite3.Connection, draft: Draft) -> None:
    Outbox().publish_many(connection, [draft])


def doubled(seeds: range) -> list[str]:
    return [f"seed {seed}: {intent}" for seed in seeds for intent, times in play(seed).items() if times > 1]


def test_database_that_goes_back_doubles_nothing() -> None:
    assert doubled(range(60)) == []


def notices_nothing() -> AbstractContextManager[Any]:
    """A worker does not look whether its newest claim is still there."""

    def refusal(*args: object) -> Steps[None]:
        yield from ()

    return patch.object(claims, "refusal", refusal)


def asks_at_once() -> AbstractContextManager[Any]:
    """What is put in doubt is asked about as soon as somebody comes by."""
    at_once = {
        name: sql.replace(":now + cast(", ":now + 0 * cast(") for name, sql in QUERIES.items() if name == "doubt"
    }
    return patch.dict(QUERIES, at_once)


def believes_what_was_said_before() -> AbstractContextManager[Any]:
    """Whoever had it sent again is taken to have said so of what is lost afterwards."""
    believing = QUERIES["doubt"].replace("case when generation > 0", "case when 0")
    return patch.dict(QUERIES, {"doubt": believing})


@pytest.mark.parametrize("plant", [notices_nothing, asks_at_once, believes_what_was_said_before])
def test_planted_fault_doubles(plant: Planted) -> None:
    with plant():
        assert doubled(range(100)) != []
    with nullcontext():
        assert doubled(range(3)) == []
