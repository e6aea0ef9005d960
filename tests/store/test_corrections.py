"""A person corrects what was given up: a new intent with a token of its own; all that was before is kept (M9)."""

import asyncio

import pytest

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Delivered, Outcome, Refused, Unknown
from sendonce.domain.texts import provider_token
from sendonce.errors import NotAllowed, NotFound
from sendonce.outbox.outbox import Outbox
from sendonce.store.ports import Store
from tests.given import given_dead_letter, given_delivery_in, given_due_delivery, given_lease, result, settle_with
from tests.store.databases import REFUSED, Database

TYPO = "mailto:ada@exmaple.com"
RIGHT = "mailto:ada@example.com"


async def given_bad_mail(database: Database, store: Store, to: str = TYPO) -> int:
    """A mail that was refused; its delivery's id."""
    letter = Email(to.removeprefix("mailto:"), subject="Saved", text="Your memo is saved.")
    delivery_id = given_due_delivery(database, to=letter, key=f"memo-{to}")
    await settle_with(store, await given_lease(store), Refused("550"))
    return delivery_id


async def token_of(store: Store, delivery_id: int) -> str:
    row = await store.delivery(delivery_id)
    assert row is not None
    return provider_token(await store.namespace(), row.tenant, row.type, row.key, row.destination, row.corrections)


async def test_M9_other_content_goes_as_the_next_generation_with_a_token_of_its_own(
    database: Database, store: Store
) -> None:
    old_id = await given_bad_mail(database, store)
    history = {table: database.rows(table) for table in ("events", "attempts", "contents")}
    [before] = database.rows("deliveries")

    acted = await store.correct(old_id, content='{"text":"new"}', destination=None, operator="ada", reason="typo")

    [new_id] = acted.ids
    [old, new] = database.rows("deliveries")
    assert old == before
    assert (new["id"], new["generation"], new["corrections"], new["destination"]) == (new_id, 1, 1, TYPO)
    assert (new["status"], new["in_doubt"], new["attempt_count"]) == ("Pending", False, 0)
    assert database.rows("events") == history["events"]
    assert database.rows("attempts") == history["attempts"]
    assert history["contents"][0] in database.rows("contents")
    [claim] = (await given_lease(store)).claims
    assert (claim.delivery_id, claim.content, claim.key) == (new_id, '{"text":"new"}', f"memo-{TYPO}")
    assert await token_of(store, new_id) != await token_of(store, old_id)


@pytest.mark.parametrize("destination", [None, RIGHT])
async def test_M9_correction_of_what_was_sent_again_on_purpose_is_in_doubt_as_it_was_published(
    database: Database, store: Store, destination: str | None
) -> None:
    first = given_due_delivery(database, to=TYPO, if_unsure="hold")
    await settle_with(store, await given_lease(store), Unknown("timeout"))
    [second] = (await store.open_generations([first], kind="requeue", operator="ada", reason="again")).ids
    await settle_with(store, await given_lease(store), Refused("550"))

    content = None if destination else '{"text":"new"}'
    [third] = (
        await store.correct(
            second, content=content, destination=destination, operator="ada", reason="typo", even_if_sent=True
        )
    ).ids

    row = await store.delivery(third)
    assert row is not None
    assert row.if_unsure == "hold"


async def test_M9_another_destination_gets_the_same_content_under_the_same_key(
    database: Database, store: Store
) -> None:
    old_id = await given_bad_mail(database, store)

    acted = await store.correct(old_id, content=None, destination=RIGHT, operator="ada", reason="typo")

    [new_id] = acted.ids
    new = await store.delivery(new_id)
    assert new is not None
    assert (new.destination, new.generation, new.corrections, new.status) == (RIGHT, 0, 1, DeliveryState.PENDING)
    [claim] = (await given_lease(store)).claims
    assert claim.content == await store.content(old_id)
    assert claim.key == f"memo-{TYPO}"
    letter = await store.dead_letter_of(old_id)
    assert letter is not None
    assert (letter.closed_as, letter.closed_by) == ("corrected", "ada")
    assert database.one("select count(*) from sendonce_events") == 1


