"""Everything that happens the ordinary way is consistent; and for each check there is something that only it finds."""

from collections.abc import Mapping, Sequence

import pytest

from sendonce.admin.verify import KEPT_IDS, Cursor
from sendonce.domain.emails import Email
from sendonce.errors import StoreError
from sendonce.store.ports import Store
from sendonce.store.verifying import Walk
from tests.given import given_event
from tests.store.aging import without_rules
from tests.store.databases import PostgresDatabase
from tests.verify.conftest import Scene
from tests.verify.plants import KEYS, PLANTS, plant
from tests.verify.scene import EVERY, MAIL, found, looked


async def test_verify_finds_nothing_where_everything_was_ordinary(store: Store) -> None:
    report = await looked(store)

    assert report.findings == {}
    assert {walk: amount > 0 for walk, amount in report.looked.items()} == dict.fromkeys(Walk, True)


@pytest.mark.parametrize("check", PLANTS)
async def test_fault_that_is_planted_is_found_by_its_check_and_no_other(scene: Scene, store: Store, check: str) -> None:
    planted = plant(scene.database, scene.ids, check)
    key_missing = {}
    if check in KEYS and not isinstance(scene.database, PostgresDatabase):
        key_missing = {"rules": [f"index {KEYS[check]} on sendonce_deliveries is missing"]}

    assert await found(store) == {check: [planted], **key_missing}


def test_check_has_something_planted_for_it() -> None:
    assert {*PLANTS, "rules", "counters"} == set(EVERY)


@pytest.mark.parametrize("kind", ["trigger", "index"])
async def test_rule_that_is_missing_is_named(scene: Scene, store: Store, kind: str) -> None:
    name = {"trigger": "open_deliveries_stay", "index": "sendonce_deliveries_due"}[kind]
    on_table = " on sendonce_deliveries" if kind == "trigger" and isinstance(scene.database, PostgresDatabase) else ""
    scene.database.execute(f"drop {kind} {name}{on_table}")

    assert await found(store) == {"rules": [f"{kind} {name} on sendonce_deliveries is missing"]}


async def test_trigger_that_is_switched_off_and_a_key_that_is_gone_are_named(on_postgres: Scene) -> None:
    database = on_postgres.database
    database.execute("alter table sendonce_events disable trigger events_are_immutable")
    database.execute("alter table sendonce_dead_letters drop constraint sendonce_dead_letters_delivery_id_key")
    store = await database.open()

    finding = (await looked(store)).findings["rules"]

    await database.close()
    assert finding.found == [
        "constraint sendonce_dead_letters_delivery_id_key on sendonce_dead_letters is missing",
        "trigger events_are_immutable on sendonce_events is disabled",
    ]
    assert "alter table sendonce_events enable trigger events_are_immutable; " in finding.to_do


async def test_index_that_is_not_valid_is_to_be_made_again(on_postgres: Scene) -> None:
    database = on_postgres.database
    database.execute("update pg_index set indisvalid = false where indexrelid = 'sendonce_deliveries_due'::regclass")
    store = await database.open()

    finding = (await looked(store)).findings["rules"]

    await database.close()
    assert finding.found == ["index sendonce_deliveries_due on sendonce_deliveries is not valid"]
    assert finding.to_do.startswith("reindex index sendonce_deliveries_due; ")


HARMLESS = [
    "create or replace function sendonce_forbid() returns trigger language plpgsql as $$ begin return null; end $$",
    "create or replace trigger events_are_immutable after update on sendonce_events for each row when (false)"
    " execute function sendonce_forbid()",
    "create or replace trigger open_deliveries_stay after delete on sendonce_deliveries for each row"
    " when (old.status not in ('Completed', 'DeadLettered') and false) execute function sendonce_forbid()",
    "create or replace trigger open_dead_letters_stay after delete on sendonce_dead_letters for each row"
    " when (old.closed_at is not null) execute function sendonce_forbid()",
    "create or replace trigger requests_are_immutable after delete on sendonce_requests for each row"
    " execute function sendonce_forbid()",
]


@pytest.mark.parametrize("statement", HARMLESS)
async def test_rule_that_was_made_harmless_is_named_on_postgres(on_postgres: Scene, statement: str) -> None:
    database = on_postgres.database
    database.execute(statement)
    store = await database.open()

    [rule] = (await found(store))["rules"]

    await database.close()
    assert str(rule).split()[1] in statement
    assert str(rule).endswith("is changed")


async def test_rule_that_was_made_harmless_is_named_on_sqlite(on_sqlite: Scene) -> None:
    database = on_sqlite.database
    database.execute("drop trigger open_deliveries_stay")
    database.execute("create trigger open_deliveries_stay before delete on sendonce_deliveries begin select 1; end")
    store = await database.open()

    rules = (await found(store))["rules"]

    await database.close()
    assert rules == ["trigger open_deliveries_stay on sendonce_deliveries is changed"]


