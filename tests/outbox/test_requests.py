"""A request: what is written, what comes back when it is asked for again, and what is refused."""

import asyncpg
import psycopg
import pytest

from sendonce import (
    UNIQUE,
    BadDestination,
    BadEvent,
    DeliveryState,
    Email,
    KeyReused,
    Outbox,
    RequestStatus,
    RerunRefused,
)
from tests.outbox.callers import Caller
from tests.outbox.conftest import Kind
from tests.outbox.databases import Address, recording
from tests.outbox.requesting import OUTBOX, TYPE, asked, counts, request

LETTER = Email("Eve@Example.com", subject="Reviewed", text="Changelist 7 is reviewed.")
ONE = {"events": 1, "deliveries": 2, "contents": 0, "requests": 1, "request_keys": 1, "recipients": 2}
NONE = dict.fromkeys(ONE, 0)


async def test_request_is_made_found_and_read_on_every_kind_of_connection(kind: Kind, caller: Caller) -> None:
    made = await caller.request(TYPE, {"review": 7}, **asked(optional=[LETTER]))
    again = await caller.request(TYPE, {"review": 7}, **asked(optional=[LETTER]))
    second = await caller.request(TYPE, {"review": 7}, **asked(optional=[LETTER], key="job-2"))
    with pytest.raises(RerunRefused):
        await caller.request(TYPE, {"review": 7}, **asked(version=4, key="job-3"))
    with pytest.raises(KeyReused):
        await caller.request(TYPE, {"review": 8}, **asked(optional=[LETTER]))
    state = await caller.request_state(made.request_id)
    assert counts(kind.address) == NONE
    await caller.end("commit")

    assert made.duplicate is False
    assert again == second == (made.request_id, made.event_id, True)
    assert state is not None
    assert (state.id, state.event_id, state.tenant, state.type) == (made.request_id, made.event_id, "", TYPE)
    assert (state.subject, state.version, state.status) == ("cl-7", 3, RequestStatus.IN_PROGRESS)
    assert [(each.destination, each.sent_to, each.is_required) for each in state.recipients] == [
        ("null:ada", "null:ada", True),
        ("null:bob", "null:bob", True),
        ("mailto:Eve@example.com", "mailto:Eve@example.com", False),
    ]
    assert {(each.status, each.attempt_count, each.notified_at) for each in state.recipients} == {
        (DeliveryState.PENDING, 0, None)
    }
    assert await caller.request_state(made.request_id + 1) is None
    assert counts(kind.address) == ONE | {"deliveries": 3, "contents": 1, "request_keys": 2, "recipients": 3}


def test_request_that_is_rolled_back_leaves_nothing(address: Address) -> None:
    with recording(address) as connection:
        OUTBOX.request(connection, TYPE, {"review": 7}, **asked())
        connection.rollback()

    assert counts(address) == NONE


async def test_state_can_be_read_without_a_transaction(kind: Kind) -> None:
    made = request(kind.address)

    async with kind.open(kind.address, autocommit=True) as caller:
        state = await caller.request_state(made.request_id)

    assert state is not None
    assert state.created_at.tzinfo is not None


def test_R7_deliveries_of_a_version_hang_on_subject_recipient_and_version(address: Address) -> None:
    made = request(address)

    events = address.look("select id, key, subject, version from sendonce_events")
    deliveries = address.look("select event_id, destination, status from sendonce_deliveries order by destination")

    assert events == [(made.event_id, "cl-7/3", "cl-7", 3)]
    assert deliveries == [(made.event_id, "null:ada", "Pending"), (made.event_id, "null:bob", "Pending")]


