"""What the database itself refuses, whoever asks: raw SQL past the store."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from sendonce.domain.deliveries import ALLOWED, DeliveryState
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Delivered, Failed, Refused
from sendonce.store.ports import Store
from tests.given import given_delivery_in, given_due_delivery, given_event, given_lease, settle_with
from tests.store.databases import REFUSED, Database, PostgresDatabase

MOVES = [(old, new) for old in DeliveryState for new in DeliveryState if old is not new]
LETTER = Email("ada@example.com", subject="Hello", text="Dear Ada")
FINAL = [state for state in DeliveryState if state.is_final]
COPY = (
    "insert into sendonce_deliveries (event_id, destination, destination_hash, generation, status, created_at,"
    " updated_at, next_attempt_at) select event_id, destination, destination_hash, ?, ?, created_at, updated_at,"
    " {due} from sendonce_deliveries where id = ?"
)
COPY_ATTEMPT = (
    "insert into sendonce_attempts (delivery_id, attempt, lease_id, status, created_at)"
    " select delivery_id, ?, lease_id, ?, created_at from sendonce_attempts where delivery_id = ? and attempt = 1"
)


OPENED = (
    "insert into sendonce_attempts (delivery_id, attempt, lease_id, status, created_at)"
    " select id, attempt_count + 1, 1, 'Leased', created_at from sendonce_deliveries"
)
CLOSED = (
    "update sendonce_attempts set status = 'Failed', outcome = 'Failed', finished_at = created_at where outcome is null"
)
ENDED = "update sendonce_deliveries set status = 'DeadLettered', next_attempt_at = null, parked_on = null"
ON_POSTGRES = {
    "{hour}": "interval '1 hour'",
    "{bool}": "true",
    "{no}": "false",
    "{hash}": "gen_random_uuid()",
    "{not} ": "not ",
}
ON_SQLITE = {"{hour}": "3600000000", "{bool}": "1", "{no}": "0", "{hash}": "randomblob(16)", "{not} ": "1 - "}


def other(database: Database, value: str) -> str:
    """An expression as the database spells it."""
    for name, spelled in (ON_POSTGRES if isinstance(database, PostgresDatabase) else ON_SQLITE).items():
        value = value.replace(name, spelled)
    return value


def together(database: Database, first: str, then: str) -> None:
    """Two changes that are seen as one: in one statement, or where that cannot be, in one transaction."""
    if isinstance(database, PostgresDatabase):
        database.execute(f"with f as ({first}) {then}")
        return
    with database.connection() as connection:
        connection.execute(first)
        connection.execute(then)


def moving(to: DeliveryState) -> str:
    """The change of a delivery's state, with all that the state brings along."""
    due = "created_at" if to in (DeliveryState.PENDING, DeliveryState.PENDING_RETRY) else "null"
    sent = "notified_at" if to is DeliveryState.COMPLETED else "null"
    return (
        f"update sendonce_deliveries set status = '{to.value}', next_attempt_at = {due}, parked_on = null,"
        f" notified_at = {sent}"
    )


@pytest.mark.parametrize(("old", "new"), [pair for pair in MOVES if pair[1] not in ALLOWED[pair[0]]])
async def test_W5_move_that_is_not_drawn_is_refused(
    database: Database, store: Store, old: DeliveryState, new: DeliveryState
) -> None:
    await given_delivery_in(database, store, old)
    before = database.rows("deliveries")

    with pytest.raises(REFUSED, match=r"move_as_drawn|are_frozen|move_with_their_attempt"):
        database.execute(moving(new))

    assert database.rows("deliveries") == before


@pytest.mark.parametrize(("old", "new"), [pair for pair in MOVES if pair[1] in ALLOWED[pair[0]]])
async def test_W5_move_that_is_drawn_is_possible(
    database: Database, store: Store, old: DeliveryState, new: DeliveryState
) -> None:
    await given_delivery_in(database, store, old)

    if new is DeliveryState.IN_PROGRESS:
        together(database, OPENED, moving(new))
    elif old is DeliveryState.IN_PROGRESS:
        together(database, CLOSED, moving(new))
    else:
        database.execute(moving(new))

    assert database.one("select status from sendonce_deliveries") == new.value


