"""A database with a tenant, acme, and around it words that acme is never told: planted, each with that word in it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import timedelta

from sendonce import Admin, Filter, IfUnsure, Outbox
from sendonce.domain.outcomes import Deferred, Delivered, Failed, Outcome, Refused, Unknown
from sendonce.domain.policies import Policy
from sendonce.store.ports import Store
from tests.admin.calls import Ids
from tests.given import POLICY, expire, given_due_delivery, given_event, given_lease, settle_with
from tests.store.databases import Database
from tests.store.messages import given_message, given_receipt

MARK = "planted"
OPERATOR = "planted-operator"
REASON = "planted-reason"
WORKER = "planted-worker"
TENANT = "planted-tenant"
TYPE = "planted.type"
KEY = "planted-key"
SUBJECT = "planted-subject"
ADDRESS = "https://planted-address.example/x"
ERROR = "planted-error"
DESCRIPTION = "planted-description"
HOST = "planted-host.internal"
SOURCE = "planted-source"
DETAILS = "planted-details"
REFERENCE = "planted-reference"
CONSUMER = "planted-consumer"
MESSAGE = "planted-message"
ALERT = "planted-alert"
WORDS = (
    OPERATOR, REASON, WORKER, TENANT, TYPE, KEY, SUBJECT, ADDRESS, ERROR, DESCRIPTION, HOST, SOURCE, DETAILS,
    REFERENCE, CONSUMER, MESSAGE, ALERT,
)  # fmt: skip

LONG = timedelta(days=2)
HOLDING = replace(POLICY, if_unsure=IfUnsure.HOLD)


@dataclass(frozen=True)
class Planted:
    """What was planted: the ids of what belongs to the other tenant."""

    theirs: Ids


async def planted(database: Database, store: Store, admin: Admin) -> Planted:
    """Plant everything; `admin` is that of the operator whose name is planted."""
    await store.register(WORKER, "1.0", 10)
    await _theirs(database, store, admin)
    theirs = Ids.of(database)
    await _decided(database, store, admin)
    await _evidence(database, store, admin)
    await _subscriptions(store, admin)
    given_message(database, MESSAGE, consumer=CONSUMER, error_message=ERROR)
    given_receipt(database, MESSAGE, consumer=f"{CONSUMER}-2")
    await store.raise_alert("planted", ALERT, seen=1, repeat=LONG)
    await admin.abegin_operation("requeue", Filter(type="none.such"), reason=REASON)
    await _open(database, store, admin)
    return Planted(theirs)


async def renew(database: Database, store: Store, admin: Admin) -> None:
    """Have acme own one more of everything that can be decided about."""
    await tried(database, store, Refused("410"))
    given_due_delivery(database, tenant="acme")
    await admin.aadd_subscription(types=["none.such"], to="null:d", tenant="acme")


async def tried(
    database: Database, store: Store, outcome: Outcome, *, policy: Policy = POLICY, tenant: str = "acme"
) -> int:
    """A delivery that has come to this; its id."""
    delivery_id = given_due_delivery(database, tenant=tenant)
    lease = await given_lease(store)
    await settle_with(store, lease, outcome, policy)
    await store.release([lease.id])
    return delivery_id


async def letter_of(store: Store, delivery_id: int) -> int:
    letter = await store.dead_letter_of(delivery_id)
    assert letter is not None
    return letter.id


def tables_of(database: Database) -> dict[str, object]:
    """All that a verb could change."""
    names = (*(each.name for each in fields(Ids)), "attempts", "stops", "alerts", "findings", "corrections", "evidence")
    return {name: database.rows(name) for name in names}


async def _theirs(database: Database, store: Store, admin: Admin) -> None:
    await admin.aadd_subscription(types=[TYPE], to=ADDRESS, tenant=TENANT, description=DESCRIPTION)
    given_event(database, type=TYPE, key=KEY, subject=SUBJECT, to=[ADDRESS, "null:planted"], tenant=TENANT)
    await settle_with(store, await given_lease(store), Refused(ERROR, ERROR, response=ERROR))
    with database.connection() as connection:
        Outbox().request(
            connection, TYPE, {}, key="planted-request", subject=SUBJECT, version=1, required=ADDRESS, tenant=TENANT
        )
    await settle_with(store, await given_lease(store), Refused(ERROR, ERROR, response=ERROR))
    given_event(database, type=TYPE, key="planted-key-2", to=ADDRESS, tenant=TENANT, deliver_at=database.now() + LONG)


async def _decided(database: Database, store: Store, admin: Admin) -> None:
    """What the operator has decided about acme's own."""
    letters = [await letter_of(store, await tried(database, store, Refused("410"))) for _ in range(4)]
    await admin.arequeue(letters[:1], reason=REASON)
    await admin.aattest(letters[1:2], reason=REASON)
    await admin.adiscard(letters[2:3], reason=REASON)
    moved = await store.dead_letter(letters[3])
    assert moved is not None
    await admin.acorrect(moved.delivery_id, to="null:e", reason=REASON)
    await admin.acancel([given_due_delivery(database, tenant="acme")], reason=REASON)
    lease = await given_lease(store)
    await settle_with(store, lease, Deferred("our_server", f"{HOST} is away", response=f"this is {HOST}"))
    await tried(database, store, Refused("our_account", f"{HOST} says no", response=f"this is {HOST}"))
    await tried(database, store, Unknown("timeout"), policy=HOLDING)


