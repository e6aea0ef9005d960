"""Least rights by role, printed for those who want them. One ordinary user is enough to run everything.

app           records events and reads where they go, never a status; keeps its own inbox
orchestrator  runs start, settle and cancel; never deletes, never touches events or subscriptions
worker        renews, releases and expires leases (expiry also settles, so its login needs orchestrator too)
operator      opens generations, closes dead letters, stops and resumes, keeps subscriptions
janitor       blanks payloads and deletes what is finished and old (an erasure also cancels: orchestrator too)
reader        looks, without payloads and secrets
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from sendonce.errors import ConfigError

PREFIX = "sendonce_"
ROLES = ("app", "orchestrator", "worker", "operator", "janitor", "reader")

_EVENT_FACTS = (
    "id, version, created_at, content_gone_at, history_gone_at, content_digest, tenant, type, key, subject, headers,"
    " routed"
)
_TABLES_FOR_READING = (
    "meta, subscriptions, subscription_types, deliveries, attempts, leases, dead_letters, findings, corrections,"
    " operations, stops, breakers, buckets, alerts, workers, counters, retention, requests, request_keys, recipients,"
    " recipient_states, request_states, losses, tries, evidence"
)

_MESSAGE_FACTS = (
    "id, created_at, updated_at, seen_at, next_attempt_at, ended_at, closed_at, content_gone_at, generation, sightings,"
    " begun, finished, consumer, message_id, status, reason, error_code, error_message, closed_as, closed_by, source,"
    " source_position, trace, content_type"
)

_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,49}", re.ASCII)

_GRANT = re.compile(r"^grant (.*?)\s+on (?:(function|sequence) )?(.*?)\s+to ([^;]*);", re.MULTILINE | re.DOTALL)
_PRIVILEGE = re.compile(r"(select|insert|update|delete|usage|execute)(?: \(([^)]*)\))?")
_OBJECT = re.compile(r"sendonce_\w+(?:\([^)]*\))?")

_GRANTS = """
grant select on sendonce_meta to {all};

-- app: the event and its deliveries in their first state, and nothing afterwards
grant insert, select on sendonce_events to {app};
grant insert (event_id, corrections, destination_hash, content), select (event_id, destination_hash, corrections)
  on sendonce_contents to {app};
grant insert (event_id, subscription_id, next_attempt_at, expires_at, destination, destination_hash, has_content,
  if_unsure) on sendonce_deliveries to {app};
grant select (id, event_id, destination, destination_hash, generation) on sendonce_deliveries to {app};
grant select on sendonce_subscriptions, sendonce_subscription_types to {app};
grant insert, select on sendonce_requests, sendonce_request_keys, sendonce_recipients to {app};
grant select on sendonce_recipient_states, sendonce_request_states to {app};
-- the inbox: whoever handles a message writes the receipt beside its effect, and counts its own tries
grant insert (consumer, message_id, handled_at, result), select, update (seen_at, duplicates, result)
  on sendonce_receipts to {app};
grant insert (next_attempt_at, ended_at, begun, finished, consumer, message_id, status, reason, error_code,
  error_message, source, source_position, trace, content_type, headers, body), select,
  update (updated_at, seen_at, next_attempt_at, ended_at, sightings, begun, finished, status, reason, error_code,
  error_message, headers, body) on sendonce_messages to {app};
grant insert, select, update (finished_at, outcome, error_code, error_message) on sendonce_tries to {app};

-- orchestrator: start, settle, cancel
grant select on sendonce_events, sendonce_contents, sendonce_subscriptions, sendonce_subscription_types, sendonce_stops,
  sendonce_leases, sendonce_findings, sendonce_dead_letters, sendonce_operations to {orchestrator};
grant select, insert, update on sendonce_deliveries, sendonce_attempts to {orchestrator};
grant insert on sendonce_leases, sendonce_dead_letters, sendonce_findings, sendonce_counters, sendonce_operations
  to {orchestrator};
