"""Why numbers are what they are: each is held by the other number that it must be above or below."""

from datetime import timedelta

from sendonce import signing
from sendonce.admin import audit, verify
from sendonce.channels.email import api, smtp_session
from sendonce.channels.email import smtp as smtp_channel
from sendonce.channels.http import dial
from sendonce.channels.http.answers import _LONGEST_WAIT as LONGEST_RETRY_AFTER
from sendonce.domain.durations import parse_duration
from sendonce.domain.policies import DEFAULT_POLICY, next_delay
from sendonce.engine import (
    alerts,
    background,
    bounded_server,
    breakers,
    health,
    lease_keeper,
    metrics_server,
    parking,
    reconciler,
    retention,
    send_pool,
    worker,
)
from sendonce.engine.config import BREAKER_LONGEST, WorkerConfig
from sendonce.inbox import webhooks
from sendonce.store import leases, reconciliation, records, verifying
from sendonce.store.postgres import claims
from sendonce.store.postgres import connection as postgres_connection
from sendonce.store.sqlite import claims as sqlite_claims
from sendonce.store.sqlite import connection as sqlite_connection

S = timedelta(seconds=1)
CONFIG = WorkerConfig()
# What others do with a connection on which nothing is said: uvicorn and Node close it after 5 s, SMTP servers after
# minutes (RFC 5321 4.5.3.2.7 wants five).
SERVERS_KEEP_ALIVE, MAIL_SERVERS_KEEP_ALIVE = 5.0, 300.0
# How long an orchestrator of containers waits for a probe's answer by default.
PROBE_SECONDS = 1.0


def span_of_default_policy() -> timedelta:
    """From the first failure to the last attempt, with no jitter."""
    waits = [next_delay(DEFAULT_POLICY, attempt, 0) for attempt in range(1, DEFAULT_POLICY.max_attempts)]
    return sum(waits, timedelta(0))


def test_connection_is_dropped_before_servers_drop_it_and_leave_us_in_doubt() -> None:
    assert dial.KEEP_ALIVE_SECONDS < SERVERS_KEEP_ALIVE
    assert smtp_session.IDLE_SECONDS < MAIL_SERVERS_KEEP_ALIVE / 2


def test_audit_begins_before_what_was_on_its_way_for_longest() -> None:
    assert span_of_default_policy() < audit.LONGEST_WAY
    assert 2 * timedelta(days=1) < audit.LONGEST_WAY
    assert 0.5 < audit.SAFE_PART_OF_MEMORY < 1


def test_audit_looks_back_over_transactions_longer_than_any_of_ours() -> None:
    assert reconciliation.LONGEST_TRANSACTION.total_seconds() > postgres_connection.CALL_SECONDS
    assert verify.SURELY.total_seconds() > postgres_connection.CALL_SECONDS
    assert verify.A_MOMENT < verify.SURELY


def test_worker_says_that_it_is_there_several_times_before_it_is_taken_for_dead() -> None:
    assert records.ALIVE.total_seconds() > 5 * lease_keeper.BEAT_SECONDS
    assert records.ALIVE.total_seconds() > lease_keeper.BEAT_SECONDS + 2 * background.LONGEST_SECONDS
    # Who serves the gauges stops before another one begins, and they are read several times before they are stale.
    assert records.ALIVE.total_seconds() > metrics_server.CONFIRMED_SECONDS
    assert metrics_server.STALE_SECONDS >= 3 * metrics_server.READ_SECONDS


def test_lease_of_a_dead_worker_is_taken_over_within_seconds() -> None:
    rounds_a_second = 4
    assert 2 * rounds_a_second * lease_keeper.EXPIRE_LIMIT >= CONFIG.concurrency


def test_worker_that_waits_for_its_database_is_not_taken_for_stuck() -> None:
    assert health.STUCK_SECONDS > postgres_connection.CALL_SECONDS + background.LONGEST_SECONDS
    assert health.STUCK_SECONDS > sqlite_connection.BUSY_SECONDS + background.LONGEST_SECONDS
    assert background.FIRST_SECONDS < background.LONGEST_SECONDS < records.ALIVE.total_seconds()