async def _evidence(database: Database, store: Store, admin: Admin) -> None:
    """What came in later: late results, and evidence that agrees, settles and contradicts."""
    given_due_delivery(database, tenant="acme")
    late = await given_lease(store, hold=timedelta(minutes=1))
    database.advance(timedelta(minutes=5))
    await expire(store)
    await settle_with(store, late, Delivered("n-9"))
    sent = await tried(database, store, Delivered("n-1"))
    held = await tried(database, store, Unknown("timeout"), policy=HOLDING)
    waiting = await tried(database, store, Unknown("timeout"))
    for delivery_id, outcome in ((sent, "Refused"), (held, "Delivered"), (waiting, "Refused")):
        token = (await admin.aexplain(delivery_id)).events[0].deliveries[0].known.token
        await admin.aevidence(
            token=token, outcome=outcome, source=SOURCE, details=DETAILS, reference=f"{REFERENCE}-{delivery_id}"
        )


async def _subscriptions(store: Store, admin: Admin) -> None:
    """Acme's own, about which the operator has decided."""
    for state in ("changed", "paused", "removed", "disabled"):
        added = (await admin.aadd_subscription(types=["none.such"], to="null:d", tenant="acme")).subscription
        if state == "paused":
            await admin.apause_subscription(added.id, reason=REASON)
        elif state == "removed":
            await admin.aremove_subscription(added.id, reason=REASON)
        elif state == "disabled":
            await store.disable_subscription(added.id, reason=REASON)
        else:
            await admin.achange_subscription(added.id, rate="5/s", reason=REASON)


async def _open(database: Database, store: Store, admin: Admin) -> None:
    """What is being sent, is held back, or waits."""
    with database.connection() as connection:
        Outbox().request(
            connection, "memo.asked", {}, key="r-1", subject="CL-1", version=1, required=["null:a", "null:f"],
            optional="null:g", tenant="acme",
        )  # fmt: skip
    await given_lease(store, hold=LONG)
    await admin.astop("destination", "null:h", reason=REASON)
    given_due_delivery(database, tenant="acme", to="null:h")
    await store.trip("destination:null:i", pause=LONG, code=ERROR)
    given_due_delivery(database, tenant="acme", to="null:i")
    given_due_delivery(database, tenant=TENANT, to="null:i")
    with suppress(AssertionError):  # nothing is due
        await settle_with(store, await given_lease(store), Failed("503"))


def texts(value: object) -> Iterator[str]:
    """Everything that somebody can read in a value: its text, its fields, and what it was made of."""
    yield repr(value)
    yield str(value)
    if isinstance(value, BaseException):
        yield from texts(value.args)
        yield from texts(value.__cause__)
        yield from getattr(value, "__notes__", ())
    elif is_dataclass(value):
        for each in fields(value):
            yield from texts(getattr(value, each.name))
    elif isinstance(value, Mapping):
        yield from texts(list(value.items()))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for each in value:
            yield from texts(each)