def test_R3_same_key_again_gives_the_first_and_writes_nothing(address: Address) -> None:
    first = request(address)

    assert request(address) == (first.request_id, first.event_id, True)
    assert counts(address) == ONE


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 4, "rerun": True},
        {"subject": "cl-8"},
        {"required": ["null:ada"]},
        {"required": ["null:ada"], "optional": "null:bob"},
        {"required": [LETTER]},
    ],
    ids=["version", "subject", "fewer", "not all required", "content"],
)
def test_R3_key_of_a_different_request_is_refused_or_keeps_the_first(
    address: Address, changed: dict[str, object]
) -> None:
    first = request(address)

    with pytest.raises(KeyReused, match=r"'job-1' of review\.finished was used before, for different content"):
        request(address, **changed)

    assert request(address, **changed, if_different="keep_first") == (first.request_id, first.event_id, True)
    assert counts(address) == ONE


def test_R4_same_version_with_another_key_gives_the_first_and_remembers_the_key(address: Address) -> None:
    first = request(address)

    assert request(address, key="job-2") == (first.request_id, first.event_id, True)
    assert request(address, key="job-3", rerun=True).request_id == first.request_id
    assert request(address, key="job-2") == (first.request_id, first.event_id, True)
    assert counts(address) == ONE | {"request_keys": 3}


def test_R4_different_content_for_a_version_is_not_dropped_in_silence(address: Address) -> None:
    first = request(address)

    with pytest.raises(KeyReused, match="version 3 of 'cl-7' was requested before, with different content"):
        request(address, key="job-2", required="null:eve")
    assert counts(address) == ONE

    kept = request(address, key="job-2", required="null:eve", if_different="keep_first")
    assert kept == (first.request_id, first.event_id, True)
    assert counts(address) == ONE | {"request_keys": 2}


def test_R5_higher_version_must_be_asked_for_explicitly(address: Address) -> None:
    request(address)

    with pytest.raises(RerunRefused, match=r"version 4 of 'cl-7' .* newest is 3; .* say rerun=True"):
        request(address, key="job-2", version=4)

    assert counts(address) == ONE


@pytest.mark.parametrize("rerun", [False, True])
def test_R5_lower_version_is_refused(address: Address, rerun: bool) -> None:
    request(address)

    with pytest.raises(RerunRefused, match=r"version 2 of 'cl-7' .* newest is 3; a lower version"):
        request(address, key="job-2", version=2, rerun=rerun)

    assert counts(address) == ONE


def test_R5_version_that_was_overtaken_comes_back_but_is_never_rerun(address: Address) -> None:
    first = request(address)
    request(address, key="job-2", version=4, rerun=True)

    assert request(address, key="job-3") == (first.request_id, first.event_id, True)
    with pytest.raises(RerunRefused):
        request(address, key="job-4", rerun=True)


def test_R6_rerun_has_deliveries_of_its_own(address: Address) -> None:
    first = request(address)
    rerun = request(address, key="job-2", version=4, rerun=True)

    assert rerun.duplicate is False
    assert rerun.request_id != first.request_id
    assert counts(address) == {name: 2 * count for name, count in ONE.items()}
    assert address.look("select version, run from sendonce_requests order by id") == [(3, 0), (4, 1)]


def test_request_that_is_first_of_its_subject_may_say_rerun(address: Address) -> None:
    assert request(address, rerun=True).duplicate is False


def test_types_and_tenants_have_subjects_and_keys_of_their_own(address: Address) -> None:
    made = [request(address), request(address, tenant="acme", version=1), request(address, tenant="apex", version=2)]
    with recording(address) as connection:
        made.append(OUTBOX.request(connection, "review.begun", {}, **asked(version=2)))

    assert len({each.request_id for each in made}) == 4
    assert not any(each.duplicate for each in made)


