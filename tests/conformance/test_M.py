"""Document M, memo e-mails, on the application that is made after it: apps/memo_email."""

import asyncio
import json
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from alembic import command
from sqlalchemy import create_engine, inspect
from sqlalchemy.ext.asyncio import AsyncConnection

from apps.memo_email import memos as writing
from apps.memo_email.api import SETTINGS
from apps.memo_email.tables import MIGRATIONS
from apps.serving import alembic_config
from sendonce import Admin, BadDestination
from sendonce.contrib.sqlalchemy import ain_transaction, async_engine
from sendonce.domain.outcomes import Delivered, Failed
from sendonce.domain.policies import Policy
from tests.cli.workbench import run
from tests.conformance.memos import (
    Memos,
    RunningMemos,
    a_memo,
    address,
    app,
    check_schema,
    document,
    driver_url,
    granted,
    memos,
    worker,
)
from tests.crash.accounts import url_of
from tests.given import given_lease, settle_with
from tests.processes import SECONDS, until
from tests.provider import Provider
from tests.store.databases import REFUSED, PostgresDatabase, SqliteDatabase

__all__ = ["app", "granted", "memos"]

pytestmark = pytest.mark.slow

LIMIT = 5
HOLD = timedelta(minutes=1)
CLAIM = """
    SELECT id, payload, recipient_email, retry_count
    FROM email_outbox
    WHERE status = 'PENDING'
    ORDER BY meta_created_at
    FOR UPDATE SKIP LOCKED
    LIMIT %s
"""


async def test_M1_memo_and_its_mails_roll_back_together(memos: Memos) -> None:
    engine = async_engine(url_of(memos.database))

    async def work(connection: AsyncConnection) -> None:
        await writing.write(connection, uuid4(), a_memo("ada@example.com", "bob@example.com"))
        raise LookupError("the caller has changed its mind")

    with pytest.raises(LookupError):
        await ain_transaction(engine, work, isolation_level="SERIALIZABLE")
    unmailable = a_memo("ada@example.com").model_copy(update={"recipients": ["bob@example.com", "no address"]})
    with pytest.raises(BadDestination):
        await writing.create(engine, unmailable)
    await engine.dispose()

    for table in ("memos", "memo_numbers", "memo_messages", "sendonce_events", "sendonce_deliveries", "email_outbox"):
        assert memos.count(table) == 0, table