BETWEEN = [(old, new) for old, new in MOVES if new in ALLOWED[old] and DeliveryState.IN_PROGRESS in (old, new)]


@pytest.mark.parametrize(("old", "new"), BETWEEN)
async def test_W5_delivery_is_in_progress_exactly_as_long_as_it_has_an_open_attempt(
    database: Database, store: Store, old: DeliveryState, new: DeliveryState
) -> None:
    await given_delivery_in(database, store, old)
    before = database.rows("deliveries"), database.rows("attempts")

    with pytest.raises(REFUSED, match="move_with_their_attempt"):
        database.execute(moving(new))

    assert (database.rows("deliveries"), database.rows("attempts")) == before


# What one statement makes of a delivery that is being sent and of one that waits.
TOGETHER = [
    ("InProgress", "InProgress", False),
    ("PendingRetry", "Pending", False),
    ("PendingRetry", "InProgress", False),  # as many are in progress as before, and as many attempts are open
    ("InProgress", "Pending", True),
]


@pytest.mark.parametrize(("sent", "waiting", "is_allowed"), TOGETHER)
async def test_W5_deliveries_moved_by_one_statement_go_with_their_attempts_each(
    database: Database, store: Store, sent: str, waiting: str, is_allowed: bool
) -> None:
    being_sent = await given_delivery_in(database, store, DeliveryState.IN_PROGRESS)
    given_due_delivery(database)
    before = database.rows("deliveries"), database.rows("attempts")
    change = (
        f"update sendonce_deliveries set status = case id when {being_sent} then '{sent}' else '{waiting}' end,"
        f" next_attempt_at = case case id when {being_sent} then '{sent}' else '{waiting}' end"
        " when 'InProgress' then null else created_at end"
    )

    if is_allowed:
        database.execute(change)
        return
    with pytest.raises(REFUSED, match="move_with_their_attempt"):
        database.execute(change)

    assert (database.rows("deliveries"), database.rows("attempts")) == before


@pytest.mark.parametrize("outcome", [Delivered("n-1"), Refused("410")])
async def test_W8_what_has_ended_gets_no_other_attempt(
    database: Database, store: Store, outcome: Delivered | Refused
) -> None:
    given_due_delivery(database)
    await settle_with(store, await given_lease(store), outcome)

    for status in ("Leased", "Pending"):
        with pytest.raises(REFUSED):
            database.execute(OPENED.replace("Leased", status))

    assert len(database.rows("attempts")) == 1


@pytest.mark.parametrize("state", FINAL)
async def test_W15_finished_delivery_refuses_any_update_of_any_column(
    database: Database, store: Store, state: DeliveryState
) -> None:
    delivery_id = await given_delivery_in(database, store, state)
    [before] = database.rows("deliveries")

    for column in before:
        with pytest.raises((*REFUSED, psycopg.errors.GeneratedAlways)):
            database.execute(f"update sendonce_deliveries set {column} = {column} where id = ?", delivery_id)

    assert database.rows("deliveries") == [before]
    assert len(before) > 20


OTHER = {
    "id": "99",
    "event_id": "1000000",
    "subscription_id": "7",
    "destination": "'null:other'",
    "destination_hash": "{hash}",
    "has_content": "{not} has_content",
    "generation": "5",
    "corrections": "5",
    "attempt_count": "0",
}
# What changes while a delivery is open; when it was recorded says nothing of what it is.
CHANGING = {
    "created_at", "next_attempt_at", "updated_at", "notified_at", "expires_at", "proven_at", "not_before", "in_doubt",
    "doubted_by", "put_off_since", "deferred_count", "status", "if_unsure", "parked_on", "final_error_code",
    "notification_id",
}  # fmt: skip


@pytest.mark.parametrize("column", OTHER)
async def test_open_delivery_keeps_its_identity_and_its_count(database: Database, store: Store, column: str) -> None:
    await given_delivery_in(database, store, DeliveryState.PENDING_RETRY)

    with pytest.raises((*REFUSED, psycopg.errors.GeneratedAlways), match=r"keep_their_identity|can only be updated"):
        database.execute(f"update sendonce_deliveries set {column} = {other(database, OTHER[column])}")


