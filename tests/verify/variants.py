"""More ways in which a check's rule can be broken; and what looks like that and is no fault.

The statements are spelled as in `plants`.
"""

_COPY = (
    "insert into sendonce_deliveries (event_id, created_at, updated_at, next_attempt_at, destination, destination_hash,"
    " has_content, generation, corrections) select event_id, created_at, updated_at, {due}, {destination}, {hash},"
    " has_content, {generation}, {corrections} from sendonce_deliveries where id = {of}"
)
_NEWEST = "select max(id) from sendonce_deliveries"


def _copied(of: str, *, generation: int, corrections: int = 0, to: str = "destination", hash: str = "") -> str:
    """A delivery that waits, like that one."""
    return (
        _COPY.replace("{due}", "created_at")
        .replace("{destination}", to)
        .replace("{hash}", hash or "destination_hash")
        .replace("{generation}", str(generation))
        .replace("{corrections}", str(corrections))
        .replace("{of}", of)
    )


def _event(of: str) -> str:
    return f"select event_id from sendonce_deliveries where id = {of}"


# What is done past the rules, in order, and the row that is then found. A check comes once more with what cannot stand
# beside the rest.
VARIANTS: dict[str, list[tuple[list[str], str]]] = {
    "routed": [
        (
            [
                _copied(
                    ":due",
                    generation=0,
                    to="'null:more'",
                    hash="(select destination_hash from sendonce_deliveries where id = :other)",
                )
            ],
            _event(":due"),
        ),
        ([f"update sendonce_events set history_gone_at = created_at where id = ({_event(':sent')})"], _event(":sent")),
    ],
    "contents": [
        (
            [
                "insert into sendonce_contents (event_id, destination_hash, corrections, content)"
                " select event_id, destination_hash, 1, '{}' from sendonce_deliveries where id = :mail"
            ],
            _event(":mail"),
        ),
    ],
    "digests": [
        ([f"update sendonce_events set payload = '[7]' where id = ({_event(of)})"], _event(of))
        for of in (":requeued", ":corrected")
    ],
    "content": [([_copied(":mail", generation=1, corrections=1)], _NEWEST)],
    "attempts": [
        (
            [
                "update sendonce_attempts set outcome = null, status = 'Leased', finished_at = null"
                " where delivery_id = :sent"
            ],
            ":sent",
        ),
        (["update sendonce_attempts set attempt = 2 where delivery_id = :twins"], ":twins"),
        (["update sendonce_deliveries set deferred_count = 1 where id = :other"], ":other"),
    ],
    "leased": [(["update sendonce_leases set deliveries = '{[}:sent{]}'"], ":flying")],
    "leased for an attempt that has ended": [
        (
            [
                "insert into sendonce_attempts"
                " (delivery_id, lease_id, created_at, finished_at, attempt, status, outcome)"
                " select delivery_id, lease_id, created_at, created_at, 2, 'Failed', 'Failed' from sendonce_attempts"
                " where delivery_id = :flying",
                "update sendonce_attempts set lease_id = 999999 where delivery_id = :flying and attempt = 1",
            ],
            ":flying",
        )
    ],
    "parked": [
        (["update sendonce_deliveries set parked_on = 'subscription:999' where id = :parked"], ":parked"),
        (
            [
                "update sendonce_deliveries set next_attempt_at = null, parked_on = 'rate:999', subscription_id ="
                " (select min(id) from sendonce_subscriptions) where id = :in_doubt"
            ],
            ":in_doubt",
        ),
        (
            [
                "insert into sendonce_subscriptions (tenant, destination, created_at, updated_at)"
                " select tenant, destination, created_at, updated_at from sendonce_subscriptions",
                "update sendonce_deliveries set next_attempt_at = null, subscription_id ="
                " (select max(id) from sendonce_subscriptions), parked_on = 'subscription:' ||"
                " (select max(id) from sendonce_subscriptions) where id = :retrying",
            ],
            ":retrying",
        ),
        (["update sendonce_deliveries set next_attempt_at = null, parked_on = 'lunch:x' where id = :due"], ":due"),
        (
            [
                _copied(":due", generation=5),
                "update sendonce_deliveries set next_attempt_at = null, parked_on = 'destination:null:elsewhere'"
                " where generation = 5",
            ],
            _NEWEST,
        ),
    ],
    "generations": [([_copied(":due", generation=1)], _NEWEST), ([_copied(":sent", generation=5)], _NEWEST)],
    "dead_letters": [
        (
            [
                "insert into sendonce_dead_letters (delivery_id, created_at, reason)"
                f" select {of}, created_at, 'refused'"
                " from sendonce_deliveries where id = :sent"
            ],
            of,
        )
        for of in (":sent", "999999")
    ],
    "decided": [
        (
            [
                "update sendonce_dead_letters set closed_at = null, closed_as = null, closed_by = null"
                " where delivery_id = :requeued"
            ],
            ":requeued",
        ),
        (
            [
                "update sendonce_dead_letters set closed_at = created_at, closed_as = 'attested'"
                " where delivery_id = :given_up"
            ],
            ":given_up",
        ),
        (["update sendonce_dead_letters set closed_as = 'corrected' where delivery_id = :by_filter"], ":by_filter"),
    ],
    "corrections": [
        (
            [
                _copied(of, generation=1, corrections=1),
                "insert into sendonce_corrections (delivery_id, replaces, operation_id)"
                f" select max(id), {replaces}, 1 from sendonce_deliveries",
            ],
            _NEWEST,
        )
        for of, replaces in ((":sent", ":sent"), (":twins", "888888"))
    ]
    + [
        (
            ["insert into sendonce_corrections (delivery_id, replaces, operation_id) values (999999, :given_up, 1)"],
            "999999",
        )
    ],
    "outcomes": [
        (["update sendonce_deliveries set notified_at = null where id = :sent"], ":sent"),
        (
            [
                "update sendonce_deliveries set status = 'Completed', next_attempt_at = null, notified_at = created_at"
                " where id = :due"
            ],
            ":due",
        ),
        (
            ["update sendonce_attempts set outcome = 'Delivered', status = 'Completed' where delivery_id = :retrying"],
            ":retrying",
        ),
        (["update sendonce_dead_letters set reason = 'refused' where delivery_id = :cancelled"], ":cancelled"),
    ],
    "ended": [
        (["update sendonce_deliveries set updated_at = updated_at - {hours} where id = :given_up"], ":given_up"),
        (
            [
                "update sendonce_deliveries set updated_at = updated_at - {hours}"
                " where status = 'Completed' and attempt_count = 0"
            ],
            "select id from sendonce_deliveries where status = 'Completed' and attempt_count = 0",
        ),
    ],
    "doubt": [
        (["update sendonce_deliveries set in_doubt = not in_doubt where id = :sent"], ":sent"),
        (
            [
                "update sendonce_attempts set outcome = 'Accepted', status = 'Completed' where delivery_id = :in_doubt",
                "update sendonce_deliveries set in_doubt = not in_doubt where id = :in_doubt",
            ],
            ":in_doubt",
        ),
        (
            [
                "update sendonce_deliveries set in_doubt = not in_doubt where id = :given_up",
                _copied(":given_up", generation=1),
            ],
            _NEWEST,
        ),
        *(
            ([f"update sendonce_deliveries set notification_id = 'n-7' where id = {of}"], of)
            for of in (":due", ":retrying", ":flying", ":parked")
        ),
    ],
    "ids": [(["update sendonce_deliveries set notification_id = null where id = :sent"], ":sent")],
    "lease_use": [
        (
            [
                "insert into sendonce_leases (id, worker_id, created_at, expires_at, deliveries)"
                " select 777777, worker_id, created_at - {hours}, expires_at + {hours} / 6, '{[}:sent{]}'"
                " from sendonce_leases",
                "update sendonce_attempts set lease_id = 777777 where delivery_id = :sent",
            ],
            "777777",
        ),
        (
            [
                "insert into sendonce_leases (id, worker_id, created_at, expires_at, deliveries)"
                " select 777778, worker_id, created_at, expires_at, '{[}:flying{]}' from sendonce_leases"
                " where id = 777777"
            ],
            "777778",
        ),
    ],
    "requests": [(["delete from sendonce_recipients"], "select id from sendonce_requests")],
    "requests without an event": [
        (
            ["delete from sendonce_events where id = (select event_id from sendonce_requests)"],
            "select id from sendonce_requests",
        )
    ],
    "request_parts": [
        (
            [
                "insert into sendonce_recipients (request_id, destination_hash, is_required, destination)"
                " select 888888, destination_hash, is_required, destination from sendonce_recipients"
            ],
            "888888",
        )
    ],
    "handled": [(["update sendonce_receipts set consumer = 'mailer'"], ":handled")],
    "message_generations": [
        (["update sendonce_messages set generation = 2 where generation = 1"], ":tried_again"),
    ],
    "tries": [
        (
            [
                "insert into sendonce_tries (message, number, begun_at) select 999999, 1, begun_at from sendonce_tries"
                " where message = :handled"
            ],
            "999999",
        )
    ],
}

