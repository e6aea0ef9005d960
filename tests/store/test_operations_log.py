"""Every verb that a person has is in the operations log: who, when, what, why and to how many."""

from collections.abc import Callable
from datetime import timedelta
from inspect import signature
from typing import Any, cast

from sendonce.domain.attempts import Witness
from sendonce.domain.events import new_event
from sendonce.domain.evidence import Evidence, Told
from sendonce.domain.outcomes import Refused
from sendonce.store.bulk import REQUEUE, RUNNING
from sendonce.store.ports import BulkStore, OperatorStore, OrchestratorStore, SealStore, Store
from tests.given import given_due_deliveries, given_due_delivery, given_lease, settle_with
from tests.store.bulkwork import begun, finish
from tests.store.databases import Database

WHO = "ada"
VERBS = {
    name
    for port in (OrchestratorStore, OperatorStore, BulkStore, SealStore)
    for name, verb in vars(port).items()
    if callable(verb) and "operator" in signature(cast(Callable[..., object], verb)).parameters
}


class Noting:
    """A store that notes which of its verbs were used."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.used: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.used.add(name)
        return getattr(self.store, name)


async def act_on_deliveries(database: Database, store: Store) -> dict[str, str]:
    """Everything that is done to deliveries and dead letters; what the log is to say of it, by reason."""
    ids = given_due_deliveries(database, 6)
    await store.cancel(ids[:1], operator=WHO, reason="r-cancel")
    await settle_with(store, await given_lease(store), Refused("410"))
    letters = {row["delivery_id"]: row["id"] for row in database.rows("dead_letters")}
    await store.open_generations(ids[1:2], kind="requeue", operator=WHO, reason="r-requeue")
    await store.open_generations(ids[2:3], kind="replay", operator=WHO, reason="r-replay")
    await store.discard([letters[ids[3]]], operator=WHO, reason="r-discard")
    await store.attest([letters[ids[4]]], operator=WHO, reason="r-attest")
    await store.correct(ids[5], content="{}", destination=None, operator=WHO, reason="r-correct")
    given_due_delivery(database, key="evidence")
    waiting = int(database.one("select max(id) from sendonce_deliveries"))
    refused = Evidence(source="log", outcome=Told.REFUSED, token="t")
    await store.add_evidence(waiting, refused, operator=WHO)
    await store.log_doubt(operator=WHO, reason="r-doubt", affected=1)
    by_filter = await begun(store, REQUEUE)
    await store.set_operation_state(by_filter.id, "paused", operator=WHO, reason="r-pause")
    await store.set_operation_state(by_filter.id, RUNNING, operator=WHO, reason="r-resume")
    await finish(store, by_filter)
    return {
        "r-cancel": f"cancel delivery {ids[0]}",
        "r-requeue": f"requeue delivery {ids[1]}",
        "r-replay": f"replay delivery {ids[2]}",
        "r-discard": f"discard dead letter {letters[ids[3]]}",
        "r-attest": f"attest dead letter {letters[ids[4]]}",
        "r-correct": f"correct delivery {ids[5]}",
        "r-doubt": "doubt open deliveries",
        "log says that it was refused": f"evidence delivery {waiting}",
        "test": "requeue test",
        "r-pause": f"pause operation {by_filter.id}",
        "r-resume": f"resume operation {by_filter.id}",
    }


async def act_on_subscriptions(store: Store) -> dict[str, str]:
    added = await store.add_subscription(
        tenant="", types=["x"], destination="null:x", policy=None, description=None, operator=WHO,
        secrets=lambda _: {"signing": b"secret-1"},
    )  # fmt: skip
    await store.rotate_secret(added, b"secret-2", overlap=timedelta(0), operator=WHO, reason="r-rotate")
    await store.set_subscription_rate(added, 5.0, operator=WHO, reason="r-rate")
    await store.set_subscription_policy(added, None, operator=WHO, reason="r-policy")
    await store.set_subscription_ask(added, "https://a/{token}", operator=WHO, reason="r-ask")
    await store.set_subscription_types(added, ["y"], operator=WHO, reason="r-types")
    await store.add_test(added, new_event("x.test", {}, key="test", to=None), operator=WHO)
    for state in ("paused", "active", "removed"):
        await store.set_subscription_state(added, state, operator=WHO, reason=f"r-{state}")
    await store.reseal(lambda _, __, secret: b"sealed:2:" + secret, operator=WHO)
    named = f"subscription {added}"
    return {
        "r-rotate": named,
        "r-rate": f"rate {named}",
        "r-policy": f"policy {named}",
        "r-ask": f"ask {named}",
        "r-types": f"types {named}",
        "r-paused": f"pause {named}",
        "r-active": f"resume {named}",
        "r-removed": f"remove {named}",
    }


async def test_action_of_a_person_is_in_the_log(database: Database, store: Store) -> None:
    before = database.now() - timedelta(seconds=5)
    noting = Noting(store)
    acting = cast(Store, noting)
    expected = await act_on_deliveries(database, acting)
    await acting.stop("tenant", "acme", operator=WHO, reason="r-stop")
    await acting.resume("tenant", "acme", operator=WHO)
    await acting.name_instance("production", operator=WHO, reason="r-instance")
    witness = Witness(1, 99, 1, 1, before)
    assert await store.notice_loss(witness, wait=timedelta(0), noticed_by="host:7") is not None
    await acting.disprove_loss(operator=WHO, reason="r-nothing-lost")
    expected |= {"r-stop": "stop tenant acme"} | await act_on_subscriptions(acting)
    expected |= {"r-instance": "instance production", "r-nothing-lost": "nothing_lost loss"}

    log = await store.operations(before=10**9, state=None, limit=100)

    assert {row.operator for row in log} == {WHO}
    assert all(before <= row.created_at <= database.now() + timedelta(seconds=5) for row in log)
    assert {row.state for row in log} == {"done"}
    assert all(row.finished_at is not None for row in log)
    said = {row.reason: f"{row.kind} {row.subject}" for row in log if row.reason}
    assert {reason: sentence in said[reason] for reason, sentence in expected.items()} == dict.fromkeys(expected, True)
    without_reason = sorted((row.kind, row.subject) for row in log if row.reason is None)
    assert [kind for kind, _ in without_reason] == ["add", "reseal", "resume", "test"]
    assert len(log) == len(expected) + 4
    assert noting.used >= VERBS, "a verb that is not tried here"