async def test_column_of_a_delivery_is_kept_or_said_to_change(database: Database, store: Store) -> None:
    await given_delivery_in(database, store, DeliveryState.PENDING)

    assert OTHER.keys() | CHANGING == database.rows("deliveries")[0].keys()


@pytest.mark.parametrize("subscription_id", ["null", "2"])
async def test_W2_delivery_of_a_subscription_stays_its_own(
    database: Database, store: Store, subscription_id: str
) -> None:
    await store.add_subscription(
        tenant="", types=["*"], destination="null:hook", policy=None, description=None, operator="ada"
    )
    given_event(database)

    with pytest.raises(REFUSED, match="keep_their_identity"):
        database.execute(f"update sendonce_deliveries set subscription_id = {subscription_id}")


SECOND = (
    "insert into sendonce_deliveries (event_id, subscription_id, created_at, updated_at, next_attempt_at, destination,"
    " destination_hash) select event_id, {subscription}, created_at, updated_at, created_at, {destination}, {hash}"
    " from sendonce_deliveries"
)
SECOND_ONES = [
    {"destination": "destination", "hash": "{hash}"},
    {"destination": "destination", "hash": "destination_hash"},
    {"destination": "'subscription:2'", "hash": "{hash}"},
    {"destination": "'null:a'", "hash": "{hash}"},
]


@pytest.mark.parametrize("changed", SECOND_ONES)
async def test_W2_R7_event_gets_one_delivery_for_each_place_whatever_its_hash_says(
    database: Database, store: Store, changed: dict[str, str]
) -> None:
    """Nothing but the hash of its destination stands for that in the unique key."""
    await store.add_subscription(
        tenant="", types=["*"], destination="null:hook", policy=None, description=None, operator="ada"
    )
    given_event(database)

    with pytest.raises(REFUSED):
        database.execute(other(database, SECOND.format(subscription="subscription_id", **changed)))

    assert len(database.rows("deliveries")) == 1


async def test_W2_named_destination_is_recorded_once_whatever_its_hash_says(database: Database, store: Store) -> None:
    given_due_delivery(database)

    with pytest.raises(REFUSED):
        database.execute(other(database, SECOND.format(subscription="null", destination="destination", hash="{hash}")))


@pytest.mark.parametrize("to", ["null:a", "null:é", "null:" + "a" * 200, "https://example.com/%7Euser?q=%C3%A9"])
async def test_W2_hash_of_a_destination_is_the_same_here_and_there(database: Database, store: Store, to: str) -> None:
    """What we record is not refused, whatever it is spelled with."""
    delivery_id = given_due_delivery(database, to=to)

    assert database.one("select count(*) from sendonce_deliveries where id = ?", delivery_id) == 1


OTHER_OPEN_ATTEMPT = {
    "delivery_id": "99",
    "attempt": "9",
    "lease_id": "lease_id + 1",
    "created_at": "created_at + {hour}",
}


@pytest.mark.parametrize("column", OTHER_OPEN_ATTEMPT)
async def test_W8_open_attempt_keeps_its_identity(database: Database, store: Store, column: str) -> None:
    await given_delivery_in(database, store, DeliveryState.IN_PROGRESS)

    with pytest.raises(REFUSED, match="open_attempts_keep_their_identity"):
        database.execute(f"update sendonce_attempts set {column} = {other(database, OTHER_OPEN_ATTEMPT[column])}")


OPEN = [state for state in DeliveryState if not state.is_final]


@pytest.mark.parametrize("state", OPEN)
async def test_R10_id_that_nobody_has_asked_about_comes_with_doubt(
    database: Database, store: Store, state: DeliveryState
) -> None:
    await given_delivery_in(database, store, state)

    with pytest.raises(REFUSED, match="ids_come_with_doubt"):
        database.execute("update sendonce_deliveries set notification_id = 'n-7'")
    database.execute(other(database, "update sendonce_deliveries set notification_id = 'n-7', in_doubt = {bool}"))

    assert database.one("select notification_id from sendonce_deliveries") == "n-7"


