"""Workers whose clocks are wrong, or jump while they send: nothing is lost, and nothing is doubled."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sendonce.engine.lease_keeper import lease_time
from tests.conformance.scene import Scene
from tests.crash.clocks import MovedClock
from tests.crash.report import Report
from tests.processes import Process, until
from tests.provider import Provider
from tests.store.databases import Database, PostgresDatabase

pytestmark = pytest.mark.slow

HOUR = 3600
EACH = 20
# As by default, doubt waits for longer than a send may take: who asks about a send does not ask in the middle of it.
PATIENT: dict[str, Any] = {"timeout": "8s", "doubt_wait": "10s"}
# On PostgreSQL nothing comes into doubt, so that nobody has to wait for it.
MORE_PATIENT: dict[str, Any] = {"timeout": "60s", "doubt_wait": "70s"}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider(mail=True) as made:
        yield made


@pytest.fixture
def scene(database: Database, provider: Provider, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(database, provider, tmp_path)
    for below in (made.asked, made.recognised):
        made.publish(below, EACH)
        provider.control(slow="300ms", path=below)
    yield made
    for below in (made.asked, made.recognised):
        provider.control(slow=None, path=below)
    made.leave()


def worker(scene: Scene, slots: int, environment: dict[str, str] | None = None) -> Process:
    if isinstance(scene.database, PostgresDatabase):
        return scene.worker("--concurrency", str(slots), "--lease", "120s", environment=environment, **MORE_PATIENT)
    return scene.worker("--concurrency", str(slots), environment=environment, **PATIENT)


def settle(scene: Scene, title: str, begun: float) -> Report:
    """The report, printed and checked: all arrived once."""
    counts = scene.counts()
    report = Report(title=title, recovery_seconds=time.monotonic() - begun, published=2 * EACH)
    report.delivered = len(counts)
    report.lost = sum(row["status"] != "Completed" for row in scene.deliveries()) + report.published - report.delivered
    report.doubled["accepted more than once"] = sum(counts.values()) - len(counts)
    report.in_doubt = sum(row["outcome"] == "Unknown" for row in scene.database.rows("attempts"))
    print(f"\n{report}")
    report.check()
    return report


def test_clock_is_moved_and_that_of_the_leases_is_not(tmp_path: Path) -> None:
    clock = MovedClock(tmp_path / "clock", HOUR)
    say = (
        "import sys, time; from sendonce.engine.lease_keeper import lease_time as t;"
        " print(time.time(), t(), file=sys.stderr)"
    )

    with Process("-c", say, environment=clock.environment) as process:
        assert process.ended() == 0

    moved, of_leases = map(float, process.said.split())
    assert moved == pytest.approx(time.time() + HOUR, abs=60)
    assert of_leases == pytest.approx(lease_time(), abs=60)


def test_workers_whose_clocks_differ_by_an_hour_double_nothing(scene: Scene, tmp_path: Path) -> None:
    clock, begun = MovedClock(tmp_path / "clock", HOUR), time.monotonic()

    with worker(scene, 15, clock.environment) as ahead, worker(scene, 15) as right:
        scene.until_closed()

    report = settle(scene, "one clock an hour ahead", begun)
    assert ahead.count("Traceback") + right.count("Traceback") == 0
    if isinstance(scene.database, PostgresDatabase):
        assert report.in_doubt == 0, "there the server's clock is everybody's"


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forwards", "backwards and back"])
def test_clock_that_jumps_while_it_sends_doubles_nothing(scene: Scene, tmp_path: Path, jump: int) -> None:
    clock = MovedClock(tmp_path / "clock")

    with worker(scene, 10, clock.environment) as here:
        until(lambda: len(scene.has()) >= 10, "some work")
        clock.move(jump)
        jumped = time.monotonic()
        until(lambda: time.monotonic() > jumped + 0.5, "a while with the other clock")
        if jump < 0:
            clock.move(0)
        scene.until_closed()

    report = settle(scene, f"a clock that jumps by {jump} s", jumped)
    assert here.count("Traceback") == 0
    if isinstance(scene.database, PostgresDatabase):
        assert report.in_doubt == 0, "there the server's clock is everybody's"


def test_send_whose_lease_ends_early_is_asked_about_when_it_must_be_over(scene: Scene) -> None:
    """As when a clock jumps ahead: however short `doubt_wait` is, nobody asks, and is told no, in the middle of it."""
    hasty: dict[str, Any] = {"timeout": "10s", "doubt_wait": "50ms"}
    for below in (scene.asked, scene.recognised):
        scene.provider.control(slow="4s", path=below)

    with scene.worker("--lease", "30s", **hasty):
        until(lambda: sum(row["status"] == "InProgress" for row in scene.deliveries()) >= EACH, "sends on their way")
        begun = time.monotonic()
        scene.end_leases()
        with scene.worker(**hasty):
            scene.until_closed()

    report = settle(scene, "leases that end in the middle of their sends", begun)
    assert report.in_doubt >= EACH
