"""Where each requirement is implemented: the file, and what does it there."""

_CORE = "src/sendonce/"
_POSTGRES = "src/sendonce/store/postgres/"
_SCHEMA = _POSTGRES + "migrations/0001_first.sql"
_CLAIMS = _POSTGRES + "sql/claims.sql"
_SETTLING = _POSTGRES + "sql/settle.sql"
_OPERATORS = _POSTGRES + "sql/operators.sql"
_DECIDE = (_CORE + "domain/decide.py", "decide")
_START = (_CLAIMS, "start")
_SETTLE = (_SETTLING, "settle")
_CHECKED = (_CORE + "outbox/requests.py", "checked")
_RULE = (_CORE + "domain/requests.py", "rule")
_REQUEST_STATES = (_SCHEMA, "sendonce_request_states")
_ASK = (_CORE + "engine/attempt.py", "ask")
_AUDIT = (_CORE + "admin/audit.py", "audit")
_MEMOS = ("apps/memo_email/memos.py", "create")
_OUTBOX_VIEW = ("apps/memo_email/migrations/sql/0001_postgresql.sql", "email_outbox")
_SAGAS = ("apps/webhooks/migrations/versions/0001_first.py", "webhook_delivery_sagas")
_RULES = (_SCHEMA, "deliveries_follow_the_rules")
_GRANTS = (_POSTGRES + "grants.py", "sql")

PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    "R1": (_CHECKED,),
    "R2": ((_SCHEMA, "sendonce_request_keys"),),
    "R3": (_RULE, (_SCHEMA, "sendonce_request_keys")),
    "R4": (_RULE,),
    "R5": (_RULE,),
    "R6": (_RULE,),
    "R7": ((_CORE + "domain/requests.py", "event_key"), (_SCHEMA, "sendonce_deliveries_once")),
    "R8": (_START, _RULES),
    "R9": ((_CORE + "engine/send_pool.py", "SendPool"), _SETTLE, (_CORE + "domain/texts.py", "provider_token")),
    "R10": (_START, _ASK),
    "R11": (_ASK, _DECIDE),
    "R12": (_REQUEST_STATES,),
    "R13": ((_SCHEMA, "sendonce_attempts"),),
    "R14": (_DECIDE, (_CORE + "domain/policies.py", "Policy")),
    "R15": (_DECIDE,),
    "R16": (_DECIDE, _ASK),
    "R17": (_AUDIT, (_CORE + "engine/alerts.py", "AlertSettings")),
    "R18": ((_CORE + "engine/attempt.py", "AttemptRunner"), _AUDIT),
    "R19": (_START, _SETTLE, (_CORE + "engine/lease_keeper.py", "LeaseKeeper")),
    "M1": (_MEMOS, (_CORE + "contrib/sqlalchemy.py", "ain_transaction")),
    "M2": (("apps/memo_email/migrations/versions/0001_first.py", "upgrade"), _OUTBOX_VIEW),
    "M3": (_MEMOS, (_SCHEMA, "sendonce_events_key")),
    "M4": (_START,),
    "M5": (_START, _OUTBOX_VIEW),
    "M6": (_SETTLE, _OUTBOX_VIEW),
    "M7": (_DECIDE, _OUTBOX_VIEW),
    "M8": (_OUTBOX_VIEW, (_OPERATORS, "open_generations")),
    "M9": ((_CORE + "admin/dead_letters.py", "correct"),),
    "M10": (_GRANTS,),
    "M11": ((_CORE + "engine/worker.py", "Worker"), (_CORE + "engine/background.py", "Backoff")),
    "M12": (
        (_CORE + "observability/metrics.py", "exposition"),
        (_CORE + "engine/metrics_server.py", "Gauges"),
        (_CORE + "engine/alerts.py", "AlertSettings"),
    ),
    "M13": ((_CORE + "engine/retention.py", "RetentionSettings"), (_CORE + "admin/prune.py", "prune")),
    "M14": ((_CORE + "channels/email/mime.py", "compose"),),
    "M15": ((_CORE + "channels/registry.py", "Channels"), (_CORE + "channels/apprise.py", "AppriseChannel")),
    "W1": (_SAGAS, (_SCHEMA, "sendonce_deliveries")),
    "W2": ((_SCHEMA, "sendonce_deliveries_once"), (_SCHEMA, "sendonce_deliveries_due")),
    "W3": ((_SCHEMA, "sendonce_deliveries_once"),),
    "W4": (_SETTLE, (_SETTLING, "judge")),
    "W5": ((_CORE + "domain/deliveries.py", "DeliveryState"), _RULES),
    "W6": ((_CORE + "engine/orchestrator.py", "Orchestrator"), _GRANTS),
    "W7": ((_CORE + "engine/orchestrator.py", "Orchestrator"), _GRANTS),
    "W8": ((_SCHEMA, "attempts_follow_each_other"),),
    "W9": (_START,),
    "W10": ((_CORE + "domain/policies.py", "Policy"),),
    "W11": ((_CORE + "engine/orchestrator.py", "Policies"),),
    "W12": (_SETTLE,),
    "W13": (_DECIDE, _SETTLE),
    "W14": (_SETTLE,),
    "W15": (_RULES, (_SCHEMA, "finished_attempts_are_frozen")),
    "W16": ((_OPERATORS, "open_generations"), (_SCHEMA, "sendonce_check_generation")),
    "W17": (_GRANTS,),
    "W18": ((_SCHEMA, "sendonce_deliveries_due"), _START),
    "P1": (("apps/chancepay/requests/payments.py", "Requests"),),
    "P2": (_DECIDE, (_CORE + "domain/policies.py", "Policy"), ("apps/chancepay/requests/internal.py", "publish_again")),
    "P3": ((_CORE + "consumer/registry.py", "Mode"), ("apps/chancepay/wallet/listener.py", "consumers_of")),
    "P4": (("apps/chancepay/wallet/reports.py", "record"), ("apps/chancepay/wallet/reports.py", "try_once")),
    "P5": (
        (_SCHEMA, "sendonce_receipts"),
        ("apps/chancepay/wallet/ledger.py", "take"),
        ("apps/chancepay/wallet/listener.py", "transaction"),
    ),
    "P6": (("apps/chancepay/comparison.py", "compare"), ("apps/chancepay/reconcile.py", "reconcile")),
    "D2": ((_CORE + "channels/http/endpoint.py", "HttpProfile"),),
    "D4": ((_SCHEMA, "sendonce_events_key"), (_CORE + "domain/texts.py", "provider_token")),
}
