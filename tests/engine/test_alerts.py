"""When people are told that something needs them: thresholds, what is over, and what is said."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sendonce.engine.alerts import AlertSettings, Change, Clear, Met, Raise, judge
from sendonce.errors import ConfigError
from sendonce.store.records import READING_CAP, AlertRow, ChannelRow, Readings, UnservedRow

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
NOTHING = timedelta(0)
QUIET = AlertSettings(
    dead_letters=0, oldest_due=NOTHING, oldest_open=NOTHING, breakers=NOTHING, in_doubt=0, findings=0, commits_lost=0
)


def read(**values: Any) -> Readings:
    nothing = Readings(now=NOW, dead_letters=0, oldest_due_at=None, in_doubt=0, findings=0, losses=0, is_stopped=False)
    return replace(nothing, **values)


def channel(scheme: str = "https", **values: Any) -> ChannelRow:
    return replace(ChannelRow(scheme=scheme, oldest_open_at=None, breakers=0, breaker_since=None), **values)


def unserved(name: str, age: timedelta, *, waiting: int = 12) -> UnservedRow:
    return UnservedRow(name=name, waiting=waiting, since=NOW - age)


OLD = channel(oldest_open_at=NOW - HOUR, breakers=3, breaker_since=NOW - HOUR)


def raised(name: str, *, told: timedelta = HOUR, seen: int = 0, is_raised: bool = True) -> dict[str, AlertRow]:
    row = AlertRow(
        name=name, message="", is_raised=is_raised, seen=seen, raised_at=NOW - told, told_at=NOW - told
    )  # fmt: skip
    return {name: row}


def judged(
    readings: Readings,
    known: Mapping[str, AlertRow] | None = None,
    faults: Mapping[str, int] | None = None,
    **settings: Any,
) -> list[Change]:
    met = {name: Met(count, "here") for name, count in (faults or {}).items()}
    return judge(AlertSettings(**settings), readings, known or {}, met=met)


def names(changes: list[Change]) -> list[str]:
    return [change.name for change in changes]


@pytest.mark.parametrize(
    ("readings", "name"),
    [
        (read(dead_letters=1), "dead_letters"),
        (read(oldest_due_at=NOW - 6 * MINUTE), "oldest_due"),
        (read(unserved=(unserved("sms", 5 * MINUTE),)), "unserved"),
        (read(channels=(channel(oldest_open_at=NOW - 15 * MINUTE),)), "oldest_open"),
        (read(channels=(channel(breakers=1, breaker_since=NOW - 5 * MINUTE),)), "breakers"),
        (read(in_doubt=100), "in_doubt"),
        (read(losses=1), "commits_lost"),
        (read(findings=1), "findings"),
    ],
)
def test_M12_what_passes_its_threshold_is_raised(readings: Readings, name: str) -> None:
    assert names(judged(readings)) == [name]
    assert judge(QUIET, readings, {}) == []


@pytest.mark.parametrize(
    "readings",
    [
        read(),
        read(oldest_due_at=NOW - 4 * MINUTE),
        read(in_doubt=99),
        read(oldest_due_at=NOW - HOUR, is_stopped=True),
        read(channels=(OLD,), is_stopped=True),
        read(channels=(channel(oldest_open_at=NOW - 14 * MINUTE, breakers=9, breaker_since=NOW - 4 * MINUTE),)),
    ],
    ids=["nothing", "just due", "some doubt", "everything is stopped", "so are the channels", "it has just begun"],
)
def test_alert_is_not_raised_without_need(readings: Readings) -> None:
    assert judged(readings) == []


def test_alert_is_over_only_well_below_its_threshold() -> None:
    known = raised("in_doubt")

    assert isinstance(judged(read(in_doubt=81), known)[0], Raise)
    assert judged(read(in_doubt=80), known) == [Clear("in_doubt", "over: deliveries in doubt")]
    assert judged(read(in_doubt=81)) == []


def test_alert_that_was_just_told_is_not_over_yet() -> None:
    assert judged(read(), raised("dead_letters", told=4 * MINUTE)) == []
    assert names(judged(read(), raised("dead_letters", told=5 * MINUTE))) == ["dead_letters"]


def test_alert_is_over_only_once() -> None:
    assert judged(read(), raised("dead_letters", is_raised=False)) == []


def test_threshold_that_was_switched_off_is_over_at_once() -> None:
    changes = judged(read(dead_letters=9), raised("dead_letters", told=timedelta(0)), dead_letters=0)

    assert [type(change) for change in changes] == [Clear]


def test_fault_on_our_side_is_raised_until_nobody_has_seen_it_for_long() -> None:
    fault = "our_credentials:mailto"
    now = int(NOW.timestamp())

    [change] = judged(read(), faults={fault: 3})
    assert change == Raise(fault, change.message, now, met_at="here")
    assert "mailto: 3 attempts put off: our credentials are refused" in change.message
    assert judged(read(), raised(fault, seen=now - 3599)) == []
    assert names(judged(read(), raised(fault, seen=now - 3600))) == [fault]


def test_alert_names_what_no_worker_can_send_as_our_fault() -> None:
    [change] = judged(read(), faults={"no_channel:mailto": 1})

    assert "mailto: 1 attempt put off: no channel here sends it; configure one" in change.message
    assert names(judged(read(), raised("no_channel:mailto"))) == ["no_channel:mailto"]


def test_unknown_fault_on_our_side_is_told_by_its_code() -> None:
    assert "the fault is on our side (our_quota)" in judged(read(), faults={"our_quota:sms": 1})[0].message


def test_messages_have_counts_and_what_to_do() -> None:
    channels = (channel("mailto", oldest_open_at=NOW - 20 * MINUTE), OLD)
    readings = read(
        dead_letters=READING_CAP, oldest_due_at=NOW - 90 * MINUTE, in_doubt=1234, findings=1, channels=channels
    )

    assert [change.message for change in judged(readings)] == [
        "10,000 or more dead letters wait for a person; see: sendonce dead-letters list",
        "work has been due for 1h 30m and is not being sent; see: sendonce status",
        "a delivery by https has been on its way for 1h and has not come to an end; see: sendonce status",
        "3 destinations fail again and again, the first for 1h: what goes there waits; see: sendonce status",
        "1,234 deliveries may have been sent, and nobody knows; ask: sendonce reconcile",
        "1 delivery marked sent without evidence, or shown to be sent too late, in the last 1h;"
        " see: sendonce reconcile --audit --since 1h",
    ]
    assert judged(read(dead_letters=1))[0].message.startswith("1 dead letter waits for a person")


@pytest.mark.parametrize(
    "wrong",
    [
        {"every": timedelta(milliseconds=999)},
        {"every": timedelta(hours=1, milliseconds=1)},
        {"repeat": timedelta(milliseconds=999)},
        {"repeat": timedelta(days=30, milliseconds=1)},
        {"dead_letters": -1},
        {"in_doubt": READING_CAP + 1},
        {"oldest_due": timedelta(seconds=-1)},
        {"oldest_open": timedelta(seconds=-1)},
        {"breakers": timedelta(seconds=-1)},
        {"webhook_secret": "whsec_x"},
    ],
)
def test_settings_are_checked_when_they_are_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        AlertSettings(**wrong)


def test_alert_names_channels_that_no_live_worker_serves() -> None:
    found = read(unserved=(unserved("sms", 6 * MINUTE), unserved("https://runner.example/jobs/", MINUTE, waiting=1)))

    [change] = judged(found)

    assert isinstance(change, Raise)
    assert change.message == (
        "13 deliveries wait for https://runner.example/jobs/, sms:, which no live worker serves, the first for 6m;"
        " start a worker that does; see: sendonce status"
    )


def test_alert_is_not_raised_while_a_worker_is_replaced() -> None:
    assert judged(read(unserved=(unserved("sms", 4 * MINUTE),))) == []


def test_alert_is_over_when_somebody_serves_the_channel() -> None:
    assert judged(read(), raised("unserved")) == [Clear("unserved", "over: deliveries that no live worker serves")]


@pytest.mark.parametrize(
    "right",
    [
        {"every": timedelta(seconds=1), "repeat": timedelta(seconds=1)},
        {"every": timedelta(hours=1), "repeat": timedelta(days=30)},
        {"oldest_due": timedelta(0), "oldest_open": timedelta(0), "breakers": timedelta(0)},
        {"dead_letters": 0, "in_doubt": READING_CAP, "findings": READING_CAP},
    ],
)
def test_setting_may_have_its_least_and_its_most(right: dict[str, Any]) -> None:
    settings = AlertSettings(**right)

    assert {name: getattr(settings, name) for name in right} == right
