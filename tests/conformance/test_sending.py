"""The ordinary way: what is sent, what is written about it, what is tried again and what is not."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sendonce import Email
from tests.conformance import own_channels
from tests.conformance.scene import Scene
from tests.conformance.test_doubt import APP, sent_to

pytestmark = pytest.mark.slow

KEY = "CL-17/v3"


def arrivals(scene: Scene, beginning: str | None = None) -> list[dict[str, Any]]:
    """What came to the paths of this test, in order; names of headers in lower case."""
    found = [each for each in scene.provider.last() if each["path"].startswith(beginning or scene.path)]
    for each in found:
        each["headers"] = {name.lower(): value for name, value in each["headers"].items()}
    return found


def test_R9_D4_attempt_has_the_same_bytes_and_the_same_token(scene: Scene) -> None:
    payload = {"review": 1, "text": "Grüße, мир, 世界", "lines": [1, 2.5, None]}
    scene.database.publish("review.done", payload, key=KEY, to=scene.to(f"{scene.asked}/0"))
    scene.provider.control(fail="503:first:3", path=scene.asked)

    scene.work()

    came = arrivals(scene)
    assert [each["attempt"] for each in came] == [1, 2, 3, 4]
    assert len({each["body"] for each in came}) == 1
    assert len({(each["token"], each["headers"]["webhook-id"]) for each in came}) == 1
    assert scene.counts() == {f"{scene.asked}/0": 1}
    again = scene.database.publish("review.done", payload, key=KEY, to=scene.to(f"{scene.asked}/0"))
    assert again == scene.database.one("select id from sendonce_events"), "one type and key are one event"


def test_R13_attempt_is_in_the_log_under_the_key(scene: Scene) -> None:
    scene.database.publish("review.done", {}, key=KEY, to=scene.to(f"{scene.asked}/0"))
    scene.provider.control(fail="503:first:1", drop_after_accept="first:1", path=scene.asked)
    scene.work()

    told = scene.run("explain", KEY, "--json").json

    [story] = told["events"][0]["deliveries"]
    log = story["known"]["attempts"]
    assert [(each["attempt"], each["outcome"], each["error_code"]) for each in log] == [
        (1, "Failed", "http_503"),
        (2, "Unknown", "connection_lost"),
        (3, "Delivered", None),
    ]
    assert all(each["created_at"] <= each["finished_at"] for each in log)
    [message] = scene.has().values()
    assert (log[-1]["notification_id"], message["count"]) == (message["id"], 1)
    assert len(story["attempts"]) == 3, "in plain words too"


def test_R14_pause_before_each_retry_is_twice_the_one_before_up_to_a_cap(scene: Scene) -> None:
    scene.publish(scene.asked)
    scene.provider.control(fail="503", path=scene.asked)

    pauses = []
    for _ in range(3):
        with scene.worker("--until-idle", first_delay="10s", longest_delay="30s") as worker:
            assert worker.ended() == 0
        row = scene.delivery()
        pauses.append(between(row["updated_at"], row["next_attempt_at"]))
        scene.database.execute("update sendonce_deliveries set next_attempt_at = updated_at")

    assert pauses == [10, 20, 30]
    assert scene.outcomes() == [("Failed", "http_503")] * 3


def between(earlier: Any, later: Any) -> float:
    """Seconds between two times as this database keeps them."""
    apart = later - earlier
    return (apart if isinstance(apart, timedelta) else timedelta(microseconds=apart)).total_seconds()


def test_R15_recipient_that_refuses_waits_for_a_person_and_the_others_go_on(scene: Scene) -> None:
    recipients = [scene.to(f"{scene.asked}/{name}") for name in ("ada", "bob", "eve")]
    mails = [Email(f"{name}{scene.path[1:]}@example.com", subject="Done", text="It is.") for name in ("joe", "nobody")]
    scene.database.publish("review.done", {"review": 1}, key=KEY, to=[*recipients, *mails])
    scene.provider.control(fail="422", path=f"{scene.asked}/bob")
    scene.provider.control(mail_fail="550", path="mailto:nobody")

    scene.work()

    ended = {row["destination"]: (row["status"], row["attempt_count"]) for row in scene.deliveries()}
    assert [ended.pop(each) for each in recipients] == [("Completed", 1), ("DeadLettered", 1), ("Completed", 1)]
    assert sorted(ended.values()) == [("Completed", 1), ("DeadLettered", 1)]
    assert {row["reason"] for row in scene.database.rows("dead_letters")} == {"refused"}
    listed = scene.run("dead-letters", "list", "--json").rows
    assert len(listed) == 2
    assert all(each["closed_at"] is None for each in listed)


def test_M14_mail_carries_its_token_and_is_the_same_on_every_attempt(scene: Scene) -> None:
    to = f"ada{scene.path[1:]}@example.com"
    email = Email(to, subject="Prüfung fertig", text="Alles gut.", html="<p>Alles gut.</p>")
    scene.database.publish("review.done", {"review": 1}, key=KEY, to=email)
    scene.provider.control(mail_fail="451:first:1", path=f"mailto:{to}")

    scene.work()

    first, second = arrivals(scene, "mailto:")
    assert first["body"] == second["body"]
    token = scene.run("explain", KEY, "--json").json["events"][0]["deliveries"][0]["known"]["token"]
    assert first["headers"]["idempotency-key"] == token
    assert token in first["headers"]["message-id"]
    assert scene.outcomes()[-1] == ("Delivered", None)


def test_M15_channel_of_ones_own_is_added_without_touching_the_core(scene: Scene, tmp_path: Path) -> None:
    scene.database.publish("review.done", {"review": 1}, key=KEY, to="pager:+41791234567")

    scene.work(*APP, environment={own_channels.FOLDER: str(tmp_path)})

    assert sent_to(tmp_path) == ['pager:+41791234567 {"review":1}']
    assert scene.delivery()["status"] == "Completed"


def test_D2_runner_gets_its_secret_and_success_and_failure_are_written_down(scene: Scene) -> None:
    scene.settings(profile='bearer = "runner-secret-4711"')
    scene.publish(scene.asked)
    scene.provider.control(fail="500:first:1", path=scene.asked)

    with scene.worker("--until-idle", first_delay="10s", longest_delay="1m") as worker:
        assert worker.ended() == 0
    failed = scene.delivery()
    scene.database.execute("update sendonce_deliveries set next_attempt_at = updated_at")
    scene.work()

    assert (failed["status"], failed["attempt_count"], failed["final_error_code"]) == ("PendingRetry", 1, "http_500")
    assert between(failed["updated_at"], failed["next_attempt_at"]) == 10
    assert {each["headers"]["authorization"] for each in arrivals(scene)} == {"Bearer runner-secret-4711"}
    assert [each["method"] for each in arrivals(scene)] == ["POST", "POST"]
    sent = scene.run("deliveries", "show", str(failed["id"]), "--json").json
    assert datetime.fromisoformat(sent["notified_at"]) >= datetime.fromisoformat(sent["created_at"])
    assert worker.count("runner-secret") == 0