async def test_R10_generation_that_begins_with_an_id_begins_in_doubt(database: Database, store: Store) -> None:
    await given_delivery_in(database, store, DeliveryState.COMPLETED)
    begun = (
        "insert into sendonce_deliveries (event_id, destination, destination_hash, generation, created_at, updated_at,"
        " next_attempt_at, notification_id, in_doubt) select event_id, destination, destination_hash, 1, created_at,"
        " updated_at, created_at, 'n-1', {doubt} from sendonce_deliveries"
    )

    with pytest.raises(REFUSED, match=r"ids_(come|begin)_with_doubt"):
        database.execute(other(database, begun.replace("{doubt}", "{no}")))
    database.execute(other(database, begun.replace("{doubt}", "{bool}")))


@pytest.mark.parametrize("state", [DeliveryState.PENDING, DeliveryState.PENDING_RETRY])
async def test_R10_doubt_is_cleared_by_the_result_of_an_attempt_and_proof_stays(
    database: Database, store: Store, state: DeliveryState
) -> None:
    await given_delivery_in(database, store, state)
    database.execute(other(database, "update sendonce_deliveries set in_doubt = {bool}, proven_at = created_at"))

    for change in ("in_doubt = {no}", "proven_at = null", "proven_at = created_at + {hour}", "doubted_by = 1"):
        with pytest.raises(REFUSED, match="doubt_is_sticky"):
            database.execute(other(database, f"update sendonce_deliveries set {change}"))


@pytest.mark.parametrize("state", [state for state in DeliveryState if not state.is_final])
async def test_open_delivery_cannot_be_deleted(database: Database, store: Store, state: DeliveryState) -> None:
    delivery_id = await given_delivery_in(database, store, state)

    with pytest.raises(REFUSED, match="open_deliveries_stay"):
        database.execute("delete from sendonce_deliveries where id = ?", delivery_id)


@pytest.mark.parametrize("state", FINAL)
async def test_finished_delivery_can_be_pruned(database: Database, store: Store, state: DeliveryState) -> None:
    delivery_id = await given_delivery_in(database, store, state)

    database.execute("delete from sendonce_deliveries where id = ?", delivery_id)

    assert database.rows("deliveries") == []


@pytest.mark.parametrize("state", [state for state in DeliveryState if not state.is_final])
async def test_next_generation_is_refused_while_the_old_one_is_live(
    database: Database, store: Store, state: DeliveryState
) -> None:
    delivery_id = await given_delivery_in(database, store, state)

    with pytest.raises(REFUSED, match="generation"):
        database.execute(COPY.format(due="created_at"), 1, "Pending", delivery_id)


@pytest.mark.parametrize("generation", [0, 2, -1])
async def test_generation_is_followed_by_the_very_next_one_only(
    database: Database, store: Store, generation: int
) -> None:
    delivery_id = await given_delivery_in(database, store, DeliveryState.COMPLETED)

    with pytest.raises(REFUSED):
        database.execute(COPY.format(due="created_at"), generation, "Pending", delivery_id)
    database.execute(COPY.format(due="created_at"), 1, "Pending", delivery_id)
    with pytest.raises(REFUSED):
        database.execute(COPY.format(due="created_at"), 1, "Pending", delivery_id)

    assert [row["generation"] for row in database.rows("deliveries")] == [0, 1]


@pytest.mark.parametrize("status", ["InProgress", "PendingRetry", "DeadLettered", "Nonsense"])
async def test_delivery_begins_pending(database: Database, store: Store, status: str) -> None:
    delivery_id = await given_delivery_in(database, store, DeliveryState.COMPLETED)
    due = "created_at" if status == "PendingRetry" else "null"

    with pytest.raises(REFUSED):
        database.execute(COPY.format(due=due), 1, status, delivery_id)


