"""Consuming and publishing in one transaction: a chain without a gap, wherever its process is killed."""

import signal
from pathlib import Path

import pytest

from tests.inbox import chain
from tests.inbox.handling import effects
from tests.outbox.databases import Address
from tests.processes import Process

pytestmark = [pytest.mark.requirement("P5"), pytest.mark.slow]

AFTER_THE_COMMIT = ("committed", "acknowledged")


def consume(address: Address, folder: Path, step: str = "") -> int | None:
    with Process("-m", chain.__name__, address.url, str(folder), step) as process:
        return process.ended()


@pytest.mark.parametrize("step", chain.STEPS)
def test_consumer_killed_at_any_step_has_effect_and_event_once(address: Address, step: str, tmp_path: Path) -> None:
    folder = tmp_path / "queue"
    folder.mkdir()
    (folder / "payment-1").touch()

    assert consume(address, folder, step) == -signal.SIGKILL
    is_there = step in AFTER_THE_COMMIT
    assert (effects(address), address.count("sendonce_events"), address.count("sendonce_receipts")) == (is_there,) * 3
    assert consume(address, folder) == 0

    assert (effects(address), address.count("sendonce_events"), address.count("sendonce_receipts")) == (1, 1, 1)
    assert address.count("sendonce_deliveries") == 1
    came_again = step == "committed"
    assert address.look("select duplicates from sendonce_receipts") == [(1 if came_again else None,)]
    assert list(folder.iterdir()) == []
