"""Erasing what one person was sent: the content goes; the fact, the digest and the token stay."""

from datetime import timedelta
from typing import Any

import pytest

from sendonce.admin.erase import Erasing, count, erase
from sendonce.admin.explain import explain
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import FOUND, Delivered, Refused
from sendonce.errors import NotAllowed
from sendonce.outbox.outbox import Outbox
from sendonce.store.filters import Filter
from sendonce.store.ports import Store
from sendonce.store.upkeep import Erased, Person
from tests.given import given_event, given_lease, result, settle_with
from tests.store.databases import REFUSED, Database

DAY = timedelta(days=1)
ADA = Email("ada@example.com", subject="Hello", text="Dear Ada")
BOB = Email("bob@example.com", subject="Hello", text="Dear Bob")
TO_ADA = Person(destination="mailto:ada@example.com")
ABOUT_ADA = Person(subject="ada")


async def erased(store: Store, person: Person, *, shared: bool = False) -> Erasing:
    steps = [each async for each in erase(store, person, shared=shared, operator="ada", reason="she asked")]
    return steps[-1] if steps else Erasing(Erased(), 0, 0)


async def given_sent(database: Database, store: Store, *to: Any, **arguments: Any) -> int:
    """An event that was delivered everywhere, with an answer; its id."""
    event_id = given_event(database, to=list(to), **arguments)
    await settle_with(store, await given_lease(store), Delivered("n-1", response="queued for Ada"))
    return event_id


async def test_erasure_blanks_everything_to_a_destination_and_keeps_the_fact(database: Database, store: Store) -> None:
    event_id = await given_sent(database, store, ADA, key="k", payload={"name": "Ada"}, headers={"to": "Ada"})
    [before] = database.rows("deliveries")
    token = (await explain(store, "k")).events[0].deliveries[0].known.token

    done = await erased(store, TO_ADA)

    assert done.erased == Erased(events=1, payloads=1, contents=1, deliveries=1)
    [event], [content], [attempt] = (database.rows(name) for name in ("events", "contents", "attempts"))
    assert (event["payload"], event["headers"], content["content"], attempt["response"]) == (None, None, None, None)
    assert (attempt["outcome"], attempt["notification_id"]) == ("Delivered", "n-1")
    assert database.rows("deliveries") == [before]
    assert (await explain(store, f"token:{token}")).events[0].event.id == event_id
    with database.connection() as connection:
        again = Outbox().publish(connection, "memo.created", {"name": "Ada"}, key="k", to=ADA, headers={"to": "Ada"})
    assert again.duplicate


async def test_event_that_was_sent_more_than_once_is_one_event(database: Database, store: Store) -> None:
    event_id = await given_sent(database, store, ADA)
    [first] = database.rows("deliveries")
    await store.open_generations([first["id"]], kind="replay", operator="ada", reason="again")
    await settle_with(store, await given_lease(store), Delivered("n-2"))

    found = await store.events_of(TO_ADA, 0, limit=10)
    done = await erased(store, TO_ADA)

    assert found == ([event_id], first["id"] + 1)
    assert done.erased == Erased(events=1, payloads=1, contents=1, deliveries=2)


async def test_erasure_leaves_others_what_they_were_sent(database: Database, store: Store) -> None:
    await given_sent(database, store, ADA, BOB, payload={"n": 1})

    done = await erased(store, TO_ADA)

    assert (done.erased.payloads, done.erased.contents, done.erased.kept) == (1, 1, 0)
    contents = [row["content"] for row in database.rows("contents")]
    assert [content is None for content in contents].count(True) == 1
    assert any("Dear Bob" in content for content in contents if content)
    assert sorted(row["response"] is None for row in database.rows("attempts")) == [False, True]


async def test_payload_that_others_share_is_kept_unless_told(database: Database, store: Store) -> None:
    await given_sent(database, store, ADA, "null:b", payload={"n": 1})

    first = await erased(store, TO_ADA)
    kept = database.one("select payload from sendonce_events")
    second = await erased(store, TO_ADA, shared=True)

    assert (first.erased.payloads, first.erased.kept, kept) == (0, 1, '{"n":1}')
    assert (second.erased.payloads, second.erased.kept) == (1, 0)
    assert database.one("select payload from sendonce_events") is None


