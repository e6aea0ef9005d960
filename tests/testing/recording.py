"""What tests record on a plain connection."""

from typing import Any

from sendonce import Outbox

HOOK = "https://hooks.example/memos"
MAIL = "mailto:ada@example.com"


def publish(connection: Any, key: str = "1", to: Any = HOOK, **named: Any) -> int:
    """One event of a memo; its id."""
    return Outbox().publish(connection, "memo.created", {"memo": key}, key=key, to=to, **named).event_id
