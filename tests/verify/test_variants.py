"""Every part of a check's rule finds something of its own, and what only looks like a fault is none."""

import pytest

from sendonce.admin.checks import CHECKS
from sendonce.store.ports import Store
from tests.store.aging import without_rules
from tests.store.databases import PostgresDatabase
from tests.verify.conftest import Scene
from tests.verify.plants import do, id_of
from tests.verify.scene import found, looked
from tests.verify.variants import FORBIDDEN, NO_FAULTS, VARIANTS

CONSTRAINTS = {"sendonce_deliveries_whereabouts": "sendonce_deliveries", "sendonce_attempts_ended": "sendonce_attempts"}


async def found_by(store: Store, name: str) -> list[int | str]:
    """What one check has found."""
    findings = (await looked(store, checks=[each for each in CHECKS if each.name == name])).findings
    return findings[name].found if name in findings else []


@pytest.mark.parametrize("variant", VARIANTS)
async def test_way_to_break_its_rule_is_found_by_a_check(scene: Scene, store: Store, variant: str) -> None:
    wanted = []
    for statements, answer in VARIANTS[variant]:
        do(scene.database, scene.ids, statements)
        wanted.append(id_of(scene.database, scene.ids, answer))

    assert await found_by(store, variant.partition(" ")[0]) == sorted(wanted)


@pytest.mark.parametrize("check", FORBIDDEN)
async def test_fault_that_a_constraint_forbids_is_found_where_it_is_gone(
    scene: Scene, store: Store, check: str
) -> None:
    with without_rules(scene.database) as connection:
        if isinstance(scene.database, PostgresDatabase):
            for name, table in CONSTRAINTS.items():
                connection.execute(f"alter table {table} drop constraint {name}")
        else:
            connection.execute("pragma ignore_check_constraints = on")
        do(scene.database, scene.ids, [statement for statement, _ in FORBIDDEN[check]], on=connection)

    assert await found_by(store, check) == sorted(
        id_of(scene.database, scene.ids, answer) for _, answer in FORBIDDEN[check]
    )


@pytest.mark.parametrize("case", NO_FAULTS)
async def test_row_that_only_looks_like_a_fault_is_none(scene: Scene, store: Store, case: str) -> None:
    do(scene.database, scene.ids, NO_FAULTS[case])

    assert (await looked(store, step=100)).findings == {}


async def test_delivery_without_its_open_attempt_is_reported_once(scene: Scene, store: Store) -> None:
    do(scene.database, scene.ids, ["delete from sendonce_attempts where delivery_id = :flying"])

    assert await found(store) == {"attempts": [scene.ids["flying"]]}