@pytest.mark.parametrize("outcome", [None, Refused("410")])
async def test_payload_that_others_still_need_is_kept_even_so(
    database: Database, store: Store, outcome: Refused | None
) -> None:
    given_event(database, to=[ADA, "null:b"])
    if outcome is not None:
        lease = await given_lease(store)
        await store.settle([result(lease, Delivered("n"), of=0), result(lease, outcome, of=1)])

    done = await erased(store, TO_ADA, shared=True)

    assert done.erased.kept == 1
    assert database.one("select payload from sendonce_events") is not None


async def test_erasure_cancels_first_what_is_open(database: Database, store: Store) -> None:
    given_event(database, to=ADA)

    done = await erased(store, TO_ADA)

    assert (done.cancelled, done.erased.busy, done.erased.contents) == (1, 0, 1)
    [letter] = database.rows("dead_letters")
    assert (letter["reason"], letter["closed_as"], letter["error_message"]) == ("cancelled", "erased", None)
    assert (await store.start(1, 10, DAY)).lease is None


@pytest.mark.parametrize("person", [TO_ADA, ABOUT_ADA])
async def test_erasure_leaves_what_is_being_sent_and_finds_it_again(
    database: Database, store: Store, person: Person
) -> None:
    given_event(database, to=ADA, subject="ada")
    lease = await given_lease(store)

    first = await erased(store, person)
    assert (first.cancelled, first.erased.busy, first.erased.events) == (0, 1, 0)
    assert database.one("select content from sendonce_contents") is not None
    await settle_with(store, lease, Delivered("n"))
    second = await erased(store, person)

    assert (second.erased.busy, second.erased.events) == (0, 1)
    assert database.one("select content from sendonce_contents") is None


async def test_erasure_blanks_everything_about_a_subject_wherever_it_went(database: Database, store: Store) -> None:
    await given_sent(database, store, ADA, "null:b", subject="ada", headers={"a": "b"})
    other = await given_sent(database, store, ADA, subject="bob")

    done = await erased(store, ABOUT_ADA)

    assert done.erased == Erased(events=1, payloads=1, contents=1, deliveries=2)
    first, second = database.rows("events")
    assert [first[name] for name in ("payload", "headers", "subject")] == [None, None, None]
    assert (second["id"], second["subject"], second["payload"]) == (other, "bob", '{"memo":1}')
    assert [row["response"] for row in database.rows("attempts")] == [None, None, "queued for Ada"]


async def test_tenants_person_is_not_anothers(database: Database, store: Store) -> None:
    for tenant in ("acme", "other"):
        await given_sent(database, store, ADA, tenant=tenant, subject="ada")

    to, about = (Person(destination=TO_ADA.destination, tenant="acme"), Person(subject="ada", tenant="acme"))
    assert (await erased(store, to)).erased.events == 1
    assert (await erased(store, about)).erased.events == 1

    assert [row["payload"] is None for row in database.rows("events")] == [True, False]


async def test_erasure_blanks_all_generations_and_what_was_said_of_them(database: Database, store: Store) -> None:
    given_event(database, to=ADA)
    await settle_with(store, await given_lease(store), Refused("550", "no such user ada@example.com"))
    [letter] = await store.dead_letters(Filter())
    await store.open_generations([letter.delivery_id], kind="requeue", operator="ada", reason="test")
    await settle_with(store, await given_lease(store), Refused("550", "no such user ada@example.com"))
    await store.add_finding(letter.delivery_id, kind="late_result", details="ada@example.com")

    done = await erased(store, TO_ADA)

    assert (done.erased.events, done.erased.deliveries) == (1, 2)
    for table in ("attempts", "dead_letters", "findings", "contents", "events"):
        assert "ada@example.com" not in repr(database.rows(table)), table
    assert [row["closed_as"] for row in database.rows("dead_letters")] == ["requeued", "erased"]
    assert [row["error_code"] for row in database.rows("attempts")] == ["550", "550"]


