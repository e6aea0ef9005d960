"""Callers that meet: one key, one version or one subject from many sides at once."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from sendonce import KeyReused, PublishError, Requested, RerunRefused
from tests.outbox.databases import Address, recording
from tests.outbox.requesting import OUTBOX, TYPE, asked, counts
from tests.outbox.test_races import PATIENCE, in_background

CALLERS = 50
FIXED = [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE]


def race(address: Address, wanted: Callable[[int], dict[str, Any]], callers: int = CALLERS) -> list[Requested | str]:
    """All callers at once, each in a transaction of its own; what each got, or the name of its error."""
    together = threading.Barrier(callers)
    settings: dict[str, Any] = {"timeout": 60} if address.dialect == "sqlite" else {}

    def ask(number: int) -> Requested | str:
        with recording(address, **settings) as connection:
            together.wait(PATIENCE)
            try:
                return OUTBOX.request(connection, TYPE, {"review": 7}, **wanted(number))
            except PublishError as error:
                return type(error).__name__

    with ThreadPoolExecutor(callers) as threads:
        return list(threads.map(ask, range(callers)))


def test_R3_fifty_callers_with_one_key_make_one_request(address: Address) -> None:
    answers = race(address, lambda _: asked())

    assert len({each[:2] for each in answers}) == 1
    assert [isinstance(each, Requested) and each.duplicate for each in answers].count(False) == 1
    assert counts(address) == {
        "events": 1, "deliveries": 2, "contents": 0, "requests": 1, "request_keys": 1, "recipients": 2
    }  # fmt: skip


def test_R4_fifty_keys_for_one_version_make_one_request(address: Address) -> None:
    answers = race(address, lambda number: asked(key=f"job-{number}"))

    assert len({each[:2] for each in answers}) == 1
    assert [isinstance(each, Requested) and each.duplicate for each in answers].count(False) == 1
    assert counts(address) == {
        "events": 1, "deliveries": 2, "contents": 0, "requests": 1, "request_keys": 50, "recipients": 2
    }  # fmt: skip


def test_R5_of_first_versions_that_race_the_lower_ones_are_refused(address: Address) -> None:
    """Whoever comes first is the first; no higher one gets past it without a rerun, and no lower one ever."""
    answers = race(address, lambda number: asked(key=f"job-{number}", version=number), callers=12)

    assert sorted(each for each in answers if isinstance(each, str)) == ["RerunRefused"] * 11
    assert counts(address)["requests"] == counts(address)["events"] == 1


def test_R5_reruns_that_race_only_rise(address: Address) -> None:
    answers = race(address, lambda number: asked(key=f"job-{number}", version=number, rerun=True), callers=12)

    versions = [version for (version,) in address.look("select version from sendonce_requests order by run")]
    assert versions == sorted(versions)
    assert versions[-1] == 11
    assert len(versions) + answers.count("RerunRefused") == 12
    assert counts(address)["events"] == len(versions)


def test_key_for_two_subjects_makes_one_request(address: Address) -> None:
    answers = race(address, lambda number: asked(subject=f"cl-{number}"), callers=8)

    assert answers.count("KeyReused") == 7
    assert counts(address)["requests"] == counts(address)["events"] == 1


@contextmanager
def first_caller(address: Address) -> Iterator[psycopg.Connection]:
    """A connection that has requested version 3 and not yet ended its transaction."""
    with psycopg.connect(address.url) as first:
        OUTBOX.request(first, TYPE, {"review": 7}, **asked())
        yield first


@pytest.mark.parametrize("changed", [{}, {"key": "job-2"}, {"version": 2, "key": "job-2"}, {"subject": "cl-8"}])
@pytest.mark.parametrize("level", FIXED)
def test_request_that_races_with_a_fixed_snapshot_must_be_run_again(
    postgres_address: Address, level: psycopg.IsolationLevel, changed: dict[str, Any]
) -> None:
    def work(connection: psycopg.Connection) -> Any:
        connection.isolation_level = level
        with pytest.raises(psycopg.errors.SerializationFailure):
            OUTBOX.request(connection, TYPE, {"review": 7}, **asked(**changed))
        connection.rollback()
        try:
            return OUTBOX.request(connection, TYPE, {"review": 7}, **asked(**changed)).duplicate
        except (KeyReused, RerunRefused) as error:
            return type(error)

    with first_caller(postgres_address) as first:
        future = in_background(postgres_address, work)
        first.commit()

        assert future.result(PATIENCE) in (True, KeyReused, RerunRefused)
    assert counts(postgres_address)["requests"] == 1


def test_publisher_is_first_when_the_other_one_rolls_back(postgres_address: Address) -> None:
    def work(connection: psycopg.Connection) -> bool:
        return OUTBOX.request(connection, TYPE, {"review": 8}, **asked(version=1)).duplicate

    with first_caller(postgres_address) as first:
        future = in_background(postgres_address, work)
        first.rollback()

        assert future.result(PATIENCE) is False