async def test_M9_correction_says_what_it_goes_instead_of_and_who_has_made_it(database: Database, store: Store) -> None:
    old_id = await given_bad_mail(database, store)

    [new_id] = (await store.correct(old_id, content=None, destination=RIGHT, operator="ada", reason="typo")).ids

    [seen_from_old] = await store.corrections_of(old_id)
    [seen_from_new] = await store.corrections_of(new_id)
    assert seen_from_old == seen_from_new
    assert (seen_from_new.delivery_id, seen_from_new.replaces) == (new_id, old_id)
    assert (seen_from_new.destination, seen_from_new.replaced_destination) == (RIGHT, TYPO)
    assert (seen_from_new.operator, seen_from_new.reason) == ("ada", "typo")
    [row] = database.rows("operations")
    assert (row["kind"], row["affected"], row["subject"]) == ("correct", 1, f"delivery {old_id}")


async def test_payload_can_be_corrected_too(database: Database, store: Store) -> None:
    old_id = await given_dead_letter(database, store)

    await store.correct(old_id, content='{"memo":2}', destination="null:b", operator="ada", reason="wrong memo")

    [claim] = (await given_lease(store)).claims
    assert (claim.content, claim.destination) == ('{"memo":2}', "null:b")


async def test_correction_of_a_destination_sends_the_payload(database: Database, store: Store) -> None:
    old_id = await given_dead_letter(database, store)

    await store.correct(old_id, content=None, destination="null:b", operator="ada", reason="moved")

    [claim] = (await given_lease(store)).claims
    assert (claim.content, claim.payload) == (None, '{"memo":1}')
    assert database.rows("contents") == []


async def test_corrected_delivery_that_fails_again_can_be_requeued_and_corrected_again(
    database: Database, store: Store
) -> None:
    first = await given_bad_mail(database, store)
    [second] = (await store.correct(first, content=None, destination="mailto:a@b.c", operator="ada", reason="r")).ids
    await settle_with(store, await given_lease(store), Refused("550"))
    [third] = (await store.open_generations([second], kind="requeue", operator="ada", reason="r")).ids
    [claim] = (await given_lease(store)).claims
    assert claim.content == await store.content(first)
    assert await token_of(store, third) == await token_of(store, second)


async def test_dead_letter_that_was_corrected_is_not_acted_on_again(database: Database, store: Store) -> None:
    old_id = await given_bad_mail(database, store)
    letter = await store.dead_letter_of(old_id)
    assert letter is not None
    [new_id] = (await store.correct(old_id, content=None, destination=RIGHT, operator="ada", reason="typo")).ids

    with pytest.raises(NotAllowed, match="was corrected already"):
        await store.correct(old_id, content=None, destination="null:x", operator="ada", reason="again")
    with pytest.raises(NotAllowed, match=f"delivery {new_id} goes instead"):
        await store.open_generations([old_id], kind="replay", operator="ada", reason="again")
    with pytest.raises(NotAllowed, match="corrected"):
        await store.attest([letter.id], operator="ada", reason="again")

    assert database.one("select count(*) from sendonce_deliveries") == 2
    assert database.one("select count(*) from sendonce_operations") == 1


async def test_correction_is_for_dead_letters_only(database: Database, store: Store) -> None:
    for state in (DeliveryState.COMPLETED, DeliveryState.PENDING_RETRY, DeliveryState.PENDING):
        delivery_id = await given_delivery_in(database, store, state)

        with pytest.raises(NotAllowed, match="only one that was given up can be corrected"):
            await store.correct(delivery_id, content="{}", destination=None, operator="ada", reason="r")

    assert database.rows("contents") == []
    assert database.rows("operations") == []


async def test_dead_letter_that_is_missing_cannot_be_corrected(store: Store) -> None:
    with pytest.raises(NotFound, match="no delivery 77"):
        await store.correct(77, content="{}", destination=None, operator="ada", reason="r")


async def test_correction_that_changes_nothing_is_refused(database: Database, store: Store) -> None:
    with pytest.raises(NotAllowed, match="nothing would change"):
        await store.correct(
            await given_dead_letter(database, store), content=None, destination=None, operator="ada", reason="r"
        )


