"""What statuses and Retry-After headers mean, in every spelling."""

import time
from datetime import timedelta
from email.utils import formatdate

import pytest

from sendonce.channels.answers import outcome_of_status, retry_after_of, without
from sendonce.domain.outcomes import Delivered, Failed, Refused


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


def test_every_status_means_something() -> None:
    kinds = {status: type(outcome_of_status(status, None, None)) for status in range(200, 600)}

    assert [status for status, kind in kinds.items() if kind is Delivered] == list(range(200, 300))
    assert [status for status, kind in kinds.items() if kind is Failed] == [408, 425, 429, *range(500, 600)]
    assert {kind for kind in kinds.values()} == {Delivered, Failed, Refused}


def test_secrets_are_left_out_in_both_spellings() -> None:
    assert without(r"a s3/cret, a s3\/cret and a cat", ["s3/cret", "cat", "nothing"]) == "a •••, a ••• and a cat"