@pytest.mark.parametrize("status", ["Pending", "Leased"])
async def test_W8_second_active_attempt_is_refused(database: Database, store: Store, status: str) -> None:
    delivery_id = given_due_delivery(database)
    await given_lease(store)

    for attempt in (1, 2, 3):
        with pytest.raises(REFUSED):
            database.execute(COPY_ATTEMPT, attempt, status, delivery_id)

    assert len(database.rows("attempts")) == 1


async def test_W8_next_attempt_is_possible_when_the_last_has_ended(database: Database, store: Store) -> None:
    delivery_id = await given_delivery_in(database, store, DeliveryState.PENDING_RETRY)

    with pytest.raises(REFUSED):
        database.execute(COPY_ATTEMPT, 3, "Leased", delivery_id)
    together(database, OPENED, moving(DeliveryState.IN_PROGRESS))

    assert {row["attempt"] for row in database.rows("attempts")} == {1, 2}


@pytest.mark.parametrize("outcome", [Delivered("n-1"), Failed("503")])
async def test_W8_finished_attempt_refuses_any_update_of_any_column(
    database: Database, store: Store, outcome: Delivered | Failed
) -> None:
    given_due_delivery(database)
    await settle_with(store, await given_lease(store), outcome)
    [before] = database.rows("attempts")

    for column in before:
        with pytest.raises(REFUSED, match="finished_attempts_are_frozen"):
            database.execute(f"update sendonce_attempts set {column} = {column}")

    assert database.rows("attempts") == [before]


OTHER_ATTEMPT = {
    "delivery_id": "delivery_id + 1",
    "lease_id": "lease_id + 1",
    "created_at": "created_at + {hour}",
    "finished_at": "finished_at + {hour}",
    "attempt": "attempt + 1",
    "status": "'Failed'",
    "outcome": "'Accepted'",
    "error_code": "'forged'",
    "notification_id": "'forged'",
    "response": "'forged'",
    "error_message": "'forged'",
}


@pytest.mark.parametrize("column", OTHER_ATTEMPT)
async def test_W8_erasure_takes_the_words_from_an_attempt_and_nothing_else(
    database: Database, store: Store, column: str
) -> None:
    given_due_delivery(database)
    await settle_with(store, await given_lease(store), Delivered("n-1", response="thank you"))
    erasing = "" if column == "response" else "response = null, "

    with pytest.raises(REFUSED, match="finished_attempts_are_frozen"):
        database.execute(f"update sendonce_attempts set {erasing}{column} = {other(database, OTHER_ATTEMPT[column])}")
    database.execute("update sendonce_attempts set response = null")

    assert database.one("select response from sendonce_attempts") is None


async def test_event_refuses_any_update_of_any_column(database: Database, store: Store) -> None:
    given_due_delivery(database, subject="memo 1", headers={"a": "b"}, version=3)
    [before] = database.rows("events")

    for column in before:
        with pytest.raises((*REFUSED, psycopg.errors.GeneratedAlways)):
            database.execute(f"update sendonce_events set {column} = {column}")

    assert database.rows("events") == [before]


async def test_payload_may_be_blanked_once_and_nothing_else_with_it(database: Database, store: Store) -> None:
    given_due_delivery(database, subject="memo 1", headers={"a": "b"})
    database.execute(ENDED)
    [before] = database.rows("events")

    for change in ("key = 'other'", "type = 'other'", "tenant = 'other'", "subject = 'x'", "headers = 'x'"):
        with pytest.raises(REFUSED):
            database.execute(f"update sendonce_events set payload = null, content_gone_at = created_at, {change}")
    database.execute("update sendonce_events set payload = null, content_gone_at = created_at")
    [after] = database.rows("events")
    for again in ("null", "'{}'"):
        with pytest.raises(REFUSED):
            database.execute(f"update sendonce_events set payload = {again}")

    assert after == {**before, "payload": None, "content_gone_at": before["created_at"]}
    assert database.rows("events") == [after]


OTHER_EVENT = {
    "id": "99",
    "version": "7",
    "created_at": "created_at + {hour}",
    "content_digest": "(select content_digest from sendonce_events where key = 'other')",
    "tenant": "'other'",
    "type": "'other'",
    "key": "'another'",
}


