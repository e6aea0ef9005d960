"""A rate is used up, however busy the host is: a token is spent by what is sent, and by nothing else."""

import asyncio
from unittest.mock import patch

from sendonce.domain.policies import Policy
from sendonce.engine.config import WorkerConfig
from sendonce.outbox.entries import Draft
from tests.simulation import nodes
from tests.simulation.people import OUTBOX
from tests.simulation.run import virtual_time
from tests.simulation.scene import Profile, Scene
from tests.simulation.world import TOKEN, Weather

BUSY = f"{TOKEN}://busy.example/others"
RATED = f"{TOKEN}://busy.example/rated"
A_SECOND = 2.0
SECONDS = 60


def test_rated_subscription_gets_its_rate_at_a_host_that_others_keep_busy() -> None:
    scene = Scene(5, Profile(events=0, seconds=SECONDS, nodes=1))
    scene.config = WorkerConfig(concurrency=20, per_host=8)
    with virtual_time(scene), patch.object(nodes, "POLICY", Policy()):
        scene.loop.run_until_complete(_work(scene))
        sent = [send for send in scene.world.sends if send.intent.endswith(RATED)]
        others = [send for send in scene.world.sends if send.intent.endswith(BUSY)]
        assert not scene.broken, scene.broken
        scene.loop.bury()
    scene.database.connection.close()

    assert 0.9 * A_SECOND * SECONDS <= len(sent) <= A_SECOND * SECONDS + 2
    assert len(others) > len(sent), "the host was busy all the time"


async def _work(scene: Scene) -> None:
    """Many more for others than the host takes, and more for the subscription than its rate allows."""
    await scene.database.store.add_subscription(
        tenant="", types=["memo.*"], destination=RATED, policy=None, description=None, operator="ada", rate=A_SECOND
    )
    drafts = [Draft("memo.created", {"n": n}, key=f"m-{n}", to=None) for n in range(200)]
    drafts += [Draft("order.created", {"n": n}, key=f"o-{n}", to=BUSY) for n in range(1000)]
    await scene.database.store.transact(lambda own: OUTBOX.publish_many(own, drafts))
    scene.world.weather = Weather(slow=1.0)
    scene.start_node()
    await asyncio.sleep(SECONDS)