grant usage on sequence sendonce_lease_ids to {orchestrator};
grant execute on function sendonce_park(bigint[], text[], text[], text),
  sendonce_set_aside(bigint[], text[], text[], text, text[], text[], text[], float8) to {orchestrator};
grant select, insert, update, delete on sendonce_breakers to {orchestrator};
grant select, insert, update on sendonce_buckets, sendonce_losses to {orchestrator};

-- worker: leases and its own row, secrets to sign with, subscriptions whose receiver is gone, alerts
grant select on sendonce_subscription_secrets, sendonce_breakers, sendonce_alerts, sendonce_dead_letters,
  sendonce_findings to {worker};
grant update (state, state_reason, updated_at) on sendonce_subscriptions to {worker};
grant insert on sendonce_operations to {worker};
grant select (id) on sendonce_operations to {worker};
grant insert, update on sendonce_alerts to {worker};
grant select, insert, update on sendonce_audits to {worker};
grant select, update, delete on sendonce_leases to {worker};
grant select, insert, update on sendonce_workers to {worker};
grant select, update (ended_at, ended_by) on sendonce_losses to {worker};
grant select, insert, delete, update on sendonce_counters to {worker};
grant select on sendonce_deliveries, sendonce_attempts, sendonce_subscriptions, sendonce_stops, sendonce_retention
  to {worker};
grant select ({event_facts}) on sendonce_events to {worker};
grant select ({message_facts}) on sendonce_messages to {worker};

-- operator: the next generation, dead letters, stops, subscriptions; of a delivery only whether it is parked
grant select on {reading} to {operator}, {reader};
grant select ({event_facts}) on sendonce_events to {operator}, {reader};
grant select (event_id, corrections, destination_hash) on sendonce_contents to {operator}, {reader};
grant select (id, subscription_id, kind, created_at, expires_at) on sendonce_subscription_secrets
  to {operator}, {reader};
grant select ({message_facts}) on sendonce_messages to {operator}, {reader};
grant select (consumer, message_id, received_at, handled_at, seen_at, duplicates) on sendonce_receipts
  to {operator}, {reader};
grant select (result) on sendonce_receipts to {operator};
grant select (payload) on sendonce_events to {operator};
-- messages: the next generation, and the end of a dead letter
grant select (headers, body), insert (next_attempt_at, generation, consumer, message_id, source, source_position, trace,
  content_type, headers, body), update (updated_at, next_attempt_at, ended_at, status, reason, closed_at, closed_as,
  closed_by) on sendonce_messages to {operator};
grant insert on sendonce_evidence to {operator};
-- what was given up can be corrected: whoever does that reads what was to be sent, and writes what is sent instead
grant select (content), insert (event_id, corrections, destination_hash, content) on sendonce_contents to {operator};
grant insert on sendonce_corrections to {operator};
grant execute on function sendonce_hold(bigint[]) to {operator};
grant insert (event_id, subscription_id, destination, destination_hash, generation, corrections, has_content, if_unsure,
  in_doubt, notification_id, not_before) on sendonce_deliveries to {operator};
-- the next generation, completed by attestation: the rules let nobody else be born completed
grant insert (status, next_attempt_at, notified_at) on sendonce_deliveries to {operator};
grant insert on sendonce_findings to {operator};
grant update (next_attempt_at, parked_on, updated_at) on sendonce_deliveries to {operator};
grant update (closed_at, closed_as, closed_by) on sendonce_dead_letters to {operator};
-- a corrected destination: the request follows
grant update (destination_hash) on sendonce_recipients to {operator};
grant insert, update (state, last_id, looked, affected, skipped, updated_at, finished_at) on sendonce_operations
  to {operator}, {orchestrator};
grant insert, delete on sendonce_stops to {operator};
grant insert on sendonce_subscriptions to {operator};
grant update (state, state_reason, updated_at, policy, rate, description, ask) on sendonce_subscriptions to {operator};
-- where it goes stays: whoever could change that would have a secret sent elsewhere that they may not read
revoke update (destination) on sendonce_subscriptions from {operator};
grant insert, delete on sendonce_subscription_types to {operator};
grant insert, delete, update (expires_at) on sendonce_subscription_secrets to {operator};