@pytest.mark.parametrize("column", OTHER_EVENT)
async def test_event_keeps_what_it_says_of_itself_without_its_content(
    database: Database, store: Store, column: str
) -> None:
    given_due_delivery(database, key="memo-1", version=3)
    given_due_delivery(database, key="other", payload={"memo": 2})
    database.execute(ENDED)
    changed = f"{column} = {other(database, OTHER_EVENT[column])}"

    for blanked in ("payload = null, content_gone_at = created_at", "history_gone_at = created_at"):
        with pytest.raises((*REFUSED, psycopg.errors.GeneratedAlways)):
            database.execute(f"update sendonce_events set {blanked}, {changed} where key = 'memo-1'")


@pytest.mark.parametrize("column", ["content_gone_at", "history_gone_at"])
async def test_time_of_removal_is_written_once(database: Database, store: Store, column: str) -> None:
    given_due_delivery(database, subject="memo 1", headers={"a": "b"})
    database.execute(f"update sendonce_events set {column} = created_at")

    for value in ("created_at", "null", other(database, "created_at + {hour}")):
        with pytest.raises(REFUSED, match="events_are_immutable"):
            database.execute(f"update sendonce_events set {column} = {value}")


async def test_content_of_its_own_may_be_blanked_once_and_nothing_else(database: Database, store: Store) -> None:
    given_due_delivery(database, to=LETTER)
    database.execute(ENDED)

    for change in ("content = '{}'", "content = content", "content = null, corrections = 1", "corrections = 1"):
        with pytest.raises(REFUSED, match="contents_are_immutable"):
            database.execute(f"update sendonce_contents set {change}")
    database.execute("update sendonce_contents set content = null")
    for again in ("null", "'{}'"):
        with pytest.raises(REFUSED, match="contents_are_immutable"):
            database.execute(f"update sendonce_contents set content = {again}")


@pytest.mark.parametrize("column", ["payload", "headers", "subject"])
@pytest.mark.parametrize("state", OPEN)
async def test_content_of_an_open_delivery_stays(
    database: Database, store: Store, state: DeliveryState, column: str
) -> None:
    await given_delivery_in(database, store, state, subject="memo 1", headers={"a": "b"})
    blank = f"update sendonce_events set {column} = null, content_gone_at = created_at"

    with pytest.raises(REFUSED, match="open_payloads_stay"):
        database.execute(blank)
    if state is DeliveryState.IN_PROGRESS:
        together(database, CLOSED, ENDED)
    else:
        database.execute(ENDED)
    database.execute(blank)

    assert database.one(f"select {column} from sendonce_events") is None


async def test_payload_alone_goes_where_an_open_delivery_has_its_content(database: Database, store: Store) -> None:
    given_due_delivery(database, to=LETTER, subject="memo 1", headers={"a": "b"})

    for blank in (
        "update sendonce_contents set content = null",
        "update sendonce_events set headers = null, content_gone_at = created_at",
        "update sendonce_events set payload = null, subject = null, content_gone_at = created_at",
    ):
        with pytest.raises(REFUSED, match=r"open_(payloads_stay|contents_are_kept)"):
            database.execute(blank)
    database.execute("update sendonce_events set payload = null, content_gone_at = created_at")

    assert (await given_lease(store)).claims[0].content is not None


@pytest.mark.parametrize("column", ["payload", "headers", "subject"])
async def test_content_is_never_removed_without_the_time(database: Database, store: Store, column: str) -> None:
    given_due_delivery(database, subject="memo 1", headers={"a": "b"})
    database.execute(ENDED)

    with pytest.raises(REFUSED, match="events_are_immutable"):
        database.execute(f"update sendonce_events set {column} = null")


OTHER_LETTER = {
    "id": "99",
    "delivery_id": "99",
    "created_at": "created_at + {hour}",
    "reason": "'expired'",
    "error_code": "'200'",
    "error_message": "'forged'",
    "closed_by": "'somebody'",
}


