"""R17: marked sent, but the provider has no record of it. Found by an audit, told, and repaired when somebody asks."""

import signal

import pytest

from tests.conformance.scene import Scene
from tests.processes import until

pytestmark = pytest.mark.slow

SINCE = ("--audit", "--since", "1h")
WHY = ("--reason", "the provider was restored from a backup")


def given_forgotten(scene: Scene, amount: int) -> None:
    """So many are marked sent, and the provider does not know them any more."""
    scene.publish(scene.asked, amount)
    scene.work()
    scene.provider.control(forget=True)
    scene.provider.control(forget=False)


def test_R17_R18_what_the_provider_has_lost_is_found_told_and_sent_again_within_the_cap(scene: Scene) -> None:
    given_forgotten(scene, 3)
    old = scene.deliveries()

    found = scene.reconcile(*SINCE)
    repaired = scene.reconcile(*SINCE, "--repair", "--cap", "2", *WHY)
    scene.work()

    assert found["counts"] == {"no_evidence": 3}
    assert (found["can_be_repaired"], found["repaired"]) == (3, [])
    assert len(repaired["repaired"]) == 2
    has = scene.has()
    assert sorted(message["count"] for message in has.values()) == [1, 2, 2]
    assert all(message["asked"] for message in has.values()), "asked once more before it was sent again"
    rows = scene.deliveries()
    assert rows[:3] == old, "history is not edited"
    assert [(row["generation"], row["status"]) for row in rows[3:]] == [(1, "Completed")] * 2
    assert {row["kind"] for row in scene.database.rows("findings")} == {"no_evidence"}

    rest = scene.reconcile(*SINCE, "--repair", *WHY)
    scene.work()

    assert len(rest["repaired"]) == 1
    assert set(scene.counts().values()) == {2}
    assert scene.reconcile(*SINCE)["can_be_repaired"] == 0


def test_R17_finding_raises_an_alert(scene: Scene) -> None:
    scene.settings(f'[alerts]\nevery = "1s"\nwebhook = "{scene.to(scene.path)}/alerts"\n')
    given_forgotten(scene, 1)
    scene.reconcile(*SINCE)

    with scene.worker() as worker:
        until(lambda: scene.provider.totals(f"{scene.path}/alerts").get("accepted"), "an alert")
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0

    [alert] = [each for each in scene.provider.last() if each["path"].endswith("/alerts")]
    assert "findings" in alert["body"]
    assert worker.count("alert findings") == 1


def test_R17_what_the_provider_may_have_forgotten_by_now_is_neither_found_nor_sent_again(scene: Scene) -> None:
    given_forgotten(scene, 2)
    scene.settings(profile='remembers = "1ms"')

    audited = scene.reconcile(*SINCE, "--repair", *WHY)

    assert (audited["counts"], audited["repaired"]) == ({"too_old": 2}, [])
    assert len(scene.deliveries()) == 2


def test_R17_what_the_provider_still_has_is_confirmed_and_left_alone(scene: Scene) -> None:
    scene.publish(scene.asked, 3)
    scene.work()

    audited = scene.reconcile(*SINCE, "--repair", *WHY)

    assert (audited["counts"], audited["repaired"]) == ({"confirmed": 3}, [])
    assert scene.database.rows("findings") == []
