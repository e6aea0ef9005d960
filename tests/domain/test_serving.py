"""What a worker serves among others: schemes, and beginnings that keep their addresses from those without them."""

import pytest

from sendonce.domain.serving import Served, open_name, shown

JOBS = "https://runner.example/jobs/"


@pytest.mark.parametrize(
    ("address", "lacked"),
    [
        ("https://runner.example/jobs/7", JOBS),
        ("https://runner.example/other", None),
        ("https://runner.example/jobs", None),
        ("sms:+491", "sms"),
        ("null:", None),
        ("sms", "sms"),
        (JOBS, JOBS),
    ],
)
def test_serving_excludes_what_only_others_serve(address: str, lacked: str | None) -> None:
    assert Served(["https", "null"], {JOBS: False, "sms": True, "https": True}).lacked(address) == lacked


def test_longer_beginning_of_somebody_else_goes_before_a_shorter_one_of_ones_own() -> None:
    served = Served(["https://runner.example/"], {JOBS: True})

    assert served.lacked("https://runner.example/a") is None
    assert served.lacked("https://runner.example/jobs/a") == JOBS


def test_beginning_that_it_serves_too_is_its_own() -> None:
    assert Served(["https", JOBS], {JOBS: True}).lacked(f"{JOBS}7") is None


def test_serving_includes_what_live_workers_serve() -> None:
    served = Served(["null"], {"sms": True, "fax": False, JOBS: True, "https": False})

    assert [served.is_live(each) for each in ("null:", "sms:1", "fax", f"{JOBS}1", "https://a/")] == [
        True, True, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("others", [{JOBS: True}, {JOBS: True, open_name(JOBS): True}])
def test_profile_keeps_subscriptions_from_others_only_where_it_is_open_to_them(others: dict[str, bool]) -> None:
    served = Served(["https", "sms"], others)

    assert served.lacked(f"{JOBS}7") == JOBS
    lacked = open_name(JOBS) if open_name(JOBS) in others else None
    assert served.lacked(f"{JOBS}7", is_subscription=True) == lacked
    assert served.lacked(open_name(JOBS)) == lacked
    assert served.lacked("sms:1", is_subscription=True) is None


def test_profile_alone_serves_no_subscription_that_it_is_not_open_to() -> None:
    assert Served([JOBS]).lacked(f"{JOBS}7", is_subscription=True) == "https"
    assert Served([JOBS, open_name(JOBS)]).lacked(f"{JOBS}7", is_subscription=True) is None


def test_beginning_of_another_scheme_serves_subscriptions_too() -> None:
    assert Served(["sms"], {"sms:+49": True}).lacked("sms:+491", is_subscription=True) == "sms:+49"


def test_names_as_people_read_them() -> None:
    assert [shown(each) for each in ("sms", JOBS, open_name(JOBS))] == ["sms:", JOBS, f"{JOBS} (subscriptions)"]
