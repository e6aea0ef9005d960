"""A tenant's admin: every verb of it, looked through for words of others and of those who run the service."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from sendonce import Admin, NotAllowed, NotFound, SendonceError, TenantAdmin
from sendonce.store.ports import Store
from tests.admin.calls import LOOKS, NOWHERE, OPERATORS, SHARED, Call, Ids, vars_of, verbs_of
from tests.admin.planted import MARK, OPERATOR, WORDS, Planted, planted, renew, tables_of, texts
from tests.crash.accounts import url_of
from tests.store.conftest import database, postgres_template, sqlite_template, store
from tests.store.databases import Database

__all__ = ["database", "postgres_template", "sqlite_template", "store"]

# How one comes from one admin to another, which does nothing with the database.
WAYS = {"as_operator", "for_tenant", "open", "on"}
NOUNS = {
    "events": "event",
    "deliveries": "delivery",
    "dead_letters": "dead letter",
    "requests": "request",
    "subscriptions": "subscription",
}
LISTS = ("events", "deliveries", "dead_letters", "undelivered", "requests", "subscriptions")
Verb: TypeAlias = Callable[[Admin | TenantAdmin, str, Call], Awaitable[object]]


async def awaited(admin: Admin | TenantAdmin, name: str, call: Call) -> object:
    args, kwargs = call
    return await getattr(admin, f"a{name}")(*args, **kwargs)


async def called(admin: Admin | TenantAdmin, name: str, call: Call) -> object:
    args, kwargs = call
    return getattr(admin, name)(*args, **kwargs)


@pytest_asyncio.fixture
async def operator(database: Database) -> AsyncIterator[Admin]:
    """The admin of the operator whose name and reasons are planted."""
    async with Admin.aopen(url_of(database), operator=OPERATOR) as admin:
        yield admin


@pytest_asyncio.fixture
async def world(database: Database, store: Store, operator: Admin) -> Planted:
    return await planted(database, store, operator)


IN_ALL_WAYS = pytest.mark.parametrize(
    ("database", "verb"), [("sqlite", awaited), ("sqlite", called), ("postgres", awaited)], indirect=True
)


@pytest.fixture
def verb(request: pytest.FixtureRequest) -> Verb:
    """How a verb is carried out: awaited in the event loop, or called without one."""
    found: Verb = request.param
    return found


@pytest_asyncio.fixture
async def acme(verb: Verb, database: Database, operator: Admin) -> AsyncIterator[TenantAdmin]:
    if verb is awaited:
        yield operator.for_tenant("acme").as_operator("shop")
        return
    with Admin.open(url_of(database), operator=OPERATOR) as admin:
        yield admin.for_tenant("acme").as_operator("shop")


def test_verbs_that_are_public_are_all_in_the_table_of_calls() -> None:
    shown = {name for name, value in vars_of(TenantAdmin).items() if not callable(value)}

    assert verbs_of(TenantAdmin) - WAYS == set(SHARED)
    assert verbs_of(Admin) - verbs_of(TenantAdmin) - WAYS == set(OPERATORS)
    assert {each.name for each in fields(TenantAdmin)} | shown == {"session", "operator", "tenant"}
    for name in SHARED:
        assert callable(getattr(TenantAdmin, f"a{name}")), name


@IN_ALL_WAYS
async def test_tenant_is_told_nothing_of_others_by_any_verb(
    database: Database, store: Store, operator: Admin, world: Planted, acme: TenantAdmin, verb: Verb
) -> None:
    for name, calls in SHARED.items():
        if name not in LOOKS:
            await renew(database, store, operator)
        answers = 0
        for call in calls.of(Ids.of(database, NOWHERE)):
            try:
                told = await verb(acme, name, call)
                answers += 1
            except SendonceError as error:
                told = error
            for text in texts(told):
                assert MARK not in text.lower(), (name, call)
        assert answers > 0, name


@IN_ALL_WAYS
async def test_tenant_finds_only_its_own_by_any_list_and_any_id(
    database: Database, operator: Admin, world: Planted, acme: TenantAdmin, verb: Verb
) -> None:
    before = tables_of(database)
    nowhere = Ids(**{each.name: [NOWHERE] for each in fields(Ids)})

    for name in LISTS:
        found: Any = await verb(acme, name, ((), {}))
        assert {each.tenant for each in found} == {"acme"}, name
        with pytest.raises(NotAllowed, match="a tenant sees its own rows only; leave tenant out"):
            await verb(acme, name, ((), {"tenant": "globex"}))
    for name, calls in SHARED.items():
        if calls.what is None:
            continue
        for ids in (world.theirs, nowhere):
            for row_id, call in zip(getattr(ids, calls.what), calls.of(ids), strict=True):
                with pytest.raises(NotFound) as missing:
                    await verb(acme, name, call)
                assert str(missing.value) == f"there is no {NOUNS[calls.what]} {row_id}", name

    assert tables_of(database) == before


def test_tenant_is_refused_what_only_operators_may_do(database: Database) -> None:
    with Admin.open(url_of(database), operator=OPERATOR) as admin:
        tenant = admin.for_tenant("acme")
        for name in vars_of(Admin).keys() - vars_of(TenantAdmin).keys():
            with pytest.raises(NotAllowed, match=f"^{name} is for operators; an Admin without a tenant has it$"):
                getattr(tenant, name)
        with pytest.raises(AttributeError, match="no attribute 'send_all'"):
            tenant.send_all  # type: ignore[attr-defined]  # noqa: B018


async def test_operator_sees_every_word_that_was_planted(database: Database, operator: Admin, world: Planted) -> None:
    seen: set[str] = set()
    looks = ("events", "deliveries", "dead_letters", "attempts_of", "subscriptions", "findings_of", "explain")
    others = ("evidence_of", "operations", "status", "stops", "alerts", "messages", "workers")
    for name in (*looks, *others):
        for call in (SHARED | OPERATORS)[name].of(Ids.of(database)):
            told = " ".join(texts(await awaited(operator, name, call)))
            seen |= {word for word in WORDS if word in told}

    assert seen == set(WORDS)


async def test_page_of_a_tenant_tells_when_others_were_made_to_the_minute_only(
    database: Database, operator: Admin, world: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sendonce.store.filters.SIZES", (2,))
    tenant = operator.for_tenant("globex")

    theirs, ours = await tenant.aevents(), await operator.aevents(limit=2)

    assert theirs.rows == ()
    assert (theirs.looked_back_to is not None, ours.looked_back_to is not None) == (True, True)
    assert (theirs.looked_back_to or database.now()).second == 0
    own = await operator.for_tenant("acme").aevents(limit=1)
    assert own.looked_back_to == own[0].created_at
