"""Those who use the system: an application that publishes, and an operator who stops, repairs and corrects."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from sendonce.admin.dead_letters import attest, correct, discard, replay, requeue
from sendonce.admin.reconcile import open_in_doubt
from sendonce.errors import NotAllowed, NotFound, StoreBusy
from sendonce.outbox.outbox import Outbox
from tests.simulation.loop import Process, Strand
from tests.simulation.nodes import Reconciling
from tests.simulation.world import ASKED, HOLD, HOOK, RESEND, TOKEN

if TYPE_CHECKING:
    from tests.simulation.scene import Scene

OUTBOX = Outbox()
STOPS = [("all", ""), ("channel", ASKED), ("channel", TOKEN), ("channel", HOLD), ("tenant", "t"), ("tenant", "")]
WHO: dict[str, Any] = {"operator": "ada", "reason": "because"}


class RolledBack(Exception):
    """The caller's transaction did not commit."""


class Application:
    """Publishes until it knows that it was recorded, as callers do: the same key again when the answer was lost."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._next = 0
        self.recorded: dict[str, tuple[str, ...]] = {}
        self.subscribed: set[str] = set()
        self.process = Process("application")
        self.is_done = False

    def start(self) -> None:
        """Begin, or go on after a crash: with the one it had just begun, or with the one after it."""
        self.process = Process("application")
        self._store = self._scene.door(self.process)
        self._scene.loop.spawn(Strand(self.process), self._publish())

    async def _publish(self) -> None:
        profile = self._scene.profile
        while self._next < profile.events:
            number, dice = self._next, self._scene.dice(f"event-{self._next}")
            await asyncio.sleep(dice.random() * 1.6 * profile.seconds / profile.events)
            kinds = dice.sample([TOKEN, ASKED, HOLD, RESEND], dice.randint(1, 3))
            arguments: dict[str, Any] = {
                "key": f"k-{number}",
                "to": tuple(f"{kind}:{dice.randint(1, 2)}" for kind in kinds),
                "tenant": "t" if dice.random() < 0.3 else "",
                "if_unsure": dice.choice([None, None, None, "hold", "resend"]),
            }
            if dice.random() < 0.1:
                arguments["expires_at"] = self._in(1 + 4 * dice.random())
            elif dice.random() < 0.1:
                arguments["deliver_at"] = self._in(2 * dice.random())
            if dice.random() < 0.5:
                self._next = number + 1  # should it die now, it does not come back to this one
            await self._record("memo.created" if dice.random() < 0.5 else "order.created", number, arguments, dice)
            self._next = number + 1
        self.is_done = True

    async def _record(self, type: str, number: int, arguments: dict[str, Any], dice: Random) -> None:
        while True:
            rolls_back = dice.random() < 0.05

            def work(own: Any, rolls_back: bool = rolls_back) -> None:
                OUTBOX.publish(own, type, {"n": number}, **arguments)
                if rolls_back:
                    raise RolledBack

            try:
                await self._store.transact(work)
            except (StoreBusy, RolledBack):
                await asyncio.sleep(0.05)
                continue
            self.recorded[arguments["key"]] = arguments["to"]
            if type == "memo.created" and arguments["tenant"] == "":
                self.subscribed.add(arguments["key"])
            return

    def _in(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(self._scene.database.now() / 1e6, UTC) + timedelta(seconds=seconds)


class Operator:
    """Does this and that, through the functions that the command line calls."""

    def __init__(self, scene: "Scene") -> None:
        self._scene = scene
        self._dice = scene.dice("operator")
        self.process = Process("operator")
        self._number = 0

    def start(self) -> None:
        self.process = Process("operator")
        self._store: Any = self._scene.door(self.process)
        self._scene.loop.spawn(Strand(self.process), self._act_for_ever(self._scene.profile.seconds / 12))

    async def _act_for_ever(self, pace: float) -> None:
        verbs: list[Callable[[], Awaitable[object]]] = [
            self._stop, self._resume, self._resume, self._pause, self._unpause, self._unpause, self._cancel,
            self._requeue, self._requeue, self._requeue, self._replay, self._attest, self._discard, self._correct,
            self._doubt, self._reconcile, self._reconcile,
        ]  # fmt: skip
        while True:
            await asyncio.sleep(self._dice.random() * 2 * pace)
            verb = self._dice.choice(verbs)
            self._scene.note(self.process, f"begins: {verb.__name__.strip('_')}")
            try:
                await verb()
            except (StoreBusy, NotAllowed, NotFound) as error:
                self._scene.note(self.process, f"{verb.__name__.strip('_')}: {error}")

    async def _stop(self) -> None:
        await self._store.stop(*self._dice.choice(STOPS), **WHO)

    async def _resume(self) -> None:
        stops = self._scene.database.rows("select scope, value from sendonce_stops")
        for stop in stops:
            await self._store.resume(stop["scope"], stop["value"], operator="ada")

    async def _pause(self) -> None:
        await self._set_state(self._dice.choice(["paused", "paused", "disabled"]))

    async def _unpause(self) -> None:
        await self._set_state("active")

    async def _set_state(self, state: str) -> None:
        await self._store.set_subscription_state(self._dice.choice(self._scene.subscriptions), state, **WHO)

    async def _cancel(self) -> None:
        if chosen := self._any("select id from sendonce_deliveries where status in ('Pending', 'PendingRetry')"):
            await self._store.cancel([chosen], **WHO)

    async def _requeue(self) -> None:
        if chosen := self._letter():
            await requeue(self._store, [chosen], even_if_sent=self._dice.random() < 0.5, **WHO)

    async def _replay(self) -> None:
        if chosen := self._any("select id from sendonce_deliveries where status in ('Completed', 'DeadLettered')"):
            await replay(self._store, [chosen], even_if_sent=self._dice.random() < 0.5, **WHO)

    async def _attest(self) -> None:
        if chosen := self._letter():
            await attest(self._store, [chosen], **WHO)

    async def _discard(self) -> None:
        if chosen := self._letter():
            await discard(self._store, [chosen], **WHO)

    async def _correct(self) -> None:
        chosen = self._any("select delivery_id from sendonce_dead_letters where closed_at is null")
        if chosen is None:
            return
        self._number += 1
        changed = {"n": f"corrected-{self._number}"}
        await correct(self._store, chosen, payload=changed, even_if_sent=self._dice.random() < 0.5, **WHO)

    async def _doubt(self) -> None:
        async for _ in open_in_doubt(self._store, wait=timedelta(seconds=0.4), even_if_running=True, **WHO):
            pass

    async def _reconcile(self) -> None:
        self._number += 1
        self._scene.reconciling.append(Reconciling(self._scene, self._number))

    def _letter(self) -> int | None:
        return self._any("select id from sendonce_dead_letters where closed_at is null")

    def _any(self, sql: str) -> int | None:
        rows = self._scene.database.rows(f"{sql} order by 1")
        return None if not rows else int(next(iter(self._dice.choice(rows).values())))


HOOKS = (f"{HOOK}://one.example/in", f"{HOOK}://two.example/in")