@pytest.mark.parametrize("column", OTHER_LETTER)
async def test_dead_letter_is_never_edited(database: Database, store: Store, column: str) -> None:
    await given_delivery_in(database, store, DeliveryState.DEAD_LETTERED)
    closing = "" if column == "closed_by" else ", closed_at = created_at, closed_as = 'discarded'"

    for rest in {"", closing}:
        with pytest.raises((*REFUSED, psycopg.errors.GeneratedAlways)):
            database.execute(
                f"update sendonce_dead_letters set {column} = {other(database, OTHER_LETTER[column])}{rest}"
            )


async def test_dead_letter_is_closed_once(database: Database, store: Store) -> None:
    await given_delivery_in(database, store, DeliveryState.DEAD_LETTERED)

    database.execute(
        "update sendonce_dead_letters set closed_at = created_at, closed_as = 'discarded', closed_by = 'ada'"
    )
    later = other(database, "closed_at = created_at + {hour}")
    reopened = "closed_at = null, closed_as = null"
    for change in ("closed_as = 'requeued'", "closed_by = 'eve'", later, reopened, "reason = reason"):
        with pytest.raises(REFUSED, match="dead_letters_are_closed_once"):
            database.execute(f"update sendonce_dead_letters set {change}")

    [letter] = database.rows("dead_letters")
    assert (letter["closed_as"], letter["closed_by"]) == ("discarded", "ada")


async def test_erasure_takes_the_words_from_a_dead_letter_that_is_closed(database: Database, store: Store) -> None:
    await given_delivery_in(database, store, DeliveryState.DEAD_LETTERED)
    closing = "closed_at = created_at, closed_as = 'erased'"

    database.execute(f"update sendonce_dead_letters set error_message = null, {closing}")

    assert database.one("select closed_as from sendonce_dead_letters") == "erased"


async def test_event_count_of_routes_is_written_once(database: Database, store: Store) -> None:
    given_due_delivery(database, key="new")
    copied = "tenant, type, payload, content_digest, created_at"
    database.execute(f"insert into sendonce_events (key, {copied}) select 'old', {copied} from sendonce_events")

    for change in ("payload = '{}'", "routed = null", "type = 'other', routed = 1"):
        with pytest.raises(REFUSED, match="events_are_immutable"):
            database.execute(f"update sendonce_events set {change} where key = 'old'")
    database.execute("update sendonce_events set routed = 1 where key = 'old'")
    after = database.rows("events")
    for again in ("0", "1", "2", "null"):
        with pytest.raises(REFUSED, match="events_are_immutable"):
            database.execute(f"update sendonce_events set routed = {again}")

    assert [row["routed"] for row in after] == [1, 1]
    assert database.rows("events") == after


WRONG: list[dict[str, Any]] = [
    {"next_attempt_at": "null"},
    {"parked_on": "'stop:all:'"},
    {"attempt_count": -1},
    {"deferred_count": 1},
    {"if_unsure": "'maybe'"},
    {"status": "'Nonsense'"},
    {"notified_at": "created_at"},
]


@pytest.mark.parametrize("change", WRONG, ids=lambda change: next(iter(change)))
async def test_delivery_that_is_nowhere_or_in_two_places_is_refused(
    database: Database, store: Store, change: dict[str, Any]
) -> None:
    given_due_delivery(database)
    [(column, value)] = change.items()

    with pytest.raises(REFUSED):
        database.execute(f"update sendonce_deliveries set {column} = {value}")


async def test_R2_key_is_unique_in_the_database_itself(database: Database, store: Store) -> None:
    given_due_delivery(database, key="memo-1")

    with pytest.raises(REFUSED):
        database.execute(
            "insert into sendonce_events (tenant, type, key, payload, content_digest, created_at)"
            " select tenant, type, key, payload, content_digest, created_at from sendonce_events"
        )


async def test_history_from_long_ago_is_still_protected(database: Database, store: Store) -> None:
    await given_delivery_in(database, store, DeliveryState.COMPLETED)
    database.advance(timedelta(days=400))

    with pytest.raises(REFUSED, match="are_frozen"):
        database.execute("update sendonce_deliveries set notification_id = 'forged'")