async def test_event_does_not_go_to_one_destination_twice(database: Database, store: Store) -> None:
    event_id = database.publish("memo.created", {}, key="both", to=["null:a", "null:b"])
    await settle_with(store, await given_lease(store), Refused("410"))
    first, second = (row.id for row in await store.deliveries_of(event_id))

    with pytest.raises(NotAllowed, match=f"goes there already: delivery {second}"):
        await store.correct(first, content=None, destination="null:b", operator="ada", reason="r")


async def test_content_that_was_erased_must_be_given_anew(database: Database, store: Store) -> None:
    delivery_id = await given_bad_mail(database, store)
    database.execute("update sendonce_contents set content = null")

    with pytest.raises(NotAllowed, match="was erased"):
        await store.correct(delivery_id, content=None, destination=RIGHT, operator="ada", reason="r")
    await store.correct(delivery_id, content="{}", destination=RIGHT, operator="ada", reason="r")


async def test_R12_request_follows_its_recipient_to_the_new_address(database: Database, store: Store) -> None:
    outbox = Outbox()
    with database.connection() as connection:
        request_id = outbox.request(
            connection,
            "review.finished",
            {},
            key="job-1",
            subject="change-7",
            version=3,
            required=["null:a", "null:typo"],
        ).request_id
    lease = await given_lease(store)
    outcomes: dict[str, Outcome] = {"null:a": Delivered("n-1"), "null:typo": Refused("550")}
    await store.settle([result(lease, outcomes[each.destination], of=n) for n, each in enumerate(lease.claims)])
    [letter] = database.rows("dead_letters")

    def status() -> tuple[str, dict[str, str]]:
        with database.connection() as connection:
            state = outbox.request_state(connection, request_id)
        assert state is not None
        return state.status, {each.destination: each.sent_to or "" for each in state.recipients}

    assert status()[0] == "retryable_failed"
    await store.correct(letter["delivery_id"], content=None, destination="null:right", operator="ada", reason="typo")
    assert status() == ("in_progress", {"null:a": "null:a", "null:typo": "null:right"})
    await settle_with(store, await given_lease(store), Delivered("n-2"))
    assert status()[0] == "succeeded"


async def test_subscription_says_itself_where_its_deliveries_go(database: Database, store: Store) -> None:
    subscription_id = await store.add_subscription(
        tenant="", types=["memo.*"], destination="null:hook", policy=None, description=None, operator="ada"
    )
    database.publish("memo.created", {}, key="one", to=None)
    await settle_with(store, await given_lease(store), Refused("410"))
    [letter] = database.rows("dead_letters")

    with pytest.raises(NotAllowed, match=f"for subscription {subscription_id}"):
        await store.correct(letter["delivery_id"], content=None, destination="null:b", operator="ada", reason="r")
    acted = await store.correct(letter["delivery_id"], content="{}", destination=None, operator="ada", reason="r")

    row = await store.delivery(acted.ids[0])
    assert row is not None
    assert row.subscription_id == subscription_id


async def test_correction_and_requeue_at_once_have_one_winner(database: Database, store: Store) -> None:
    other = await database.open()
    for round_ in range(5):
        old_id = await given_bad_mail(database, store, to=f"mailto:ada{round_}@exmaple.com")
        done = await asyncio.gather(
            store.correct(old_id, content=None, destination=f"null:{round_}", operator="ada", reason="r"),
            other.open_generations([old_id], kind="requeue", operator="bob", reason="r"),
            return_exceptions=True,
        )
        assert sum(isinstance(each, NotAllowed) for each in done) == 1, done
        await settle_with(store, await given_lease(store), Refused("550"))


async def test_database_takes_content_only_for_what_is_corrected(database: Database, store: Store) -> None:
    delivery_id = await given_delivery_in(database, store, DeliveryState.PENDING_RETRY)
    row = next(each for each in database.rows("deliveries") if each["id"] == delivery_id)

    with pytest.raises(REFUSED):
        database.execute(
            "insert into sendonce_contents (event_id, corrections, destination_hash, content) values (?, ?, ?, ?)",
            row["event_id"], 1, row["destination_hash"], "smuggled",
        )  # fmt: skip


async def test_correction_stays_as_it_was_written(database: Database, store: Store) -> None:
    old_id = await given_dead_letter(database, store)
    await store.correct(old_id, content="{}", destination=None, operator="ada", reason="r")

    with pytest.raises(REFUSED):
        database.execute("update sendonce_corrections set replaces = 99")