async def test_M1_under_serializable_every_writer_gets_in_once_and_the_numbers_have_no_gap(
    memos: Memos, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0
    write = writing.write

    async def counted(*arguments: Any) -> None:
        nonlocal tries
        tries += 1
        await write(*arguments)

    monkeypatch.setattr(writing, "write", counted)
    wanted = [a_memo(f"ada{number}@example.com", prefix="AB"[number % 2]) for number in range(12)]
    await memos.create(*wanted)

    numbers = memos.database.execute("select memo_number_prefix, memo_number_sequence from memos order by 1, 2")
    assert numbers == [(prefix, number) for prefix in "AB" for number in range(1, 7)]
    assert sorted(row["recipient_email"] for row in memos.rows()) == sorted(each.recipients[0] for each in wanted)
    assert memos.count("sendonce_deliveries") == memos.count("memo_messages") == 12
    if isinstance(memos.database, PostgresDatabase):
        assert tries > 12, "nobody was in another's way: this proves nothing"
        assert memos.database.one("select count(distinct idempotency_key) from email_outbox") == 12


async def test_M1_M3_memo_with_the_callers_id_is_written_and_mailed_once_however_many_race(memos: Memos) -> None:
    memo_id = uuid4()
    wanted = [a_memo("ada@example.com", prefix="AB"[number % 2], id=str(memo_id)) for number in range(6)]

    assert await memos.create(*wanted) == [memo_id] * 6

    assert memos.count("memos") == memos.count("memo_messages") == memos.count("sendonce_deliveries") == 1
    assert memos.database.one("select count(*) from memo_numbers") == 1, "no number was taken by the others"


def test_M3_same_id_again_gives_the_memo_that_is_there(app: RunningMemos) -> None:
    to, memo_id = address("ada"), str(uuid4())

    first = app.write(to, id=memo_id)
    again = app.service.post("/memos", document(to, "bob@example.com", id=memo_id))

    assert (again.status, again.body["id"], again.body["memo_number"]) == (200, memo_id, first["memo_number"])
    assert [each["recipient"] for each in again.body["messages"]] == [to]


def test_M2_keys_and_indexes_are_made_by_versions_that_can_be_run_again_and_taken_back(memos: Memos) -> None:
    url = url_of(memos.database)
    memos.prepare()
    check_schema(url)

    command.downgrade(alembic_config(url, MIGRATIONS), "base")
    engine = create_engine(driver_url(url))
    assert {"memos", "memo_messages", "memo_numbers"}.isdisjoint(inspect(engine).get_table_names())
    assert {"email_outbox", "outbox_history"}.isdisjoint(inspect(engine).get_view_names())
    assert "sendonce_events" in inspect(engine).get_table_names(), "what is not the application's stays"
    engine.dispose()

    memos.prepare()
    check_schema(url)
    assert memos.database.execute("select version_num from memo_email_versions") == [("0001",)]


async def test_M2_what_belongs_to_one_memo_is_found_by_its_indexes(memos: Memos) -> None:
    await memos.create(a_memo("ada@example.com"))
    asked = "select status from email_outbox where memo_id = ?"
    if isinstance(memos.database, SqliteDatabase):
        plan = [str(row[3]) for row in memos.database.execute(f"explain query plan {asked}", uuid4().hex)]
        assert not [step for step in plan if step.startswith("SCAN")], plan
        return
    with memos.database.connection() as connection:
        connection.execute("set local enable_seqscan = off")
        rows = connection.execute(f"explain {memos.database.spell(asked)}", [uuid4()]).fetchall()
    text = "\n".join(str(row[0]) for row in rows)
    assert "Seq Scan" not in text, text
    assert "ix_memo_messages_memo_id" in text


async def test_M3_key_is_memo_type_and_recipient_and_the_database_refuses_it_twice(memos: Memos) -> None:
    [memo_id] = await memos.create(a_memo("ada@example.com", "Ada@example.com", "ada@EXAMPLE.com", "ada@example.com"))

    keys = [row["idempotency_key"] for row in memos.rows()]
    assert keys == [f"{memo_id}/memo.created/{each}" for each in ("Ada@example.com", "ada@example.com")]
    columns = "version, content_digest, tenant, type, key, subject, payload, headers, created_at"
    with pytest.raises(REFUSED):
        memos.database.execute(f"insert into sendonce_events ({columns}) select {columns} from sendonce_events")
    with pytest.raises(REFUSED):
        memos.database.execute("insert into memo_messages select memo_id, memo_id, event_id from memo_messages")
    assert memos.count("email_outbox") == 2


async def test_M4_many_workers_take_the_oldest_first_in_bounded_batches_and_never_the_same(memos: Memos) -> None:
    for number in range(5):
        await memos.create(a_memo(*(f"m{number}r{each}@example.com" for each in range(4))))
    stores = [await memos.database.open() for _ in range(4)]

    first = await given_lease(stores[0], limit=3)
    rounds = await asyncio.gather(*(store.start(1, 3, HOLD) for _ in range(2) for store in stores))
    await memos.database.close()

    leases = [first, *(each.lease for each in rounds if each.lease is not None)]
    taken = [claim.delivery_id for lease in leases for claim in lease.claims]
    everything = [row["id"] for row in memos.database.rows("deliveries")]
    assert [claim.delivery_id for claim in first.claims] == everything[:3], "the oldest"
    assert max(len(lease.claims) for lease in leases) == 3
    assert len(taken) == len(set(taken)) >= 18
    assert memos.statuses().count("SENDING") == len(taken)


async def test_M4_what_others_have_locked_is_skipped_and_not_waited_for(memos: Memos) -> None:
    if not isinstance(memos.database, PostgresDatabase):
        pytest.skip("SQLite has one writer at a time, and no row locks")
    await memos.create(a_memo("a@example.com"))
    await memos.create(a_memo("b@example.com"))
    await memos.create(a_memo("c@example.com"))
    store = await memos.database.open()

    with psycopg.connect(memos.database.url) as one, psycopg.connect(memos.database.url) as other:
        assert [row[2] for row in one.execute(CLAIM, [1])] == ["a@example.com"], "the document's own statement"
        assert [row[2] for row in other.execute(CLAIM, [1])] == ["b@example.com"]
        lease = await asyncio.wait_for(given_lease(store), SECONDS)
        assert [claim.destination for claim in lease.claims] == ["mailto:c@example.com"]
    await memos.database.close()


def test_M5_mail_that_is_being_sent_says_so_and_since_when(app: RunningMemos) -> None:
    to = address("slow")
    app.provider.control(slow="5s", path=f"mailto:{to}")

    memo = app.write(to)
    [mail] = memo["messages"]
    sending = app.until(mail["id"], "SENDING")

    assert sending["last_attempt_at"] >= memo["created_at"][:19]
    assert (sending["sent_at"], sending["retry_count"], sending["error_message"]) == (None, 0, None)
    assert app.until(mail["id"], "SENT")["last_attempt_at"] == sending["last_attempt_at"]


def test_M6_M8_mail_that_failed_and_then_went_is_sent_with_its_time_and_no_error(app: RunningMemos) -> None:
    to = address("grey")
    app.provider.control(mail_fail="451:first:2", path=f"mailto:{to}")

    [mail] = app.write(to)["messages"]
    sent = app.until(mail["id"], "SENT")

    assert (sent["retry_count"], sent["error_message"]) == (2, None)
    assert sent["sent_at"] >= sent["last_attempt_at"]
    assert len(app.arrived(to)) == 3


def test_M7_after_five_failures_it_is_failed_with_its_error_and_waits_for_an_operator(app: RunningMemos) -> None:
    to, other = address("full"), address("well")
    app.provider.control(mail_fail="452", path=f"mailto:{to}")

    memo = app.write(to, other)
    mails = {each["recipient"]: each["id"] for each in memo["messages"]}
    failed = app.until(mails[to], "FAILED")

    assert len(app.arrived(to)) == failed["retry_count"] == LIMIT
    assert "452" in failed["error_message"]
    listed = [each["id"] for each in app.service.get("/mails?status=FAILED&limit=500").body]
    assert mails[to] in listed
    assert app.until(mails[other], "SENT")["error_message"] is None


async def test_M8_status_goes_back_to_pending_by_a_replay(memos: Memos) -> None:
    await memos.create(a_memo("ada@example.com"))
    store = await memos.database.open()
    policy = Policy(max_attempts=2, jitter=0)
    seen = [memos.shown()]

    for _ in range(2):
        lease = await given_lease(store)
        seen.append(memos.shown())
        await settle_with(store, lease, Failed("451", "mailbox full"), policy)
        await store.release([lease.id])
        seen.append(memos.shown())
        memos.database.execute(
            "update sendonce_deliveries set next_attempt_at = updated_at where status = 'PendingRetry'"
        )
    before = memos.row()
    async with Admin.aopen(url_of(memos.database), operator="ada") as admin:
        [delivery] = await admin.adeliveries()
        await admin.areplay([delivery.id], reason="the mailbox has room again")
    seen.append(memos.shown())
    lease = await given_lease(store)
    await settle_with(store, lease, Delivered("m-1"), policy)
    seen.append(memos.shown())
    await memos.database.close()

    assert seen == [
        ("PENDING", 0, None),
        ("SENDING", 0, None),
        ("PENDING", 1, "451: mailbox full"),
        ("SENDING", 1, "451: mailbox full"),
        ("FAILED", 2, "451: mailbox full"),
        ("PENDING", 0, None),
        ("SENT", 0, None),
    ]
    after = memos.row()
    assert (after["id"], after["idempotency_key"]) == (before["id"], before["idempotency_key"])
    assert after["sent_at"] is not None
    assert memos.count("outbox_history") == 2


def test_M9_address_of_a_failed_mail_is_corrected_and_what_was_before_is_kept(app: RunningMemos) -> None:
    wrong, right = address("nobody"), address("nora")
    app.provider.control(mail_fail="550", path=f"mailto:{wrong}")
    [mail] = app.write(wrong)["messages"]
    failed = app.until(mail["id"], "FAILED")

    app.act(mail["id"], "correct", recipient_email=right, body="Dear Nora")
    sent = app.until(mail["id"], "SENT")

    assert (sent["recipient"], sent["body"], sent["subject"]) == (right, "Dear Nora", failed["subject"])
    assert sent["idempotency_key"] == failed["idempotency_key"]
    assert sent["history"] == [{name: value for name, value in failed.items() if name != "history"}]
    [arrival] = app.arrived(right)
    assert "Dear Nora" in arrival["body"]
    again = app.service.post(f"/mails/{mail['id']}/correct", {"operator": "ada", "reason": "x", "body": "y"})
    assert again.status == 409, "it was sent"
    assert again.body == {"error": "this mail is SENT; only one that is FAILED can be corrected"}
    log = app.database.rows("operations")[-1]
    assert (log["kind"], log["operator"], log["reason"]) == ("correct", "ada", "she has moved")


def test_M9_M14_replay_sends_the_same_mail_under_the_same_token_and_a_correction_has_its_own(
    app: RunningMemos,
) -> None:
    to = address("full")
    app.provider.control(mail_fail="552", path=f"mailto:{to}")
    [mail] = app.write(to)["messages"]
    app.until(mail["id"], "FAILED")

    app.act(mail["id"], "replay")
    until(lambda: len(app.mail(mail["id"])["history"]) == 1, "the replay")
    app.until(mail["id"], "FAILED")
    app.provider.control(mail_fail=None, path=f"mailto:{to}")
    app.act(mail["id"], "correct", subject="Budget, shorter")
    sent = app.until(mail["id"], "SENT")

    first, second, third = app.arrived(to)
    assert first["body"] == second["body"] != third["body"]
    tokens = [each["headers"]["idempotency-key"] for each in (first, second, third)]
    assert tokens[0] == tokens[1] != tokens[2]
    assert all(
        token in each["headers"]["message-id"] for token, each in zip(tokens, (first, second, third), strict=True)
    )
    assert [each["status"] for each in sent["history"]] == ["FAILED", "FAILED"]
    refused = app.service.post(f"/mails/{mail['id']}/replay", {"operator": "ada", "reason": "again"})
    assert refused.status == 409, "what was sent is not sent again by mistake"
    assert refused.body == {"error": "this mail was sent; give even_if_sent as true to send it all the same"}


async def test_M10_application_writes_memos_and_mails_but_no_state_and_others_no_memos(
    granted: tuple[Memos, str, str],
) -> None:
    memos, as_app, as_orchestrator = granted

    await Memos(PostgresDatabase(as_app)).create(a_memo("ada@example.com"))

    assert PostgresDatabase(as_app).execute("select status from email_outbox") == [("PENDING",)]
    for url, forbidden in [
        (as_app, "update sendonce_deliveries set status = 'Completed'"),
        (as_app, "delete from sendonce_events"),
        (as_app, "delete from memos"),
        (as_orchestrator, "insert into memo_numbers (prefix, last) values ('X', 1)"),
        (as_orchestrator, "delete from sendonce_deliveries"),
    ]:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            PostgresDatabase(url).execute(forbidden)
    assert memos.statuses() == ["PENDING"]


async def test_M11_worker_runs_on_a_timer_and_for_long_and_in_several_replicas(
    memos: Memos, shared_provider: Provider
) -> None:
    shared_provider.clear()
    await memos.create(a_memo("ada@example.com"))
    with worker(memos, shared_provider, "--until-idle") as timer:
        assert timer.ended() == 0
    assert memos.statuses() == ["SENT"]

    with worker(memos, shared_provider) as one, worker(memos, shared_provider) as two:
        until(lambda: one.count("slots") and two.count("slots"), "both workers to have begun")
        for number in range(4):
            await memos.create(a_memo(*(f"m{number}r{each}@example.com" for each in range(10))))
        until(lambda: set(memos.statuses()) == {"SENT"}, "all mails")
        for each in (one, two):
            each.send(signal.SIGTERM)
            assert each.ended() == 0
    assert sorted(shared_provider.received().values()) == [1] * 41


async def test_M12_what_is_pending_and_failed_is_counted_and_too_many_failures_raise_an_alert(
    memos: Memos, shared_provider: Provider, tmp_path: Path
) -> None:
    bad = [address("nobody") for _ in range(3)]
    for each in bad:
        shared_provider.control(mail_fail="550", path=f"mailto:{each}")
    settings = tmp_path / "sendonce.toml"
    settings.write_text(SETTINGS.read_text() + "[alerts]\ndead_letters = 3\n")

    told = []
    for recipients in (bad[:2], bad[2:]):
        await memos.create(a_memo(*recipients))
        assert (await memos.glance()).due == len(recipients)
        with worker(memos, shared_provider, "--until-idle", settings=settings) as ended:
            assert ended.ended() == 0
        told.append(ended.count("alert dead_letters"))

    assert told == [0, 1]
    seen = await memos.glance()
    assert (seen.due, seen.dead_letters) == (0, 3)
    assert [each.name for each in seen.alerts] == ["dead_letters"]


def test_M13_what_was_sent_long_ago_is_archived_and_removed_and_what_failed_stays(
    app: RunningMemos, tmp_path: Path
) -> None:
    good, bad = address("ada"), address("nobody")
    app.provider.control(mail_fail="550", path=f"mailto:{bad}")
    memo = app.write(good, bad)
    mails = {each["recipient"]: each["id"] for each in memo["messages"]}
    app.until(mails[good], "SENT")
    app.until(mails[bad], "FAILED")

    pruned = run(
        "prune", "--payloads", "0s", "--history", "0s", "--keys", "0s", "--archive", str(tmp_path / "old.jsonl"),
        "--operator", "ada", "--reason", "a new year", "--yes", env={"SENDONCE_DATABASE": url_of(app.database)},
    )  # fmt: skip

    assert pruned.code == 0, pruned.err
    assert [each["recipient"] for each in app.service.get(f"/memos/{memo['id']}").body["messages"]] == [bad]
    assert good in (tmp_path / "old.jsonl").read_text()
    assert app.service.get(f"/mails/{mails[good]}").status == 404


def test_M15_chat_is_one_more_destination_and_a_table_of_the_settings(app: RunningMemos) -> None:
    to, room = address("ada"), f"room-{uuid4().hex[:8]}"

    memo = app.write(to, chat_room=room)
    until(lambda: {each["status"] for each in app.messages(memo)} == {"SENT"}, "mail and chat")

    [chat] = [each for each in app.provider.last() if each["path"] == f"/chat/{room}"]
    assert json.loads(chat["body"])["message"] == "Grüße, the budget is here."
    assert {(each["channel"], each["recipient"]) for each in app.messages(memo)} == {("mailto", to), ("chat", room)}
    assert [row["recipient_email"] for row in app.rows() if row["recipient_email"] in (to, room)] == [to]