def test_subscriptions_get_the_event_but_are_no_recipients(address: Address) -> None:
    address.subscribe("review.*")
    made = request(address)

    with recording(address) as connection:
        state = OUTBOX.request_state(connection, made.request_id)

    assert counts(address) == ONE | {"deliveries": 3}
    assert state is not None
    assert [each.destination for each in state.recipients] == ["null:ada", "null:bob"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"key": None}, "key is None"),
        ({"key": ""}, "key is empty"),
        ({"key": UNIQUE}, "a request needs a key of its own"),
        ({"subject": None}, "a request needs a subject"),
        ({"subject": ""}, "a request needs a subject"),
        ({"subject": "x" * 499}, "the subject and the version make the event's key, and key is 501 bytes"),
        ({"subject": "\ud800"}, "the subject and the version make the event's key, and"),
        ({"version": None}, "a request needs a version"),
        ({"version": True}, "a request needs a version"),
        ({"version": -1}, "a request needs a version"),
        ({"version": 2**63}, "a request needs a version"),
        ({"required": []}, "at least one required recipient"),
        ({"required": [], "optional": "null:a"}, "at least one required recipient"),
        ({"required": ["null:a", "null:a"]}, "a recipient is named twice"),
        ({"required": ["mailto:a@Example.com"], "optional": ["mailto:a@example.com"]}, "a recipient is named twice"),
        ({"rerun": "yes"}, "rerun must be True or False"),
        ({"if_different": "ignore"}, "if_different must be"),
    ],
)
def test_R1_what_is_missing_or_wrong_is_refused_in_a_sentence(
    sqlite_address: Address, changed: dict[str, object], said: str
) -> None:
    with pytest.raises(BadEvent, match=said):
        request(sqlite_address, **changed)

    assert counts(sqlite_address) == NONE


def test_recipient_that_is_no_destination_is_refused(sqlite_address: Address) -> None:
    with pytest.raises(BadDestination):
        request(sqlite_address, required="ada")


def test_published_event_in_the_way_is_told_and_the_transaction_goes_on(address: Address) -> None:
    with recording(address) as connection:
        OUTBOX.publish(connection, TYPE, {}, key=("cl-7", 3), to=None)
        with pytest.raises(KeyReused, match="was published with the key 'cl-7/3'"):
            OUTBOX.request(connection, TYPE, {}, **asked())
        connection.execute("insert into memos (id) values (1)")

    assert counts(address) == NONE | {"events": 1}
    assert address.count("memos") == 1


@pytest.mark.parametrize("request_id", [0, -1, 2**63, True, "1"])
def test_request_id_is_never_none(address: Address, request_id: int) -> None:
    request(address)

    with recording(address) as connection:
        assert OUTBOX.request_state(connection, request_id) is None


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_isolation_level_will_do_for_requests(postgres_address: Address, level: str) -> None:
    with psycopg.connect(postgres_address.url) as connection:
        connection.execute(f"set transaction isolation level {level}".encode())
        first = OUTBOX.request(connection, TYPE, {}, **asked())
        again = OUTBOX.request(connection, TYPE, {}, **asked(key="job-2"))

    assert again == (first.request_id, first.event_id, True)


async def test_codecs_of_the_callers_own_do_not_matter(postgres_address: Address) -> None:
    connection = await asyncpg.connect(postgres_address.url, statement_cache_size=0)
    for kind in ("uuid", "timestamptz"):
        await connection.set_type_codec(kind, schema="pg_catalog", encoder=repr, decoder=repr)
    async with connection.transaction():
        made = await OUTBOX.arequest(connection, TYPE, {}, **asked())
        state = await OUTBOX.arequest_state(connection, made.request_id)
    await connection.close()

    assert state is not None
    assert len(state.recipients) == 2


def test_texts_as_bytes_do_not_matter(sqlite_address: Address) -> None:
    with recording(sqlite_address) as connection:
        connection.text_factory = bytes
        first = OUTBOX.request(connection, TYPE, {}, **asked())
        again = OUTBOX.request(connection, TYPE, {}, **asked())
        state = OUTBOX.request_state(connection, first.request_id)

    assert again.duplicate is True
    assert state is not None
    assert (state.subject, state.recipients[0].destination) == ("cl-7", "null:ada")


def test_request_may_have_a_thousand_recipients(address: Address) -> None:
    made = request(address, required=[f"null:{n}" for n in range(1000)], optional=[f"null:o{n}" for n in range(1000)])

    with recording(address) as connection:
        state = Outbox().request_state(connection, made.request_id)

    assert state is not None
    assert sum(each.is_required for each in state.recipients) == 1000
    assert len({each.delivery_id for each in state.recipients}) == 2000