async def test_erasure_keeps_how_it_was_found_and_who_attested_it(database: Database, store: Store) -> None:
    given_event(database, to=ADA)
    await settle_with(store, await given_lease(store), Refused("550"))
    [letter] = await store.dead_letters(Filter())
    await store.attest([letter.id], operator="bob", reason="she told me")
    given_event(database, to=ADA)
    await settle_with(store, await given_lease(store), Delivered("n", response=FOUND))

    await erased(store, TO_ADA)

    assert [row["response"] for row in database.rows("attempts")] == [None, FOUND]
    assert [row["details"] for row in database.rows("findings")] == ["bob: she told me"]


async def test_delivery_that_was_erased_is_not_sent_again(database: Database, store: Store) -> None:
    await given_sent(database, store, ADA)
    await erased(store, TO_ADA)
    [row] = database.rows("deliveries")

    with pytest.raises(NotAllowed, match="no longer kept"):
        await store.open_generations([row["id"]], kind="replay", operator="ada", reason="test")


async def test_log_says_who_and_why_and_never_whom(database: Database, store: Store) -> None:
    await given_sent(database, store, ADA, subject="ada lovelace")
    await erased(store, TO_ADA)
    await erased(store, Person(subject="ada lovelace"))

    rows = [row for row in database.rows("operations") if row["kind"] == "erase"]
    assert [(row["operator"], row["reason"], row["affected"]) for row in rows] == [("ada", "she asked", 1)] * 2
    assert "@" not in repr(rows)
    assert "lovelace" not in repr(rows)


@pytest.mark.parametrize("shared", [False, True])
async def test_count_changes_nothing_and_says_what_comes_of_it(database: Database, store: Store, shared: bool) -> None:
    await given_sent(database, store, ADA, "null:b")
    given_event(database, to=ADA)
    await given_lease(store)
    given_event(database, to=ADA)
    before = [database.rows(name) for name in ("events", "contents", "deliveries", "attempts", "operations")]

    done = [each async for each in count(store, TO_ADA, shared=shared)][-1]

    payloads, kept = (2, 0) if shared else (1, 1)
    assert done.erased == Erased(events=2, payloads=payloads, contents=2, deliveries=2, kept=kept, busy=1)
    assert done.cancelled == 1
    assert [database.rows(name) for name in ("events", "contents", "deliveries", "attempts", "operations")] == before
    assert await erased(store, TO_ADA, shared=shared) == done


@pytest.mark.parametrize("asked", ["mailto:ada@exmaple.com", "mailto:ada@example.com", "mailto:ada@example.org"])
async def test_erasure_covers_every_address_of_a_correction(database: Database, store: Store, asked: str) -> None:
    given_event(database, to=[Email("ada@exmaple.com", subject="Hello", text="Dear Ada"), BOB])
    for address in ("mailto:ada@example.com", "mailto:ada@example.org"):
        lease = await given_lease(store)
        await settle_with(store, lease, Refused("550", "no such user ada"))
        old = max(row["id"] for row in database.rows("deliveries") if row["destination"].startswith("mailto:ada"))
        await store.correct(old, content=None, destination=address, operator="ada", reason="typo")
    await settle_with(store, await given_lease(store), Delivered("n", response="thanks, ada"))

    done = await erased(store, Person(destination=asked))

    assert done.erased == Erased(events=1, payloads=1, contents=3, deliveries=3)
    assert [row["content"] for row in database.rows("contents") if "Ada" in (row["content"] or "")] == []
    assert sum("Dear Bob" in (row["content"] or "") for row in database.rows("contents")) == 1
    assert [row["response"] for row in database.rows("attempts") if row["response"]] == []


async def test_erasure_that_finds_nothing_leaves_no_row_in_the_log(database: Database, store: Store) -> None:
    await erased(store, TO_ADA)

    assert database.rows("operations") == []


async def test_finished_attempt_lets_only_what_was_said_be_taken_away(database: Database, store: Store) -> None:
    given_event(database, to=ADA)
    await settle_with(store, await given_lease(store), Refused("550", "no such user"))

    for change in ("error_message = 'other'", "error_message = null, error_code = null", "response = 'forged'"):
        with pytest.raises(REFUSED, match="finished_attempts_are_frozen"):
            database.execute(f"update sendonce_attempts set {change}")
    database.execute("update sendonce_attempts set error_message = null")
    with pytest.raises(REFUSED, match="finished_attempts_are_frozen"):
        database.execute("update sendonce_attempts set error_message = null")

    assert database.one("select error_code from sendonce_attempts") == "550"