async def test_table_that_is_missing_is_named_and_nothing_else_is_looked_at(scene: Scene, store: Store) -> None:
    scene.database.execute("drop table sendonce_corrections")

    with pytest.raises(StoreError, match=r"table sendonce_corrections is missing; restore it from a backup"):
        await looked(store)


async def test_content_that_an_open_delivery_needs_is_missed(scene: Scene, store: Store) -> None:
    event_id = given_event(scene.database, to=[MAIL])
    with without_rules(scene.database) as connection:
        connection.execute(f"update sendonce_contents set content = null where event_id = {event_id}")

    assert await found(store) == {"payloads": [event_id]}


CHANGES = {
    "subject": "update sendonce_events set subject = 'other' where id = {event}",
    "version": "update sendonce_events set version = 9 where id = {event}",
    "content": "update sendonce_contents set content = '[]' where event_id = {event}",
    "destination": "update sendonce_deliveries set destination = 'null:x' where destination = 'null:z'",
}


@pytest.mark.parametrize("change", CHANGES)
async def test_event_is_compared_with_what_it_was_recorded_with(scene: Scene, store: Store, change: str) -> None:
    mail = Email("eve@example.com", subject="Où ?", text="Chère Ève")
    event_id = given_event(
        scene.database, to=["null:z", mail, "null:é"], payload={"où": "là"}, subject="mémo", version=3
    )

    assert await found(store) == {}
    with without_rules(scene.database) as connection:
        connection.execute(CHANGES[change].format(event=event_id))

    assert await found(store) == {"digests": [event_id]}


@pytest.mark.parametrize("counter", ["completed", "dead_lettered"])
async def test_row_that_was_counted_and_is_missing_is_found(scene: Scene, store: Store, counter: str) -> None:
    scene.database.execute("update sendonce_counters set amount = amount + 1 where name = ?", counter)

    [said] = (await found(store))["counters"]

    assert str(said).startswith(counter)


async def test_counts_may_be_higher_where_an_older_version_has_removed_some(scene: Scene, store: Store) -> None:
    scene.database.execute("update sendonce_counters set name = 'removed_uncounted' where name = 'retried'")
    scene.database.execute("update sendonce_counters set amount = amount + 1 where name = 'completed'")

    assert await found(store) == {}


async def test_event_that_nobody_has_counted_the_deliveries_of_is_not_wrong(scene: Scene, store: Store) -> None:
    with without_rules(scene.database) as connection:
        connection.execute("update sendonce_events set routed = null")
        connection.execute("delete from sendonce_deliveries where status = 'Pending' and attempt_count = 0")

    report = await looked(store)

    assert report.findings == {}
    assert "events cannot be compared with their deliveries yet" in report.notes[0]


async def test_row_that_is_there_and_was_not_counted_is_found(scene: Scene, store: Store) -> None:
    with without_rules(scene.database) as connection:
        an_hour = "interval '1 hour'" if isinstance(scene.database, PostgresDatabase) else "3600000000"
        for table, column in (("deliveries", "updated_at"), ("deliveries", "created_at"), ("attempts", "finished_at")):
            connection.execute(f"update sendonce_{table} set {column} = {column} - {an_hour}")
        connection.execute(f"update sendonce_dead_letters set created_at = created_at - {an_hour}")
        connection.execute("delete from sendonce_counters where name = 'completed'")

    assert list(await found(store)) == ["counters"]


async def test_finding_that_is_gone_a_moment_later_is_not_reported(
    scene: Scene, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(scene.database, scene.ids, "parked")
    look_again = store.inspect_again

    async def mend_and_look(checks: Sequence[str], after: int, upto: int) -> Mapping[str, Sequence[int]]:
        await store.stop("tenant", "acme", operator="ada", reason=None)
        return await look_again(checks, after, upto)

    monkeypatch.setattr(store, "inspect_again", mend_and_look)

    assert await found(store) == {}


async def test_run_goes_on_where_another_has_ended(scene: Scene, store: Store) -> None:
    early = plant(scene.database, scene.ids, "outcomes")
    late = plant(scene.database, scene.ids, "doubt")

    report = await looked(store, since=Cursor(Walk.DELIVERIES, early))

    assert {name: each.found for name, each in report.findings.items()} == {"doubt": [late]}
    assert Walk.EVENTS not in report.looked
    assert "whole run" in report.notes[0]


async def test_finding_keeps_only_some_of_many_ids(scene: Scene, store: Store) -> None:
    with without_rules(scene.database) as connection:
        for number in range(KEPT_IDS + 5):
            connection.execute(
                "insert into sendonce_attempts (delivery_id, lease_id, created_at, attempt, status)"
                f" select {900_000 + number}, lease_id, created_at, 1, 'Leased' from sendonce_attempts limit 1"
            )

    finding = (await looked(store)).findings["history"]

    assert len(finding.found) == KEPT_IDS
    assert finding.is_more
