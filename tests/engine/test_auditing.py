"""The audit that comes by itself: by one worker at a time, when it is due, and what it finds is told."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sendonce.admin.audit import AuditReport, Means, audit
from sendonce.channels.registry import Channels
from sendonce.config.load import load
from sendonce.domain.outcomes import Delivered, Found, NotThere
from sendonce.domain.policies import Policy
from sendonce.embedded import parts_of
from sendonce.engine import audits, daemon
from sendonce.engine.alerter import Alerter
from sendonce.engine.alerts import AlertSettings
from sendonce.engine.audits import HOLD, Auditing, AuditSettings
from sendonce.engine.orchestrator import Policies
from sendonce.errors import ConfigError, StoreBusy, StoreError
from sendonce.observability.facts import Alerted, Audited, AuditFailed, Fact
from sendonce.store.ports import Store
from sendonce.store.upkeep import Turn
from tests.crash.accounts import url_of
from tests.engine import rig
from tests.engine.reconciling import AT_ONCE, LATER, given_completed
from tests.engine.rig import serving
from tests.processes import until_async
from tests.store.databases import Database

DAY = timedelta(days=1)
DAILY = AuditSettings(audit_every=DAY)


def auditing_on(
    store: Store, channels: Channels, facts: list[Fact], *, policy: Policy = AT_ONCE, worker_id: int = 1
) -> Auditing:
    means = Means(channels=channels, namespace="here", policy_at=Policies(policy, channels.settings()).at)
    return Auditing(store, DAILY, lambda since: audit(store, means, since=since), facts.append, worker_id=worker_id)


async def test_R17_what_is_marked_sent_without_evidence_is_found_by_itself_and_told(
    database: Database, store: Store
) -> None:
    gone = await given_completed(database, store)
    facts: list[Fact] = []
    channel = rig.Asked(Delivered("n"), answers=[NotThere()])

    await auditing_on(store, serving(channel), facts).look()
    await Alerter(store, AlertSettings(), [], facts.append).look()

    assert facts[0] == Audited(looked_at=1, findings=1, unanswered=0)
    assert [fact.name for fact in facts if isinstance(fact, Alerted)] == ["findings"]
    assert [(row["delivery_id"], row["kind"]) for row in database.rows("findings")] == [(gone, "no_evidence")]
    assert channel.sent == []
    assert len(database.rows("deliveries")) == 1, "it repairs nothing"


async def test_audit_is_done_by_one_of_several_workers_when_it_is_due(database: Database, store: Store) -> None:
    await given_completed(database, store)
    facts: list[Fact] = []
    channel = rig.Asked(Delivered("n"), answers=[Found("n-1")] * 9)
    workers = [
        auditing_on(each, serving(channel), facts, worker_id=number)
        for number, each in enumerate((store, await database.open(), await database.open()), 1)
    ]

    await asyncio.gather(*(worker.look() for worker in workers))
    await asyncio.gather(*(worker.look() for worker in workers))
    assert len(facts) == 1
    database.advance(DAY + timedelta(minutes=1))
    await asyncio.gather(*(worker.look() for worker in workers))

    assert facts == [Audited(looked_at=1, findings=0, unanswered=0)] * 2


async def test_R16_what_was_sent_less_than_doubt_wait_ago_is_not_asked_about(database: Database, store: Store) -> None:
    await given_completed(database, store)
    facts: list[Fact] = []
    channel = rig.Asked(Delivered("n"), answers=[NotThere()])

    await auditing_on(store, serving(channel), facts, policy=LATER).look()

    assert facts == [Audited(looked_at=1, findings=0, unanswered=0)]
    assert channel.asked == []


async def test_audit_that_was_cut_short_is_taken_over_after_a_while(database: Database, store: Store) -> None:
    facts: list[Fact] = []
    assert await store.take_audit(Turn(7, HOLD)) is not None
    other = auditing_on(store, serving(rig.Asked(Delivered("n"), answers=[])), facts, worker_id=2)

    await other.look()
    assert facts == []
    database.advance(HOLD + timedelta(seconds=1))
    await other.look()

    assert len(facts) == 1
    assert not await store.keep_audit(Turn(7, HOLD))
    await store.end_audit(Turn(7, HOLD), wait=timedelta(0))
    assert await store.take_audit(Turn(3, HOLD)) is None, "whoever lost it ends nothing"


async def test_audit_stops_when_its_turn_is_lost(store: Store) -> None:
    facts: list[Fact] = []
    steps: list[int] = []

    async def walk(since: datetime) -> AsyncIterator[AuditReport]:
        for step in range(3):
            steps.append(step)
            await store.end_audit(Turn(1, HOLD), wait=DAY)
            yield AuditReport(looked_at=step)

    await Auditing(store, DAILY, walk, facts.append, worker_id=1).look()

    assert (steps, facts) == ([0], [])


@pytest.mark.parametrize(
    ("error", "told"), [(StoreBusy("away"), []), (StoreError("no rights"), [AuditFailed(reason="no rights")])], ids=repr
)
async def test_trouble_is_told_once_and_ends_nothing(sqlite_store: Store, error: Exception, told: list[Fact]) -> None:
    facts: list[Fact] = []

    def walk(since: datetime) -> Any:
        raise error

    auditing = Auditing(sqlite_store, DAILY, walk, facts.append, worker_id=1)
    for _ in range(3):
        await auditing.look()
        await sqlite_store.end_audit(Turn(1, HOLD), wait=timedelta(0))

    assert facts == told


async def test_worker_does_it_when_the_settings_say_so(
    database: Database, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await given_completed(database, store)
    path = tmp_path / "sendonce.toml"
    path.write_text('[reconcile]\naudit_every = "1h"\n\n[policy]\ndoubt_wait = "0s"\n')
    monkeypatch.setattr(audits, "FIRST_LOOK", timedelta(0))
    channels = serving(rig.Asked(Delivered("n"), answers=[NotThere()] * 3))
    settings = replace(load(path, {}), database=url_of(database))
    facts: list[Fact] = []
    stop = asyncio.Event()
    parts = replace(parts_of(settings, channels), emit=facts.append, open_store=database._connect)

    running = asyncio.create_task(daemon.run(parts, stop=stop))
    await until_async(lambda: [fact for fact in facts if isinstance(fact, Audited)], "an audit")
    stop.set()
    await asyncio.wait_for(running, 50)

    assert [row["kind"] for row in database.rows("findings")] == ["no_evidence"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"audit_since": DAY}, "there is none: set audit_every"),
        ({"audit_every": timedelta(seconds=59)}, "between one minute and 30 days"),
        ({"audit_every": DAY, "audit_since": DAY}, "audit_since must be longer than audit_every"),
    ],
)
def test_settings_that_look_at_nothing_are_refused(wrong: dict[str, timedelta], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        AuditSettings(**wrong)


def test_send_is_looked_at_by_an_audit_that_comes_late_enough() -> None:
    assert AuditSettings().since is None
    assert DAILY.since == 2 * DAY
    assert AuditSettings(audit_every=DAY, audit_since=3 * DAY).since == 3 * DAY
