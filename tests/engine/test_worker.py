"""The worker on a real store: nothing lost, nothing doubled, never more than its slots."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from sendonce.domain.attempts import Result, Verdict
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Found, NotThere, Refused, Unknown
from sendonce.engine import worker as worker_module
from sendonce.engine.health import Health
from sendonce.errors import StoreBusy, StoreError
from sendonce.observability.facts import DatabaseBack, DatabaseLost, Settled
from sendonce.store.ports import Store
from tests.engine.faults import Faulty, faulty
from tests.engine.rig import QUICK, QUICK_CONFIG, Asked, Told, Working, after, given_many, once, serving, working
from tests.given import expire, given_due_delivery, given_lease, settle_with
from tests.processes import until_async
from tests.store.aging import without_rules
from tests.store.databases import Database, SqliteDatabase

BUSY = StoreBusy("away")
# What has expired is due again before anybody could look whether nothing is due.
AT_ONCE = replace(
    QUICK,
    first_delay=timedelta(microseconds=1),
    longest_delay=timedelta(microseconds=1),
    timeout=timedelta(microseconds=1),
    doubt_wait=timedelta(0),
)


def states(database: Database) -> Counter[str]:
    return Counter(row["status"] for row in database.rows("deliveries"))


def outcomes(database: Database) -> list[str]:
    rows = sorted(database.rows("attempts"), key=lambda row: (row["delivery_id"], row["attempt"]))
    return [row["outcome"] for row in rows]


async def completed(database: Database, amount: int) -> None:
    await until_async(lambda: states(database)["Completed"] == amount, f"{amount} completed")


def sent_once(channel: Told, amount: int) -> bool:
    times = Counter(message.delivery_id for message in channel.sent)
    return len(times) == amount and set(times.values()) == {1}


async def test_deliveries_are_all_sent_once_and_completed(database: Database, store: Store) -> None:
    given_many(database, 60)
    channel = Told(Delivered("n-1"))

    async with working(store, serving(channel), concurrency=7, until_idle=True) as here:
        stopped = await here.ended()

    assert (stopped.finished, stopped.in_doubt) == (60, 0)
    assert states(database) == {"Completed": 60}
    assert sent_once(channel, 60)
    assert database.one("select count(*) from sendonce_leases") == 0


async def test_workers_never_send_the_same(database: Database, store: Store) -> None:
    given_many(database, 60)
    channel = Told(after(0.002, Delivered()))
    other = await database.open()

    async with (
        working(store, serving(channel), concurrency=5, until_idle=True) as one,
        working(other, serving(channel), concurrency=5, until_idle=True) as two,
    ):
        finished = [await one.ended(), await two.ended()]

    assert sum(each.finished for each in finished) == 60
    assert sent_once(channel, 60)


async def test_claims_are_never_more_than_the_free_slots(sqlite: SqliteDatabase, sqlite_store: Store) -> None:
    given_many(sqlite, 80)
    channel = Told(after(0.01, Delivered()))
    watched, store = faulty(sqlite_store)
    claimed: list[int] = []

    def look(limit: int) -> None:
        claimed.append(limit)
        assert limit + channel.sending <= 6

    watched.on_start = look
    async with working(store, serving(channel), concurrency=6, until_idle=True) as here:
        await here.ended()

    assert max(claimed) == 6
    assert channel.most == 6
    assert sent_once(channel, 80)


async def test_failure_is_tried_again_until_it_works(database: Database, store: Store) -> None:
    given_due_delivery(database, to="test:a")
    channel = Told(Failed("503"), Deferred("429", again_in=timedelta(milliseconds=10)), Delivered("n-3"))

    async with working(store, serving(channel)):
        await completed(database, 1)

    [row] = database.rows("deliveries")
    assert outcomes(database) == ["Failed", "Deferred", "Delivered"]
    assert (row["attempt_count"], row["deferred_count"], row["notification_id"]) == (3, 1, "n-3")
    assert len({message.token for message in channel.sent}) == 1


@pytest.mark.parametrize(
    ("script", "reason", "attempts"),
    [([Refused("410")], "refused", 1), ([Failed("503")], "exhausted", 5), ([Unknown("timeout")], "exhausted", 5)],
)
async def test_delivery_that_is_given_up_is_a_dead_letter(
    sqlite: SqliteDatabase, sqlite_store: Store, script: list[object], reason: str, attempts: int
) -> None:
    given_due_delivery(sqlite, to="test:a")

    async with working(sqlite_store, serving(Told(*script))):
        await until_async(lambda: sqlite.rows("dead_letters"), "a dead letter")

    [letter] = sqlite.rows("dead_letters")
    assert letter["reason"] == reason
    assert len(outcomes(sqlite)) == attempts


class TestDoubt:
    async def test_doubt_is_asked_about_before_it_is_sent_again(self, database: Database, store: Store) -> None:
        given_due_delivery(database, to="test:a")
        channel = Asked(Unknown("reset"), answers=[Found("n-1")])

        async with working(store, serving(channel)):
            await completed(database, 1)

        assert len(channel.sent) == 1
        assert database.rows("deliveries")[0]["notification_id"] == "n-1"

    async def test_doubt_that_the_receiver_does_not_have_is_sent_again(self, database: Database, store: Store) -> None:
        given_due_delivery(database, to="test:a")
        channel = Asked(Unknown("reset"), Delivered("n-2"), answers=[NotThere()])

        async with working(store, serving(channel)):
            await completed(database, 1)

        assert [message.attempt for message in channel.sent] == [1, 2]

    @pytest.mark.parametrize("who", ["the publish call", "the subscription", "the channel"])
    async def test_doubt_is_held_for_a_person_where_that_is_wanted(
        self, sqlite: SqliteDatabase, sqlite_store: Store, who: str
    ) -> None:
        channel = Told(Unknown("reset"), Delivered("never"))
        channels = serving(channel, **({"if_unsure": "hold"} if who == "the channel" else {}))
        if who == "the subscription":
            await sqlite_store.add_subscription(
                tenant="", types=["memo.*"], destination="test:a", policy='{"if_unsure": "hold"}', description=None,
                operator="ada",
            )  # fmt: skip
            sqlite.publish("memo.created", {}, key="1", to=None)
        else:
            given_due_delivery(sqlite, to="test:a", if_unsure="hold" if who == "the publish call" else None)

        async with working(sqlite_store, channels):
            await until_async(lambda: sqlite.rows("dead_letters"), "a dead letter")

        assert sqlite.rows("dead_letters")[0]["reason"] == "in_doubt"
        assert len(channel.sent) == 1

    @pytest.mark.parametrize("who", ["the publish call", "the channel"])
    async def test_requeue_in_doubt_is_held_again(self, database: Database, store: Store, who: str) -> None:
        channel = Told(Unknown("reset"), Failed("refused"), Unknown("reset"), Delivered("never"))
        channels = serving(channel, **({"if_unsure": "hold"} if who == "the channel" else {}))
        first = given_due_delivery(database, to="test:a", if_unsure="hold" if who == "the publish call" else None)
        async with working(store, channels):
            await until_async(lambda: database.rows("dead_letters"), "a dead letter")

            await store.open_generations([first], kind="requeue", operator="ada", reason="it did not arrive")
            await until_async(lambda: len(database.rows("dead_letters")) > 1, "another dead letter")

        assert [letter["reason"] for letter in database.rows("dead_letters")] == ["in_doubt", "in_doubt"]
        assert len(channel.sent) == 3, "one that surely failed is tried again; one that may have arrived is not"

    async def test_publish_call_can_ask_for_a_resend(self, sqlite: SqliteDatabase, sqlite_store: Store) -> None:
        given_due_delivery(sqlite, to="test:a", if_unsure="resend")
        channel = Told(Unknown("reset"), Delivered())

        async with working(sqlite_store, serving(channel, if_unsure="hold")):
            await completed(sqlite, 1)

        assert len(channel.sent) == 2

    async def test_late_answer_that_proves_it_prevents_a_resend(self, database: Database, store: Store) -> None:
        given_due_delivery(database, to="test:a")
        lost = await given_lease(store, hold=timedelta(milliseconds=1))
        await _expired(store)
        await settle_with(store, lost, Delivered("late but true"))
        channel = Told(Delivered("second"))

        async with working(store, serving(channel)):
            await completed(database, 1)

        assert channel.sent == []
        assert database.rows("deliveries")[0]["notification_id"] == "late but true"


async def _expired(store: Store) -> None:
    async with asyncio.timeout(50):
        while not await expire(store):
            await asyncio.sleep(0.005)


async def test_delivery_of_an_unknown_channel_waits_for_a_worker_that_has_it(
    sqlite: SqliteDatabase, sqlite_store: Store
) -> None:
    given_due_delivery(sqlite, to="fax:1")
    async with working(sqlite_store, serving(Told(Delivered()))):
        await until_async(lambda: sqlite.one("select parked_on from sendonce_deliveries") == "channel:fax", "its room")
    assert outcomes(sqlite) == []

    channel = Told(Delivered())
    async with working(sqlite_store, serving(channel, "fax")):
        await completed(sqlite, 1)

    assert len(channel.sent) == 1


async def test_delivery_of_a_removed_subscription_is_given_up(database: Database, store: Store) -> None:
    subscription_id = await store.add_subscription(
        tenant="", types=["*"], destination="test:a", policy=None, description=None, operator="ada"
    )
    database.publish("memo.created", {}, key="1", to=None)
    await store.set_subscription_state(subscription_id, "removed", operator="ada", reason=None)
    channel = Told(Delivered())

    async with working(store, serving(channel)):
        await until_async(lambda: database.rows("dead_letters"), "a dead letter")

    assert database.rows("dead_letters")[0]["error_code"] == "subscription_removed"
    assert channel.sent == []


async def test_delivery_erased_before_it_was_sent_is_given_up(database: Database, store: Store) -> None:
    given_due_delivery(database, to="test:a")
    with without_rules(database) as connection:
        connection.execute("update sendonce_events set payload = null, content_gone_at = created_at")
    channel = Told(Delivered())

    async with working(store, serving(channel)):
        await until_async(lambda: database.rows("dead_letters"), "a dead letter")

    assert database.rows("dead_letters")[0]["error_code"] == "content_gone"
    assert channel.sent == []


async def test_delivery_past_its_deadline_is_a_dead_letter(database: Database, store: Store) -> None:
    given_due_delivery(database, to="test:a", expires_at=database.now() + timedelta(minutes=1))
    database.advance(timedelta(minutes=2))
    channel = Told(Delivered())

    async with working(store, serving(channel)):
        await until_async(lambda: database.rows("dead_letters"), "a dead letter")

    assert database.rows("dead_letters")[0]["reason"] == "expired"
    assert channel.sent == []


class TestABusyDatabase:
    async def test_results_are_settled_when_it_answers_again(self, database: Database, store: Store) -> None:
        given_many(database, 20)
        channel = Told(Delivered())
        broken, wrapped = faulty(store)
        broken.before["settle"] = [BUSY, BUSY, BUSY]

        async with working(wrapped, serving(channel)) as here:
            await completed(database, 20)

        assert sent_once(channel, 20)
        assert _news(here, "results") == [DatabaseLost, DatabaseBack]

    async def test_settle_whose_answer_was_lost_counts_once(self, database: Database, store: Store) -> None:
        given_many(database, 5)
        channel = Told(Delivered())
        broken, wrapped = faulty(store)
        broken.after["settle"] = [BUSY]

        async with working(wrapped, serving(channel), until_idle=True) as here:
            stopped = await here.ended()

        assert sum(fact.already_applied for fact in here.said(Settled)) > 0
        assert stopped.finished == 5
        assert sent_once(channel, 5)
        assert {row["attempt_count"] for row in database.rows("deliveries")} == {1}

    async def test_claim_whose_answer_was_lost_is_sent_once(self, database: Database, store: Store) -> None:
        given_many(database, 3)
        channel = Told(Delivered())
        broken, wrapped = faulty(store)
        broken.after["start"] = [BUSY]

        async with working(wrapped, serving(channel), policy=AT_ONCE) as here:
            await until_async(lambda: len(database.rows("attempts")) == 3, "the claim nobody knows of")
            database.advance(QUICK_CONFIG.lease)
            await completed(database, 3)

        assert sent_once(channel, 3)
        assert _news(here, "worker") == [DatabaseLost, DatabaseBack]
        assert outcomes(database) == ["Unknown", "Delivered"] * 3

    async def test_claims_go_on_when_it_answers_again(self, sqlite: SqliteDatabase, sqlite_store: Store) -> None:
        given_many(sqlite, 3)
        channel = Told(Delivered())
        broken, wrapped = faulty(sqlite_store)
        broken.before["start"] = [BUSY, BUSY]

        async with working(wrapped, serving(channel)) as here:
            await completed(sqlite, 3)

        assert _news(here, "worker") == [DatabaseLost, DatabaseBack]

    async def test_send_waits_while_many_results_wait_to_be_written(
        self, sqlite: SqliteDatabase, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All of them would be in doubt if the worker died now."""

        class Stuck(Faulty):
            gate = asyncio.Event()

            async def settle(self, results: Sequence[Result]) -> list[Verdict]:
                await self.gate.wait()
                return await super().settle(results)

        given_many(sqlite, 40)
        channel, store = Told(Delivered()), Stuck(sqlite_store)
        turns: list[int] = []
        monkeypatch.setattr(worker_module, "TURN_SECONDS", 0.01)
        monkeypatch.setattr(
            Health, "turn", lambda _, part: turns.append(len(store.calls)) if part == worker_module.CLAIMS else None
        )

        async with working(cast(Store, store), serving(channel), concurrency=2):
            await until_async(
                lambda: len(channel.sent) == 40 or (len(turns) > 20 and len(set(turns[-10:])) == 1),
                "many turns without a claim",
            )
            sent = len(channel.sent)
            store.gate.set()
            await completed(sqlite, 40)

        assert 8 < sent <= 10
        assert sent_once(channel, 40)


