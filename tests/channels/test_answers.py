"""What statuses and Retry-After headers mean, in every spelling."""

import time
from datetime import timedelta
from email.utils import formatdate

import pytest

from sendonce.channels.http.answers import outcome_of_status, retry_after_of, without
from sendonce.domain.answers import http_answer
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, fault_of


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("1.5", 1.5),
        ("999999999", 86_400),
        ("inf", 86_400),
        ("-1", None),
        ("nan", None),
        ("soon", None),
        ("", None),
        ("Wed, 99 Foo 9999", None),
        ("Mon, 01 Jan 0001 00:00:00 -2359", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        (None, None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert retry_after_of(value) == (None if seconds is None else timedelta(seconds=seconds))


def test_retry_after_as_a_date_counts_from_now() -> None:
    wait = retry_after_of(formatdate(time.time() + 120, usegmt=True))

    assert wait is not None
    assert timedelta(seconds=100) < wait <= timedelta(seconds=120)


@pytest.mark.parametrize("zone", ["AAA0", "AAA12", "AAA-14"])
def test_retry_after_as_a_date_without_a_zone_is_in_utc_wherever_we_are(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    with monkeypatch.context() as here:
        here.setenv("TZ", zone)
        time.tzset()
        wait = retry_after_of(formatdate(time.time() + 600))
    time.tzset()

    assert wait is not None
    assert timedelta(seconds=100) < wait <= timedelta(seconds=600)


@pytest.mark.parametrize("retry_after", [None, timedelta(0), timedelta(seconds=7)])
def test_status_means_what_the_table_says(retry_after: timedelta | None) -> None:
    for status in range(100, 1000):
        row = http_answer(status, asks_to_wait=retry_after is not None)
        outcome = outcome_of_status(status, retry_after, "said")

        assert type(outcome) is type(row)
        assert outcome.response == "said"
        if not isinstance(outcome, Delivered | Accepted):
            assert (outcome.code, fault_of(outcome)) == (f"http_{status}", fault_of(row))
        if isinstance(outcome, Failed):
            assert outcome.retry_after == retry_after
        if isinstance(outcome, Deferred):
            assert outcome.again_in == retry_after


def test_secrets_are_left_out_in_both_spellings() -> None:
    assert without(r"a s3/cret, a s3\/cret and a cat", ["s3/cret", "cat", "nothing"]) == "a •••, a ••• and a cat"