# What a constraint of the table would refuse, too.
FORBIDDEN: dict[str, list[tuple[str, str]]] = {
    "waiting": [
        ("update sendonce_deliveries set next_attempt_at = null where id = :due", ":due"),
        ("update sendonce_deliveries set parked_on = 'place:x' where id = :retrying", ":retrying"),
        ("update sendonce_deliveries set next_attempt_at = created_at where id = :sent", ":sent"),
        ("update sendonce_deliveries set parked_on = 'place:x' where id = :given_up", ":given_up"),
    ],
    "attempts": [
        ("update sendonce_attempts set status = 'Leased' where delivery_id = :sent", ":sent"),
        ("update sendonce_attempts set finished_at = null where delivery_id = :twins", ":twins"),
    ],
}

_UNUSED = (
    "insert into sendonce_leases (id, worker_id, created_at, expires_at, deliveries)"
    " select {id}, worker_id, {created}, {expires}, '{none}' from sendonce_leases where id not in (777777, 777778)"
)
_OVERDUE = "update sendonce_leases set expires_at = expires_at - {hours}"
_OLD_WORKER = "update sendonce_workers set started_at = started_at - {hours}"

NO_FAULTS: dict[str, list[str]] = {
    "a message that retention has taken, before its receipt": [
        "delete from sendonce_tries where message = :handled",
        "delete from sendonce_messages where id = :handled",
    ],
    "an id that was asked about, of an attempt and of the generation before": [
        "update sendonce_attempts set outcome = 'Deferred', notification_id = 'n-7' where delivery_id = :retrying",
        "update sendonce_deliveries set notification_id = 'n-7', deferred_count = 1 where id = :retrying",
        "update sendonce_deliveries set notification_id = 'n-8' where id = :given_up",
    ],
    "content that was erased, and a correction of it": [
        "update sendonce_contents set content = null",
        _copied(":mail", generation=1, corrections=1),
        "insert into sendonce_contents (event_id, destination_hash, corrections, content)"
        " select event_id, destination_hash, 1, '{}' from sendonce_deliveries where id = :mail",
    ],
    "a correction that goes where another has gone": [
        _copied(":twins", generation=1, corrections=1, to="'null:b'"),
    ],
    "rooms that workers serve": [
        "update sendonce_deliveries set next_attempt_at = null, parked_on = 'destination:' || destination"
        " where id = :due",
        "update sendonce_deliveries set next_attempt_at = null, parked_on = 'place:null' where id = :retrying",
        "update sendonce_deliveries set parked_on = 'rate:' || subscription_id where id = :parked",
    ],
    "a disabled subscription": ["update sendonce_subscriptions set state = 'disabled'"],
    "deadlines that excuse a wait": [
        "update sendonce_deliveries set expires_at = created_at, next_attempt_at = next_attempt_at + {hours}"
        " where id in (:in_doubt, :due)",
        "update sendonce_deliveries set expires_at = created_at - {hours} where id = :retrying",
    ],
    "a deadline that has just passed": [
        "update sendonce_deliveries set expires_at = created_at, next_attempt_at = next_attempt_at + {hours} / 6"
        " where id = :retrying",
    ],
    "a correction of what was in doubt": [
        "update sendonce_deliveries set in_doubt = not in_doubt where id = :given_up",
        "update sendonce_dead_letters set closed_at = created_at, closed_as = 'requeued' where delivery_id = :given_up",
        _copied(":given_up", generation=1, corrections=1),
    ],
    "ids that came late, or twice": [
        "update sendonce_deliveries set proven_at = created_at, notification_id = 'another' where id = :sent",
        "update sendonce_deliveries set attempt_count = 2, notification_id = 'n-2' where id = :twins",
        "insert into sendonce_attempts"
        " (delivery_id, lease_id, created_at, finished_at, attempt, status, outcome, notification_id)"
        " select delivery_id, lease_id, created_at, finished_at, 2, status, outcome, 'n-2' from sendonce_attempts"
        " where delivery_id = :twins",
    ],
    "leases of which nothing is left, new and expired": [
        _UNUSED.replace("{id}", "777777")
        .replace("{created}", "created_at")
        .replace("{expires}", "expires_at + {hours} / 6"),
        _UNUSED.replace("{id}", "777778")
        .replace("{created}", "created_at - {hours}")
        .replace("{expires}", "created_at - {hours} / 180"),
    ],
    "an overdue lease, and a worker that has just come": [_OVERDUE],
    "an overdue lease, and a worker that is not seen": [
        _OVERDUE,
        _OLD_WORKER,
        "update sendonce_workers set seen_at = started_at",
    ],
    "an overdue lease, and a worker that has stopped": [
        _OVERDUE,
        _OLD_WORKER,
        "update sendonce_workers set stopped_at = seen_at, seen_at = seen_at + {hours}",
    ],
    "a lease that has run out a moment ago": [
        "update sendonce_leases set expires_at = expires_at - {hours} / 36",
        _OLD_WORKER,
        "update sendonce_workers set seen_at = seen_at + {hours}",
    ],
    "operations that ended long ago, or go on": [
        "update sendonce_operations set updated_at = updated_at - {hours} where id <> :operation",
        "update sendonce_operations set state = 'running', finished_at = null where id = :operation",
    ],
}
