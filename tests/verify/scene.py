"""A database in which everything has happened once, the ordinary way; and looking whether it is consistent."""

from collections.abc import Mapping
from datetime import timedelta

from sendonce.admin.checks import CHECKS
from sendonce.admin.verify import Verified, VerifyPlan, verify
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import Delivered, Failed, Refused, Unknown
from sendonce.outbox.outbox import Outbox
from sendonce.store.bulk import REQUEUE
from sendonce.store.filters import Filter
from sendonce.store.inbox import MessageFilter
from sendonce.store.ports import Store
from sendonce.store.tries import Arrived, Content, Failure
from sendonce.store.upkeep import Stage
from tests.given import given_due_delivery, given_event, given_lease, settle_with
from tests.store.bulkwork import begun, step
from tests.store.databases import Database
from tests.store.messages import given_receipt

MAIL = Email("ada@example.com", subject="Hello", text="Dear Ada")
AT_ONCE = timedelta(0)


async def everything(database: Database, store: Store) -> dict[str, int]:
    """Deliveries by what became of them. What is due is last: nothing is claimed after that."""
    await store.register("host:1", "1.0", 10)
    await _removed(database, store)
    made = {"sent": given_due_delivery(database), **await _messages(database, store)}
    for others in ({}, {"tenant": "acme"}, {"type": "memo.other"}):
        given_event(database, key="same", to="null:a", **others)
    event_id = given_event(database, to=["null:a", "null:b", MAIL])
    made["twins"], made["other"], made["mail"] = sorted(
        row[0] for row in database.execute("select id from sendonce_deliveries where event_id = ?", event_id)
    )
    await _settle(store, Delivered("n-1"))
    for name in ("given up", "requeued", "attested", "corrected", "by filter"):
        made[name] = given_due_delivery(database, to=f"null:{name.replace(' ', '-')}")
    await _settle(store, Refused("410"))
    letters = {row[0]: row[1] for row in database.execute("select delivery_id, id from sendonce_dead_letters")}
    await store.open_generations([made["requeued"]], kind="requeue", operator="ada", reason="test")
    await store.attest([letters[made["attested"]]], operator="ada", reason="test")
    await store.correct(
        made["corrected"], content=None, destination="null:corrected-to", operator="ada", reason="test",
        even_if_sent=False,
    )  # fmt: skip
    made["operation"] = (await step(store, await begun(store, REQUEUE, Filter(destination="null:by-filter")))).id
    await _settle(store, Delivered())
    with database.connection() as connection:
        Outbox().request(connection, "memo.shared", {}, key="job", subject="memo", version=1, required="null:reader")
    await _settle(store, Delivered())
    made["retrying"] = given_due_delivery(database)
    await _settle(store, Failed("503"))
    made["in doubt"] = given_due_delivery(database)
    await _settle(store, Unknown("timeout"))
    made["flying"] = given_due_delivery(database)
    await given_lease(store)
    subscription_id = await store.add_subscription(
        tenant="", types=["memo.parked"], destination="null:hook", policy=None, description=None, operator="ada"
    )
    await store.set_subscription_state(subscription_id, "paused", operator="ada", reason=None)
    made["parked"] = given_due_delivery(database, to=None, type="memo.parked")
    await store.start(1, 10, timedelta(minutes=1))
    made["cancelled"] = given_due_delivery(database)
    await store.cancel([made["cancelled"]], operator="ada", reason="test")
    made["due"] = given_due_delivery(database)
    return made


async def _messages(database: Database, store: Store) -> dict[str, int]:
    """A message that was handled when it came again, and one that a person has had tried again."""
    handled = Arrived(consumer="wallet", id="m-1", position="1", source="amqp:shop/payments")
    begun = await store.begin_message(handled, most_lost=3, worker="w:1")
    assert begun.row_id is not None
    given_receipt(database, "m-1")
    await store.complete_message(begun.row_id)
    failing = Arrived(consumer="wallet", id="m-2", position="2", source="amqp:shop/payments")
    failure = Failure("ValueError", "no such account", reason="exhausted")
    await store.fail_message(failing, None, Content(body=b"{}", headers={}), failure, worker="w:1")
    [dead] = (await store.messages(MessageFilter(message_id="m-2"))).rows
    await store.retry_messages([dead.id], operator="ada", reason="test")
    return {"handled": begun.row_id, "tried again": dead.id}


async def looked(store: Store, *, step: int = 5, again_after: timedelta = AT_ONCE, **options: object) -> Verified:
    """The report of a whole run."""
    plan = VerifyPlan(step=step, again_after=again_after, **options)  # type: ignore[arg-type]
    reports = [report async for report in verify(store, plan)]
    assert reports[-1].is_done
    return reports[-1]


async def found(store: Store) -> Mapping[str, list[int | str]]:
    """What each check has found in a whole run."""
    return {name: each.found for name, each in (await looked(store)).findings.items()}


async def _removed(database: Database, store: Store) -> None:
    """What retention has taken away: all of two events, the history of another, the content of the last."""
    given_up = given_due_delivery(database, to="null:gone")
    await _settle(store, Refused("410"))
    letter_id = database.one("select id from sendonce_dead_letters where delivery_id = ?", given_up)
    await store.discard([letter_id], operator="ada", reason="test")
    for stage in (Stage.KEYS, Stage.HISTORY, Stage.PAYLOADS):
        given_event(database, to="null:gone", subject="memo", headers={"a": "b"})
        await _settle(store, Delivered("gone"))
        await store.retain(stage, 0, limit=10, age=AT_ONCE)


EVERY = [check.name for check in CHECKS]


async def _settle(store: Store, outcome: Delivered | Failed | Refused | Unknown) -> None:
    lease = await given_lease(store, limit=50)
    await settle_with(store, lease, outcome)
    await store.release([lease.id])
