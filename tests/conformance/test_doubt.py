"""What may have been sent is asked about before anything else, and stays in doubt until somebody knows."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance import own_channels
from tests.conformance.scene import LOOK_UPS, Scene
from tests.crash.accounts import end_doubt_waits
from tests.processes import until

pytestmark = pytest.mark.slow

APP = ("--app", f"{own_channels.__name__}:channels")
FOUND = ("Delivered", None)


def is_in_doubt(scene: Scene, attempts: int = 1) -> bool:
    row = scene.delivery()
    return row["in_doubt"] in (1, True) and row["attempt_count"] >= attempts


def answer_late(scene: Scene) -> None:
    scene.provider.control(late="60s:first:1", path=scene.asked)


def drop_the_answer(scene: Scene) -> None:
    scene.provider.control(drop_after_accept="first:1", path=scene.asked)


@pytest.mark.parametrize(("trouble", "code"), [(drop_the_answer, "connection_lost"), (answer_late, "read_timeout")])
def test_R11_R16_answer_that_was_lost_is_asked_for_and_nothing_is_sent_again(
    scene: Scene, trouble: Callable[[Scene], None], code: str
) -> None:
    scene.publish(scene.asked)
    trouble(scene)

    scene.work(timeout="5s")

    assert scene.outcomes() == [("Unknown", code), FOUND]
    [message] = scene.has().values()
    assert (message["count"], message["asked"], message["found"]) == (1, 1, 1)
    row = scene.delivery()
    assert row["notification_id"] == message["id"], "back-filled with the provider's id"
    assert row["notified_at"] is not None
    assert row["final_error_code"] == code, "kept, as history"


def test_R11_what_never_arrived_is_sent_after_the_question_with_the_same_token_and_bytes(scene: Scene) -> None:
    scene.publish(scene.asked)
    scene.provider.control(drop="first:1", path=scene.asked)

    scene.work()

    assert scene.outcomes() == [("Unknown", "connection_lost"), FOUND]
    [message] = scene.has().values()
    assert (message["count"], message["asked"], message["found"], message["after_asking"]) == (1, 1, 0, 1)
    first, second = [each for each in scene.provider.last() if each["path"].startswith(scene.asked)]
    assert (first["token"], first["body"]) == (second["token"], second["body"])
    assert (first["attempt"], second["attempt"]) == (1, 2)


def test_R16_doubt_outlives_a_refused_connection_and_a_4xx_and_is_then_settled_without_a_resend(scene: Scene) -> None:
    scene.publish(scene.asked)
    drop_the_answer(scene)
    scene.provider.control(look_up_fail="503", path=LOOK_UPS)

    with scene.worker(max_attempts=1) as worker:
        until(lambda: is_in_doubt(scene), "doubt")
        scene.provider.control(closed=True)
        until(lambda: ("Deferred", "connection_refused") in scene.outcomes(), "a refused connection")
        assert is_in_doubt(scene)
        scene.provider.control(look_up_fail="403", path=LOOK_UPS)
        scene.provider.control(fail="404", path=scene.asked)
        scene.provider.control(closed=False)
        until(lambda: ("Deferred", "http_403") in scene.outcomes(), "a 4xx")
        assert is_in_doubt(scene)
        assert scene.database.rows("dead_letters") == [], "not given up before somebody answered"
        scene.provider.control(look_up_fail=None, path=LOOK_UPS)
        scene.until_closed()
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0

    outcomes = scene.outcomes()
    assert (outcomes[0], outcomes[-1]) == (("Unknown", "connection_lost"), FOUND)
    assert {outcome for outcome, _ in outcomes[1:-1]} == {"Deferred"}
    assert scene.counts() == {f"{scene.asked}/0": 1}
    assert scene.delivery()["status"] == "Completed"


def test_R16_where_nobody_can_be_asked_doubt_outlives_a_refused_connection_and_ends_with_a_person(
    scene: Scene,
) -> None:
    scene.publish(scene.plain)
    scene.provider.control(drop_after_accept="first:1", path=scene.plain)

    with scene.worker(doubt_wait="1h") as worker:
        until(lambda: is_in_doubt(scene), "doubt")
        scene.provider.control(closed=True)
        end_doubt_waits(scene.database)
        until(lambda: ("Failed", "connection_refused") in scene.outcomes(), "a refused connection")
        assert is_in_doubt(scene, 2)
        scene.provider.control(fail="422", path=scene.plain)
        scene.provider.control(closed=False)
        scene.until_closed(has_no_doubt_wait=True)
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0

    [letter] = scene.database.rows("dead_letters")
    assert letter["reason"] == "refused"
    assert scene.delivery()["in_doubt"], "a refusal now says nothing of the first attempt"
    refused = scene.run("dead-letters", "requeue", str(letter["id"]), "--reason", "try again")
    assert refused.code == 1
    assert "may have been sent already" in refused.err


def test_R10_where_a_repeat_is_not_wanted_it_is_held_for_a_person(scene: Scene) -> None:
    scene.publish(scene.plain)
    scene.provider.control(drop_after_accept="first:1", path=scene.plain)

    scene.work(if_unsure="hold")

    assert scene.counts() == {f"{scene.plain}/0": 1}
    [letter] = scene.database.rows("dead_letters")
    assert letter["reason"] == "in_doubt"


def test_R10_R11_what_has_an_id_but_no_confirmation_is_asked_about_first(scene: Scene, tmp_path: Path) -> None:
    scene.database.publish("review.done", {"review": 1}, key="review-1", to="queued:desk")
    environment = {own_channels.FOLDER: str(tmp_path)}

    with scene.worker(*APP, environment=environment, doubt_wait="1h") as worker:
        until(lambda: scene.delivery()["notification_id"] == "ticket-1", "an id")
        assert scene.delivery()["notified_at"] is None
        scene.until_closed(has_no_doubt_wait=True)
        worker.send(signal.SIGTERM)
        assert worker.ended() == 0

    assert scene.outcomes() == [("Accepted", None), FOUND]
    assert scene.delivery()["notification_id"] == "ticket-1"
    assert len(sent_to(tmp_path)) == 1


def sent_to(folder: Path) -> list[str]:
    """The lines in the files that are named by a token."""
    return [line for file in sorted(folder.iterdir()) if len(file.name) == 40 for line in file.read_text().splitlines()]


def test_R18_one_that_can_be_asked_is_not_sent_without_an_id_until_it_was_asked(scene: Scene, tmp_path: Path) -> None:
    scene.database.publish("review.done", {"review": 1}, key="review-1", to="silent:desk")

    scene.work(*APP, environment={own_channels.FOLDER: str(tmp_path)})

    assert scene.outcomes() == [("Unknown", "no_provider_id"), FOUND]
    assert scene.delivery()["notification_id"].startswith("box-")
    assert len(sent_to(tmp_path)) == 1, "asked about, and not sent again"


def test_R18_yes_without_an_id_and_without_evidence_never_counts_as_sent(scene: Scene, tmp_path: Path) -> None:
    scene.database.publish("review.done", {"review": 1}, key="review-1", to="liar:desk")

    scene.work(*APP, environment={own_channels.FOLDER: str(tmp_path)})

    outcomes = scene.outcomes()
    assert outcomes[0] == ("Unknown", "no_provider_id")
    assert ("Delivered", None) not in outcomes
    assert scene.delivery()["status"] == "DeadLettered"
    assert scene.delivery()["notified_at"] is None


def test_R18_endpoint_without_ids_is_marked_with_what_it_can_be_asked_by(scene: Scene) -> None:
    scene.publish(scene.asked)
    scene.provider.control(ids=False, path=scene.asked)

    scene.work()

    [token] = scene.provider.received()
    assert scene.delivery()["notification_id"] == token
    assert scene.outcomes() == [FOUND]


def test_R19_two_answers_to_one_request_change_nothing(scene: Scene) -> None:
    scene.publish(scene.asked, 6)
    scene.provider.control(twice=True, path=scene.asked)

    scene.work()

    assert set(scene.counts().values()) == {1}
    assert {row["status"] for row in scene.deliveries()} == {"Completed"}


def test_R8_R10_what_is_marked_sent_is_never_sent_again(scene: Scene) -> None:
    scene.publish(scene.asked, 3)
    scene.work()
    marked = [(row["notified_at"], row["notification_id"]) for row in scene.deliveries()]

    scene.publish(scene.asked, 3)
    with scene.worker("--until-idle") as again:
        assert again.ended() == 0

    assert set(scene.counts().values()) == {1}
    assert [(row["notified_at"], row["notification_id"]) for row in scene.deliveries()] == marked