def _news(here: Working, part: str) -> list[type]:
    return [type(fact) for fact in here.facts if isinstance(fact, DatabaseLost | DatabaseBack) and fact.part == part]


class TestAFailureThatLasts:
    async def test_worker_settles_what_was_sent_before_it_ends(
        self, sqlite: SqliteDatabase, sqlite_store: Store
    ) -> None:
        given_many(sqlite, 4)
        failed = asyncio.Event()
        broken, wrapped = faulty(sqlite_store)
        broken.before["start"] = [None, StoreError("no rights any more")]
        broken.on_start = lambda _: failed.set() if "start" in broken.calls else None
        channel = Told(once(failed, Delivered()))

        async with working(wrapped, serving(channel), concurrency=6) as here:
            with pytest.raises(StoreError, match="no rights"):
                await here.ended()

        assert states(sqlite) == {"Completed": 4}

    async def test_settle_that_cannot_work_ends_the_worker_loudly(
        self, sqlite: SqliteDatabase, sqlite_store: Store
    ) -> None:
        given_many(sqlite, 4)
        broken, wrapped = faulty(sqlite_store)
        broken.before["settle"] = [StoreError("no rights any more")]

        async with working(wrapped, serving(Told(Delivered()))) as here:
            with pytest.raises(StoreError, match="no rights"):
                await here.ended()


async def test_worker_until_idle_waits_for_what_a_dead_worker_holds(database: Database, store: Store) -> None:
    given_due_delivery(database, to="test:a")
    await given_lease(store, hold=timedelta(minutes=5))
    channel = Told(Delivered())
    watched, wrapped = faulty(store)

    async with working(wrapped, serving(channel), policy=AT_ONCE, until_idle=True) as here:
        await until_async(lambda: here.running.done() or len(watched.calls) > 4, "some looks in vain")
        assert not here.running.done()
        database.advance(timedelta(minutes=6))
        await completed(database, 1)
        stopped = await here.ended()

    assert stopped.finished == 1
    assert outcomes(database) == ["Unknown", "Delivered"]


async def test_worker_until_idle_does_not_wait_for_what_is_due_later(
    sqlite: SqliteDatabase, sqlite_store: Store
) -> None:
    given_due_delivery(sqlite, to="test:a", deliver_at=sqlite.now() + timedelta(hours=1))

    async with working(sqlite_store, serving(Told(Delivered())), until_idle=True) as here:
        stopped = await here.ended()

    assert stopped.finished == 0