-- whether content is there and unchanged, without reading it
grant execute on function sendonce_blanked(bigint, bigint, int), sendonce_altered(bigint, bigint, int)
  to {operator}, {reader};

-- janitor: old content and old finished rows
grant select, delete on sendonce_events, sendonce_contents, sendonce_deliveries, sendonce_attempts,
  sendonce_dead_letters, sendonce_findings, sendonce_receipts, sendonce_operations, sendonce_workers, sendonce_counters,
  sendonce_corrections to {janitor};
grant select, delete on sendonce_requests, sendonce_request_keys, sendonce_recipients to {janitor};
grant select, delete on sendonce_messages, sendonce_tries, sendonce_evidence to {janitor};
grant update (id, headers, body, content_gone_at, error_message, status, reason, next_attempt_at, ended_at, updated_at,
  closed_at, closed_as, closed_by) on sendonce_messages to {janitor};
grant update (error_message) on sendonce_tries to {janitor};
grant update (result) on sendonce_receipts to {janitor};
grant update (details) on sendonce_evidence to {janitor};
grant update (payload, headers, subject, content_gone_at, history_gone_at) on sendonce_events to {janitor};
grant update (content) on sendonce_contents to {janitor};
-- what the other side has said: the rules let it be taken away, and nothing be put in its place
grant update (response, error_message) on sendonce_attempts to {janitor};
grant update (error_message, closed_at, closed_as, closed_by) on sendonce_dead_letters to {janitor};
grant update (details) on sendonce_findings to {janitor};
-- the right to lock a delivery and a request: nobody can change an id
grant update (id) on sendonce_deliveries, sendonce_requests to {janitor};
grant select, update on sendonce_retention to {janitor};
grant select (id, expires_at), delete on sendonce_subscription_secrets to {janitor};
grant insert on sendonce_operations, sendonce_counters to {janitor};
"""


class Right(NamedTuple):
    """One right of one role on a table, sequence or function; on these columns of it (`a,b`), else on all."""

    role: str
    privilege: str
    kind: str
    object: str
    columns: str = ""


def sql(prefix: str = PREFIX) -> str:
    """The script: creates the roles that are missing and grants each what it needs. Run it where the tables are."""
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            "a prefix of roles is up to 50 small letters, digits and underscores, and begins with no digit"
        )
    names = {role: f'"{prefix}{role}"' for role in ROLES}
    every = ", ".join(names.values())
    create = "\n".join(
        f"  if to_regrole('{names[role]}') is null then\n    create role {names[role]} nologin;\n  end if;"
        for role in ROLES
    )
    enter = (
        f"  execute format('grant usage on schema %I to {every}', current_schema());\n"
        "  -- what others plant beside the tables would be run by whoever uses these\n"
        "  execute format('revoke create on schema %I from public', current_schema());"
    )
    body = _granted(names)
    header = "\n".join("-- " + line if line else "--" for line in (__doc__ or "").strip().splitlines())
    return f"{header}\n\ndo $$ begin\n{create}\n{enter}\nend $$;\n{body}"


def rights(prefix: str = PREFIX) -> list[Right]:
    """The same, one by one: to compare with what roles have."""
    found = []
    for privileges, kind, objects, roles in _GRANT.findall(_granted({role: f"{prefix}{role}" for role in ROLES})):
        for privilege, columns in _PRIVILEGE.findall(privileges):
            for name in _OBJECT.findall(objects):
                plain = ",".join(column.strip() for column in columns.split(","))
                of = kind or "table"
                found += [Right(role.strip(), privilege, of, name, plain) for role in roles.split(",")]
    return found


def _granted(names: Mapping[str, str]) -> str:
    reading = ", ".join(f"sendonce_{table.strip()}" for table in _TABLES_FOR_READING.split(","))
    facts = {"event_facts": _EVENT_FACTS, "message_facts": _MESSAGE_FACTS}
    return _GRANTS.format(all=", ".join(names.values()), reading=reading, **facts, **names)
