"""What is promised and what is not: each with its conditions, the tests that hold it, the runs that tried it."""

from typing import NamedTuple


class Promise(NamedTuple):
    """A line of the page. A test is `file::function`, below tests/."""

    words: str
    conditions: str
    tests: tuple[str, ...]
    runs: tuple[str, ...] = ()


PROMISED: tuple[Promise, ...] = (
    Promise(
        "An event is recorded exactly when the transaction that publishes it commits",
        "always; SQLite and PostgreSQL, every isolation level, the application killed at any point",
        (
            "outbox/test_transactions.py::test_transaction_that_is_rolled_back_leaves_nothing",
            "outbox/test_transactions.py::test_isolation_level_will_do",
            "crash/test_application.py::test_event_is_there_exactly_when_the_memo_is",
            "crash/test_application.py::test_application_killed_at_random_leaves_whole_transactions_only",
        ),
    ),
    Promise(
        "The same key twice is one event, and different content under a used key is never dropped in silence",
        "always; also when 50 callers race",
        (
            "outbox/test_races.py::test_publishers_of_one_key_make_one_event",
            "outbox/test_duplicates.py::test_key_reused_with_different_content_is_refused_and_writes_nothing",
            "crash/test_network.py::test_application_that_was_not_told_of_its_commit_can_publish_again",
        ),
    ),
    Promise(
        "Nothing is lost: what was committed is delivered, or open, or a dead letter with its reason",
        "the database keeps what it has committed; workers may be killed, frozen and cut off at any point",
        (
            "crash/test_checkpoints.py::test_worker_that_dies_here_loses_nothing",
            "crash/test_killed.py::test_workers_killed_at_random_lose_nothing_and_repeat_only_what_was_in_flight",
            "crash/test_restarts.py::test_restart_under_load_loses_nothing",
            "model/test_model.py::test_model_holds_on_postgres_whatever_happens",
            "crash/test_network.py::test_network_faults_between_worker_and_database_lose_nothing",
            "simulation/test_simulation.py::test_simulation_loses_and_doubles_nothing_whatever_happens",
            "simulation/test_planted_faults.py::test_planted_fault_is_found_by_the_rule_it_breaks",
            "crash/test_chaos.py::test_short_run",
        ),
        ("simulation", "chaos-postgres", "chaos-sqlite", "crashes-postgres", "crashes-sqlite"),
    ),
    Promise(
        "Nothing is doubled at a receiver that deduplicates by the token: every attempt has the same one",
        "the receiver remembers tokens for as long as deliveries are retried, replayed or restored",
        (
            "conformance/test_sending.py::test_R9_D4_attempt_has_the_same_bytes_and_the_same_token",
            "engine/test_attempt.py::test_attempt_carries_the_same_token",
            "simulation/test_simulation.py::test_simulation_loses_and_doubles_nothing_whatever_happens",
            "crash/test_chaos.py::test_short_run",
        ),
        ("simulation", "chaos-postgres", "chaos-sqlite"),
    ),
    Promise(
        "Nothing is doubled at a receiver that can be asked: it is asked before anything is sent again",
        "its answers are true, and what was sent can be found there before `doubt_wait` is over",
        (
            "conformance/test_crashes.py::test_R19_R9_R16_worker_killed_here_doubles_nothing_and_loses_nothing",
            "conformance/test_crashes.py::test_R19_R16_worker_frozen_past_its_lease_doubles_nothing",
            "conformance/test_doubt.py::test_R11_R16_answer_that_was_lost_is_asked_for_and_nothing_is_sent_again",
            "simulation/test_simulation.py::test_simulation_loses_and_doubles_nothing_whatever_happens",
            "crash/test_chaos.py::test_short_run",
        ),
        ("simulation", "chaos-postgres", "chaos-sqlite"),
    ),
    Promise(
        "What may have arrived where nobody can be asked is never sent again without a person",
        "`if_unsure: hold`, the default of e-mail over SMTP",
        (
            "conformance/test_doubt.py::test_R10_where_a_repeat_is_not_wanted_it_is_held_for_a_person",
            "conformance/test_crashes.py"
            "::test_R19_mail_in_flight_when_its_worker_is_killed_is_held_for_a_person_and_not_sent_again",
            "engine/test_attempt.py::test_look_up_that_can_never_tell_holds_where_a_repeat_is_not_wanted",
        ),
        ("simulation", "chaos-postgres", "chaos-sqlite"),
    ),
    Promise(
        "Doubt stays until it is answered: no failure, refusal or restart clears it",
        "always",
        (
            "engine/test_reconciler.py::test_R11_doubt_survives_a_later_failure_and_a_later_refusal",
            "store/test_settle.py::test_doubt_stays_until_it_is_cleared_and_the_next_claim_knows_it",
            "store/test_reconciliation.py"
            "::test_doubt_that_comes_up_while_it_is_being_sent_outlives_what_was_claimed_without_it",
        ),
    ),
    Promise(
        "Nothing is marked sent that was not: first it is sent, then it is marked, in one write with its evidence",
        "always",
        (
            "conformance/test_R.py::test_R9_R18_it_is_sent_with_its_token_first_and_then_marked_in_one_write",
            "conformance/test_doubt.py::test_R18_yes_without_an_id_and_without_evidence_never_counts_as_sent",
        ),
    ),
    Promise(
        "A claim is on the disk before anything is sent",
        "`fsync` is on; whatever `synchronous_commit` says",
        (
            "store/postgres/test_durability.py::test_claim_is_on_the_disk_when_start_returns",
            "store/test_claims.py::test_claim_can_be_seen_by_others_when_start_returns",
            "store/sqlite/test_opening.py::test_file_is_durable_and_rules_are_on",
        ),
    ),
    Promise(
        "No transaction is open while something is sent or asked about",
        "always",
        ("engine/test_open_transactions.py::test_transaction_is_never_open_while_something_is_sent_or_asked_about",),
    ),
    Promise(
        "Every result is fenced: one that comes late or twice changes nothing, and is kept as evidence",
        "always",
        (
            "store/test_late_results.py::test_late_worker_cannot_settle_what_another_one_has_claimed",
            "store/test_late_results.py::test_result_under_another_lease_cannot_settle_the_same_attempt",
            "store/test_settle.py::test_W4_commit_whose_answer_was_lost_is_settled_again_by_a_new_connection",
            "crash/test_frozen_workers.py::test_results_of_a_frozen_worker_are_kept_and_nothing_is_completed_twice",
        ),
    ),
    Promise(
        "History is never edited: the database itself refuses changes to events, ended attempts and ended deliveries",
        "unless the owner of the tables takes the rules away, which `sendonce verify` reports",
        (
            "store/test_rules.py::test_W15_finished_delivery_refuses_any_update_of_any_column",
            "store/test_rules.py::test_W8_finished_attempt_refuses_any_update_of_any_column",
            "store/test_rules.py::test_W8_erasure_takes_the_words_from_an_attempt_and_nothing_else",
            "store/test_rules.py::test_event_refuses_any_update_of_any_column",
            "store/test_rules.py::test_event_keeps_what_it_says_of_itself_without_its_content",
            "store/postgres/test_forbidden.py::test_M10_nobody_but_the_owner_can_take_the_rules_away",
        ),
    ),
    Promise(
        "Only the orchestrator moves a delivery, and a delivery has one active attempt",
        "in code always; by rights with the roles of `sendonce grants`; the second by the database itself",
        (
            "conformance/test_W.py::test_W6_in_code_only_the_orchestrators_statements_move_a_saga_or_make_a_job",
            "store/postgres/test_forbidden.py::test_M10_W6_W17_only_these_roles_have_the_right",
            "store/test_rules.py::test_W8_second_active_attempt_is_refused",
        ),
    ),
    Promise(
        "What a stop, a pause, a rate or a breaker holds back is not forgotten, and not sent before it is let go",
        "claims made after it; what is on its way may end",
        (
            "store/test_races.py::test_pause_and_resume_racing_a_publish_and_a_worker_forget_nothing",
            "store/test_races.py::test_stop_and_resume_racing_workers_forget_nothing",
            "store/postgres/test_parking.py::test_delivery_held_and_let_go_while_being_parked_is_not_forgotten",
            "store/test_stops.py::test_stop_holds_back_its_scope_only_and_a_resume_goes_on",
            "store/test_stops.py::test_stop_of_all_claims_nothing_and_resume_goes_on",
            "store/test_parked_queues.py::test_breaker_that_is_open_stops_claims_and_spends_no_attempt",
            "store/test_parked_queues.py::test_subscription_with_a_rate_waits_for_its_tokens",
        ),
    ),
    Promise(
        "A message's effect happens once at a consumer: its receipt commits with the effect, or neither does",
        "the effect is in the same database, and the message comes again within the window of `[inbox] keep`",
        (
            "inbox/test_once.py::test_receipt_and_effect_are_rolled_back_together",
            "inbox/test_races.py::test_message_at_many_consumers_at_once_is_handled_by_one",
            "inbox/test_chain.py::test_consumer_killed_at_any_step_has_effect_and_event_once",
            "crash/test_consumers.py::test_consumer_that_dies_here_leaves_one_effect_for_each_message",
        ),
    ),
    Promise(
        "A message that fails, or that ends its process again and again, is set aside with its reason, and the stream"
        " goes on",
        "consumers that `sendonce consume` or the runner in Python feeds",
        (
            "consumer/test_runner.py::test_consumer_gives_up_after_its_tries",
            "consumer/test_runner.py::test_consumer_gives_up_a_body_that_is_too_large_and_goes_on",
            "consumer/test_poison.py::test_poison_is_set_aside_and_the_stream_goes_on",
        ),
    ),
    Promise(
        "An operation on thousands by filter, killed in the middle, goes on, skipping none and doubling none",
        "always",
        (
            "crash/test_bulk.py::test_bulk_operation_killed_in_the_middle_skips_none_and_doubles_none",
            "store/test_races.py::test_W16_two_people_who_requeue_at_once_open_one_generation",
        ),
    ),
    Promise(
        "One slow or dead receiver does not hold up the others",
        "receivers on other hosts; within the limits of a worker's slots",
        ("engine/test_fairness.py::test_destination_that_never_answers_does_not_hold_up_the_others",),
    ),
    Promise(
        "A receiver that was away for half a minute gets its messages again within 15 s, and one that answers a share"
        " of all requests is never left alone for longer than the first pause or half of the outage so far",
        "with the default settings; it fails at once and does not hang; something waits for it",
        (
            "domain/test_breakers.py::test_pause_grows_only_by_a_probe_that_failed",
            "domain/test_breakers.py::test_breaker_pause_is_at_most_half_of_the_outage_or_the_first_pause",
            "domain/test_breakers.py::test_breaker_ignores_results_from_before_its_last_change",
            "simulation/test_outages.py::test_outage_of_half_a_minute_is_over_within_fifteen_seconds",
            "simulation/test_outages.py::test_receiver_that_answers_seven_of_ten_keeps_its_flow",
        ),
        runs=("recovery",),
    ),
    Promise(
        "What one tenant's recipients do to its messages stops nobody else's, also over a channel that all share",
        "the channel says whose fault it is, or says nothing",
        ("engine/test_partial_outages.py::test_tenants_bad_recipients_stop_nobody_elses_messages",),
    ),
    Promise(
        "A database that is away, restarted, full or locked costs nothing: workers say so, wait, and go on",
        "PostgreSQL and SQLite; a database that loses what it has committed is not covered",
        (
            "crash/test_restarts.py::test_restart_under_load_loses_nothing",
            "crash/test_network.py::test_network_faults_between_worker_and_database_lose_nothing",
            "crash/test_sqlite_troubles.py::test_worker_waits_and_goes_on",
        ),
        ("chaos-postgres",),
    ),
    Promise(
        "A failover to a synchronous standby and a planned switchover lose nothing and double nothing; workers go on by"
        " themselves, also when the old primary comes back as a standby at the same address",
        "the old primary takes no more connections; `make test-more`",
        (
            "failover/test_failover.py::test_synchronous_standby_takes_over_and_nothing_is_lost_or_doubled",
            "failover/test_switchover.py::test_workers_that_are_led_to_the_standby_say_so_once_and_go_on",
            "store/postgres/test_read_only.py::test_worker_says_it_once_and_goes_on_by_itself",
        ),
        ("failover-one-address", "failover-both-addresses"),
    ),
    Promise(
        "After a restore or a failover that lost commits no new event is marked as sent without being sent, nothing"
        " stays in progress for ever, and nothing comes twice to who knows our token, can be asked, or is held",
        "a worker that was there in the last seconds before the loss lives through it, or has its `state` file, and is"
        " the first to claim; else it is typed: `sendonce doubt --open`. `make test-more`",
        (
            "failover/test_lost_commits.py::test_asynchronous_standby_that_is_behind_costs_what_the_docs_say",
            "failover/test_lost_commits.py::test_primary_that_returns_is_a_stranger",
            "crash/test_restore.py::test_worker_with_a_state_file_notices_a_restore_by_itself",
            "crash/test_restore.py::test_restore_with_the_commands_of_the_page_doubles_nothing",
            "crash/test_chaos.py::test_minute_with_operators_at_work",
        ),
        ("failover-asynchronous", "chaos-postgres-operators", "chaos-sqlite-operators"),
    ),
    Promise(
        "A worker's clock that is wrong or jumps loses nothing and doubles nothing",
        "on SQLite, where it is the database's clock, it does not jump ahead twice while one send is on its way",
        (
            "crash/test_clocks.py::test_send_whose_lease_ends_early_is_asked_about_when_it_must_be_over",
            "crash/test_clocks.py::test_workers_whose_clocks_differ_by_an_hour_double_nothing",
            "crash/test_clocks.py::test_clock_that_jumps_while_it_sends_doubles_nothing",
        ),
        ("simulation",),
    ),
    Promise(
        "A filled database is migrated under running programs of the version before, losing and doubling nothing",
        "from one schema to the next; `sendonce migrate` once more when the last old program has stopped",
        (
            "upgrade/test_upgrade.py::test_filled_database_is_migrated_under_running_programs",
            "upgrade/test_upgrade.py::test_upgraded_database_is_like_a_new_one",
            "upgrade/test_releases.py::test_migration_has_the_program_before_it",
        ),
    ),
    Promise(
        "`sendonce verify` finds what cannot be, on a live database, without a false alarm and without a write",
        "what docs/how-to/verify.md lists",
        (
            "verify/test_checks.py::test_fault_that_is_planted_is_found_by_its_check_and_no_other",
            "verify/test_variants.py::test_way_to_break_its_rule_is_found_by_a_check",
            "verify/test_variants.py::test_row_that_only_looks_like_a_fault_is_none",
            "verify/test_live.py::test_verify_finds_only_what_is_planted_while_everybody_is_at_work",
            "verify/test_read_only.py::test_verify_uses_transactions_that_cannot_write",
        ),
    ),
    Promise(
        "No destination, however it is spelled and whatever its name server says, is dialled at an address inside",
        "networks that `SENDONCE_ALLOW_NETWORKS` does not open; SMTP and Apprise are dialled as configured",
        (
            "attack/test_addresses.py::test_address_inside_is_dialled_in_no_spelling",
            "attack/test_rebinding.py::test_name_that_turns_inside_is_refused_from_then_on",
        ),
        ("fuzz",),
    ),
    Promise(
        "Secrets and payloads are in no log, error, process list or page",
        "",
        (
            "attack/test_secrets.py::test_worker_in_every_trouble_tells_no_secret",
            "attack/test_secrets.py::test_options_take_no_secret_as_a_word",
            "cli/test_database.py::test_password_is_never_printed_when_the_address_is_broken",
            "engine/test_send_pool.py::test_channel_that_raises_may_have_sent",
        ),
    ),
)
NOT_PROMISED: tuple[Promise, ...] = (
    Promise(
        "Once in effect at a receiver that neither deduplicates nor can be asked. What was on its way at a crash or a"
        " time-out is sent again with the same token",
        "`if_unsure: resend`; with `hold` a person decides",
        ("crash/test_killed.py::test_workers_killed_at_random_lose_nothing_and_repeat_only_what_was_in_flight",),
    ),
    Promise(
        "That an answer is true. A receiver that says it has nothing, and has it, gets it a second time",
        "receivers that can only be asked",
        ("engine/test_attempt.py::test_look_up_that_finds_nothing_clears_the_doubt_and_sends",),
    ),
    Promise(
        "That nothing arrives after the receiver has truly said that it is not there. A sender that stood still between"
        " its last look at its lease and the wire, or a network that delivers after `doubt_wait`, can double a message",
        "receivers that can only be asked; those that deduplicate are safe",
        ("crash/test_report.py::test_attempt_that_was_overtaken_is_excused_alone",),
        ("simulation", "chaos-postgres"),
    ),
    Promise(
        "What was recorded after the backup that is restored, or was not replicated: the application's rows are gone"
        " with it. What is open is asked about before it is sent",
        "",
        ("conformance/test_crashes.py::test_R16_after_a_restore_what_had_been_sent_is_asked_about_and_not_sent_again",),
    ),
    Promise(
        "Order between deliveries",
        "",
        ("store/test_claims.py::test_claim_takes_the_oldest_first_and_no_more_than_asked_for",),
    ),
)
