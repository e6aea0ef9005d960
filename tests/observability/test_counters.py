"""What a worker has done, counted from its facts."""

from datetime import timedelta

from sendonce.observability import metrics
from sendonce.observability.facts import (
    AlertFailed,
    Begun,
    CommitsLost,
    DatabaseBack,
    DatabaseLost,
    Disabled,
    Expired,
    Fact,
    LeasesLost,
    Settled,
    Tripped,
)
from sendonce.observability.metrics import OUTCOMES, Counters, Metric, exposition
from tests.scrapes import samples_of

BEGUN = Begun(worker_id=7, name="host:1", concurrency=50, channels=("https", "https://runner.example/jobs/", "null"))
SETTLED = Settled(
    completed=3, retrying=2, dead_lettered=1, in_doubt=2, already_applied=4, late=5, took=timedelta(milliseconds=20),
    attempts=(
        ("https", "Delivered", (0.004, 0.3, 99.0)), ("https", "Deferred", (0.0,)), ("nasty", "Failed", (0.1,)),
    ),
    look_ups=(("found", 2),),
)  # fmt: skip


def counted(*facts: Fact) -> dict[str, float]:
    counters = Counters("1.2")
    for fact in facts:
        counters.on_fact(fact)
    return samples_of(exposition(counters.measured(), "")[0].decode())


def test_counter_with_known_labels_starts_at_zero() -> None:
    found = counted(BEGUN)

    for outcome in OUTCOMES:
        assert found[f'sendonce_attempts_total{{channel="https",outcome="{outcome}"}}'] == 0
    assert found['sendonce_results_total{result="late"}'] == 0
    assert found['sendonce_database_lost_total{part="lease_keeper"}'] == 0
    assert found["sendonce_leases_lost_total"] == 0
    assert found['sendonce_attempt_seconds_count{channel="null"}'] == 0


def test_batch_is_counted_by_channel_outcome_and_result() -> None:
    found = counted(BEGUN, SETTLED, SETTLED)

    assert found['sendonce_attempts_total{channel="https",outcome="Delivered"}'] == 6
    assert found['sendonce_attempts_total{channel="https",outcome="Deferred"}'] == 2
    assert found['sendonce_results_total{result="completed"}'] == 6
    assert found['sendonce_results_total{result="dead_lettered"}'] == 2
    assert found['sendonce_results_total{result="already_applied"}'] == 8
    assert found['sendonce_results_total{result="late"}'] == 10
    assert found["sendonce_doubts_total"] == 4
    assert found['sendonce_look_ups_total{answer="found"}'] == 4
    assert found["sendonce_settle_seconds_count"] == 2


def test_histogram_spreads_seconds_over_bounds_without_deferrals() -> None:
    found = counted(BEGUN, SETTLED)

    assert found['sendonce_attempt_seconds_bucket{channel="https",le="0.005"}'] == 1
    assert found['sendonce_attempt_seconds_bucket{channel="https",le="0.25"}'] == 1
    assert found['sendonce_attempt_seconds_bucket{channel="https",le="60.0"}'] == 2
    assert found['sendonce_attempt_seconds_bucket{channel="https",le="+Inf"}'] == 3
    assert found['sendonce_attempt_seconds_count{channel="https"}'] == 3
    assert found['sendonce_attempt_seconds_sum{channel="https"}'] == 99.304


def test_scheme_that_no_channel_serves_is_not_for_labels() -> None:
    found = counted(BEGUN, SETTLED)

    assert found['sendonce_attempts_total{channel="other",outcome="Failed"}'] == 1
    assert {name for name in found if "nasty" in name or "runner" in name or "host" in name} == set()


def test_facts_of_other_kinds_are_counted() -> None:
    found = counted(
        Expired(attempts=3, retrying=2, dead_lettered=1),
        LeasesLost(leases=2),
        CommitsLost(is_new=True),
        DatabaseLost(part="lease keeper", reason="no"),
        DatabaseBack(part="lease keeper", after=timedelta(seconds=1)),
        Tripped(code="http_503"),
        Disabled(subscription_id=1, reason="gone"),
        AlertFailed(way="mail", reason="no"),
    )

    assert found["sendonce_attempts_expired_total"] == 3
    assert found["sendonce_leases_lost_total"] == 2
    assert found["sendonce_commits_lost_total"] == 1
    assert found['sendonce_database_lost_total{part="lease_keeper"}'] == 1
    assert found["sendonce_breakers_tripped_total"] == 1
    assert found["sendonce_subscriptions_disabled_total"] == 1
    assert found['sendonce_alerts_failed_total{way="mail"}'] == 1


def test_worker_says_which_one_it_is() -> None:
    found = counted(BEGUN)

    assert found['sendonce_worker_info{version="1.2",worker_id="7"}'] == 1
    assert found["sendonce_worker_slots"] == 50


def test_counters_are_all_defined() -> None:
    counters = Counters("1.2")
    counters.on_fact(BEGUN)

    measured: set[Metric] = {metric for metric, _ in counters.measured()}

    assert set(metrics.OF_A_WORKER) - measured == {metrics.IN_FLIGHT, metrics.ANSWERS}