def test_probe_has_its_answer_before_whoever_asks_gives_up() -> None:
    assert metrics_server.LOOK_SECONDS < PROBE_SECONDS
    assert metrics_server.LOOK_SECONDS < bounded_server.VISIT_SECONDS


def test_lease_outlasts_a_send_with_what_is_left_free_of_it() -> None:
    lease, timeout = CONFIG.lease, DEFAULT_POLICY.timeout
    assert timeout + send_pool.MARGIN_SECONDS * S < lease
    assert send_pool.WATCH_SECONDS < send_pool.MARGIN_SECONDS
    assert timeout + reconciler.MARGIN_SECONDS * S < reconciler.LEASE
    # An expired lease is never left to somebody who looks only now and then.
    assert lease / 3 > lease_keeper.BEAT_SECONDS * S
    assert lease < verifying.SPANS_OF_TIME["longest"]


def test_timeout_of_a_mail_fits_into_a_lease() -> None:
    assert parse_duration(smtp_channel.POLICY["timeout"]) <= CONFIG.longest_send


def test_answer_to_a_mails_last_byte_gets_a_good_part_of_its_time() -> None:
    assert 0.5 <= smtp_channel.SHARE_BEFORE_FINAL <= 0.75


def test_name_that_does_not_answer_costs_no_more_than_half_of_a_send() -> None:
    assert DEFAULT_POLICY.timeout / 2 >= dial.LONGEST_SECONDS * S
    assert dial.MOMENT_SECONDS < dial.LONGEST_SECONDS
    assert dial.LASTING < dial.AT_ONCE < CONFIG.concurrency


def test_retry_after_is_bounded_by_a_day_and_by_the_policy() -> None:
    assert timedelta(seconds=LONGEST_RETRY_AFTER) == timedelta(days=1)
    assert DEFAULT_POLICY.retry_after_cap <= timedelta(seconds=LONGEST_RETRY_AFTER)


def test_default_policy_goes_on_for_more_than_a_day_and_never_sleeps_through_a_recovery() -> None:
    assert span_of_default_policy() > timedelta(days=1)
    assert DEFAULT_POLICY.longest_delay > BREAKER_LONGEST


def test_breaker_is_forgotten_only_after_longer_than_any_pause() -> None:
    assert parking.FORGET_SECONDS * S > BREAKER_LONGEST
    assert 10 * CONFIG.concurrency <= breakers.COUNTED


def test_event_committed_behind_the_mark_waits_no_longer_than_a_poll() -> None:
    assert CONFIG.poll >= claims.FULL_SCAN_SECONDS * S
    assert claims.PARK_LIMIT == sqlite_claims.PARK_LIMIT


def test_turn_of_retention_outlasts_its_longest_step() -> None:
    assert retention.HOLD.total_seconds() > postgres_connection.CALL_SECONDS
    assert retention.HOLD < retention.LOOK_EVERY
    assert 0 < retention.SHARE < 0.2


def test_alert_does_not_flicker_at_its_edge() -> None:
    assert 0.5 < alerts.CALM < 1
    assert timedelta(seconds=metrics_server.READ_SECONDS) < alerts.LINGER


def test_signature_is_good_for_longer_than_a_send_and_not_for_a_replay_next_day() -> None:
    assert DEFAULT_POLICY.timeout < webhooks.TOLERANCE <= timedelta(minutes=5)
    assert 24 <= signing.SHORTEST < signing.LONGEST


def test_lease_id_fits_into_every_readers_number_and_is_not_met_twice() -> None:
    assert 48 <= leases.ID_BITS <= 53


def test_server_that_refuses_our_password_is_left_alone_for_longer_than_one_that_is_busy() -> None:
    assert smtp_session.REST_SECONDS < smtp_session.REST_AFTER_LOG_IN_SECONDS <= 60


def test_provider_is_asked_well_before_it_forgets() -> None:
    assert timedelta(minutes=30) <= api._MARGIN


def test_results_are_written_before_anybody_notices_that_they_were_gathered() -> None:
    assert worker.GATHER_RESULTS_SECONDS <= worker.GATHER_SECONDS < 0.05
    assert CONFIG.lease / 100 > worker.GATHER_SECONDS * S
    assert CONFIG.concurrency <= worker.SETTLE_LIMIT
