"""M13: housekeeping in batches while work goes on, by real workers and by hand."""

import gzip
import json
import signal
from pathlib import Path

from tests.conformance.scene import Scene
from tests.processes import until

AT_ONCE = '[retention]\npayloads = "0s"\nhistory = "0s"\nkeys = "0s"\nevery = "100ms"\nbatch = 5\n'


def test_M13_two_workers_remove_what_was_sent_while_they_send(scene: Scene) -> None:
    scene.settings(AT_ONCE)
    with scene.worker() as first, scene.worker() as second:
        for batch in range(3):
            scene.publish(f"{scene.recognised}/{batch}", 20)
        until(lambda: not scene.database.rows("events"), "the last event to go")
        for worker in (first, second):
            worker.send(signal.SIGTERM)
            assert worker.ended() == 0

    assert set(scene.counts().values()) == {1}
    assert len(scene.counts()) == 60
    assert scene.database.rows("deliveries") == scene.database.rows("attempts") == []


def test_M13_content_goes_first_and_the_key_is_kept_for_its_window(scene: Scene) -> None:
    scene.publish(scene.recognised, 3)
    scene.work()

    windows = ("--payloads", "0s", "--history", "0s", "--keys", "1d")
    ran = scene.run("prune", *windows, "--reason", "test", "--yes", "--json")
    assert (ran.json["contents"], ran.json["deliveries"], ran.json["events"]) == (3, 3, 0)
    scene.publish(scene.recognised, 3)

    assert [row["payload"] for row in scene.database.rows("events")] == [None] * 3
    assert scene.deliveries() == []


def test_M13_everything_is_archived_before_it_goes(scene: Scene, tmp_path: Path) -> None:
    scene.publish(scene.recognised, 7)
    scene.work()
    archive = tmp_path / "old.jsonl.gz"
    windows = ("--payloads", "never", "--history", "0s", "--keys", "0s")

    scene.run("prune", *windows, "--archive", str(archive), "--reason", "test", "--yes")

    lines = [json.loads(line) for line in gzip.decompress(archive.read_bytes()).splitlines()]
    assert {json.loads(line["event"]["payload"])["review"] for line in lines} == set(range(7))
    assert {attempt["outcome"] for line in lines for each in line["deliveries"] for attempt in each["attempts"]} == {
        "Delivered"
    }
    assert scene.database.rows("events") == []
