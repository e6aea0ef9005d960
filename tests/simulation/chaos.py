"""What goes wrong in a run, and when; and how it is made good again at its end."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeAlias

from sendonce.admin.dead_letters import requeue
from tests.simulation.people import HOOKS, WHO
from tests.simulation.scene import PATIENCE, Scene
from tests.simulation.world import Weather

Blow: TypeAlias = Callable[[Scene, Random], None]


async def play(scene: Scene) -> None:
    """Trouble for as long as the profile says; then everything is well, and must come to its end."""
    await _prepare(scene)
    _worsen(scene)
    scene.application.start()
    scene.operator.start()
    await _torment(scene)
    _heal(scene)
    scene.loop.kill(scene.operator.process)
    while not scene.application.is_done:
        if scene.application.process.is_dead:
            scene.application.start()
        await asyncio.sleep(0.2)
    await _recover(scene)


async def _prepare(scene: Scene) -> None:
    """Two subscriptions with a secret; one has a rate and a policy of its own."""
    store = scene.database.store
    for place, (rate, policy) in enumerate([(None, None), (8.0, '{"if_unsure": "hold", "max_attempts": 4}')]):
        added = await store.add_subscription(
            tenant="", types=["memo.*"], destination=HOOKS[place], policy=policy, description=None, operator="ada",
            rate=rate, secrets=lambda _: {"signing": b"plain:whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"},
        )  # fmt: skip
        scene.subscriptions.append(added)
    for _ in range(scene.profile.nodes):
        scene.start_node()


def _worsen(scene: Scene) -> None:
    """The weather of this run: each thing in some runs only, so that rare ones are seen by themselves too."""
    dice, trouble = scene.dice("weather"), scene.trouble

    def some(most: float, share: float = 0.5) -> float:
        return dice.random() * most if dice.random() < share else 0.0

    trouble.refused, trouble.unsaid = some(0.1), some(0.1)
    trouble.slow, trouble.death = some(0.5), some(0.03, 0.8)
    scene.world.weather = Weather(
        lost=some(0.2), unanswered=some(0.3), slow=some(0.4), late=some(0.3), fails=some(0.4), refuses=some(0.1, 0.3),
        gone=some(0.02, 0.2), breaks=some(0.1), defers=some(0.3), accepted=some(0.2), twice=some(0.1, 0.3),
        no_answer=some(0.4), death=some(0.3, 0.8), down=scene.profile.down, errs=some(0.4),
    )  # fmt: skip


async def _torment(scene: Scene) -> None:
    """One blow after the other; those who died are started again."""
    dice = scene.dice("chaos")
    blows: list[tuple[Blow, float]] = [
        (_doom, dice.choice([2, 8, 8])), (_freeze, dice.choice([1, 1, 4])), (_cut_off, dice.choice([0.5, 1, 4])),
        (_stop, 0.5), (_cut_database, 0.3), (_restore_database, 0.6), (_doom_reconciling, 1),
        (_jump, dice.choice([0, 0, 0.4])), (_forget, dice.choice([0, 0, 0.3])),
    ]  # fmt: skip
    kinds, shares = zip(*blows, strict=True)
    end = scene.loop.time() + scene.profile.seconds
    while scene.loop.time() < end:
        await asyncio.sleep(dice.random() * 0.12)
        while len(scene.live()) < scene.profile.nodes:
            scene.start_node()
        for person in (scene.application, scene.operator):
            if person.process.is_dead:
                person.start()
        if not scene.profile.down or dice.random() >= scene.profile.down:
            dice.choices(kinds, shares)[0](scene, dice)


def _doom(scene: Scene, dice: Random) -> None:
    """A worker will die after so many more steps: between any two awaits, also while it is starting."""
    awake = [node for node in scene.live() if not node.process.is_frozen]
    if awake:
        dice.choice(awake).process.fuse = dice.choice([dice.randint(1, 30), dice.randint(1, 150)])


def _doom_reconciling(scene: Scene, dice: Random) -> None:
    if scene.reconciling:
        scene.reconciling[-1].process.fuse = dice.randint(1, 60)


def _freeze(scene: Scene, dice: Random) -> None:
    """As SIGSTOP does, for up to several times as long as a lease."""
    node, seconds = dice.choice(scene.live()), 0.2 + dice.random() ** 2 * 5
    if not node.process.is_frozen:
        scene.note(node.process, f"is frozen for {seconds:.3f} s")
        scene.counts.freezes += 1
        scene.loop.freeze(node.process, seconds)


def _stop(scene: Scene, dice: Random) -> None:
    """As SIGTERM does."""
    node = dice.choice(scene.live())
    if node.worker is not None:
        scene.note(node.process, "is told to stop")
        scene.counts.stops += 1
        node.worker.stop()


def _cut_off(scene: Scene, dice: Random) -> None:
    """One worker cannot reach the database for a while: it goes on sending, and nobody hears what came of it."""
    node, seconds = dice.choice(scene.live()), 0.3 + dice.random() * 4
    scene.note(node.process, f"cannot reach the database for {seconds:.3f} s")
    node.process.cut_off_until = scene.loop.time() + seconds


def _cut_database(scene: Scene, dice: Random) -> None:
    scene.note(None, "the database is away")
    scene.trouble.is_away = True


def _restore_database(scene: Scene, dice: Random) -> None:
    scene.trouble.is_away = False


def _jump(scene: Scene, dice: Random) -> None:
    seconds = dice.choice([-1, 1]) * dice.random() ** 2 * 20
    scene.note(None, f"the database's clock jumps by {seconds:.3f} s")
    scene.counts.clock_jumps += 1
    scene.database.ahead += seconds
    if seconds > 0:
        scene.jumps_ahead.append(scene.database.tick())


def _forget(scene: Scene, dice: Random) -> None:
    scene.note(None, "the receivers lose their memory")
    scene.counts.memory_losses += 1
    scene.world.forget()


def _heal(scene: Scene) -> None:
    scene.note(None, "from here on all is well")
    trouble = scene.trouble
    trouble.refused = trouble.unsaid = trouble.slow = trouble.death = 0.0
    trouble.is_away = False
    scene.world.weather = Weather()
    for process in [each.process for each in scene.nodes] + [each.process for each in scene.reconciling]:
        process.fuse = 0
        process.cut_off_until = 0.0


async def _recover(scene: Scene) -> None:
    """Lift what people hold back, and let the workers work until there is nothing left to do; perhaps once more."""
    store, begun = scene.database.store, scene.loop.time()
    for stop in scene.database.rows("select scope, value from sendonce_stops"):
        await store.resume(stop["scope"], stop["value"], operator="ada")
    await _until_all_ended(scene, begun + PATIENCE)
    scene.counts.recovered_in = scene.loop.time() - begun
    letters = scene.database.rows("select id from sendonce_dead_letters where closed_at is null order by id")
    if letters and scene.dice("requeue").random() < 0.5:
        scene.note(None, "everything that was given up is requeued")
        await requeue(store, [row["id"] for row in letters], even_if_sent=True, **WHO)
        await _until_all_ended(scene, begun + PATIENCE)
    await _rest(scene)


async def _until_all_ended(scene: Scene, deadline: float) -> None:
    """What a subscription's receiver disables by an answer that was on its way is made active again, too."""
    while scene.loop.time() < deadline:
        while len(scene.live()) < 2:
            scene.start_node()
        for row in scene.database.rows("select id from sendonce_subscriptions where state <> 'active'"):
            await scene.database.store.set_subscription_state(row["id"], "active", operator="ada", reason=None)
        if not scene.database.one(
            "select exists (select 1 from sendonce_deliveries where status not in ('Completed', 'DeadLettered'))"
        ):
            return
        await asyncio.sleep(0.5)


async def _rest(scene: Scene) -> None:
    """Everybody goes home, and says so."""
    end = scene.loop.time() + 60
    while scene.loop.time() < end and scene.database.one("select exists (select 1 from sendonce_leases)"):
        await asyncio.sleep(0.5)
    while scene.loop.time() < end and scene.live():
        for node in scene.live():
            if node.worker is not None:
                node.worker.stop()
        await asyncio.sleep(0.5)
