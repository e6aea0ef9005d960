"""What mail providers call back about: verified as they document it, and read as evidence about our mails.

Whatever they say about a mail of ours shows that they have it; a bounce for good shows that it was refused.

>>> for evidence in resend(request.headers, body, secrets):
...     admin.evidence(evidence)
"""

import base64
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sendonce.domain.evidence import Evidence, Told
from sendonce.domain.texts import CODE_LENGTH, ID_LENGTH, TOKEN_LENGTH, clean
from sendonce.errors import BadWebhook, ConfigError
from sendonce.inbox.webhooks import Headers, Webhook, header_of, verify

__all__ = ["postmark", "resend"]

# Under this name our mails carry their token: as Postmark's metadata, and as Resend's tag.
FIELD = "sendonce"
_POSTMARK = {"Delivery": "DeliveredAt", "Bounce": "BouncedAt", "SpamComplaint": "BouncedAt", "Open": "ReceivedAt",
             "Click": "ReceivedAt"}  # fmt: skip
# What Postmark tries no more; the other types are delays, answers of a person's machine, and the like.
_BOUNCED = frozenset(
    {"HardBounce", "BadEmailAddress", "SpamNotification", "Blocked", "ManuallyDeactivated", "SMTPApiError",
     "DMARCPolicy", "TemplateRenderingFailed", "VirusNotification"}
)  # fmt: skip
_RESEND = {
    "email.sent": Told.DELIVERED,
    "email.delivered": Told.DELIVERED,
    "email.delivery_delayed": Told.DELIVERED,
    "email.complained": Told.DELIVERED,
    "email.opened": Told.DELIVERED,
    "email.clicked": Told.DELIVERED,
    "email.bounced": Told.REFUSED,
    "email.failed": Told.REFUSED,
    "email.suppressed": Told.REFUSED,
}


def postmark(
    headers: Headers,
    body: bytes,
    *,
    username: str | None = None,
    password: str | None = None,
    header: tuple[str, str] | None = None,
) -> list[Evidence]:
    """Return what a webhook of Postmark's says about a mail; nothing where it is about something else.

    Postmark signs nothing: it shows a name and a password (in the webhook's URL), or a header of one's own, as they are
    set there. BadWebhook when it does not.
    """
    if (username is None or password is None) and header is None:
        raise ConfigError("give the username and password, or the header, that Postmark is to show: it signs nothing")
    if username is not None and password is not None:
        shown = base64.b64encode(f"{username}:{password}".encode()).decode()
        _check_shown(headers, "authorization", f"Basic {shown}")
    if header is not None:
        _check_shown(headers, header[0].lower(), header[1])
    said = _object(Webhook(id="", body=body).json())
    kind, id = str(said.get("RecordType")), said.get("MessageID")
    if kind not in _POSTMARK or not isinstance(id, str):
        return []
    type = str(said.get("Type", "")) if kind == "Bounce" else ""
    outcome = Told.REFUSED if type in _BOUNCED else Told.DELIVERED
    number = said.get("ID")
    return _evidence(
        "postmark",
        outcome,
        id,
        _object(said.get("Metadata")).get(FIELD),
        reference=f"{kind}/{id}" + (f"/{number}" if isinstance(number, int) else ""),
        at=said.get(_POSTMARK[kind]),
        code=f"postmark_{type}" if outcome is Told.REFUSED else None,
        details=kind + (f" {type}" if type else ""),
    )


def resend(headers: Headers, body: bytes, secrets: str | Sequence[str]) -> list[Evidence]:
    """Return what a webhook of Resend's says about a mail; nothing where it is about something else.

    Resend signs as Svix does: BadWebhook when none of the secrets (`whsec_…`) has signed it within five minutes.
    """
    webhook = verify(headers, body, secrets, scheme="svix")
    said = _object(webhook.json())
    type, mail = said.get("type"), _object(said.get("data"))
    outcome, id = _RESEND.get(str(type)), mail.get("email_id")
    if outcome is None or not isinstance(id, str):
        return []
    bounce = _object(mail.get("bounce"))
    if type == "email.bounced" and bounce.get("type") == "Transient":
        outcome = Told.DELIVERED
    return _evidence(
        "resend",
        outcome,
        id,
        _tag_of(mail.get("tags")),
        reference=webhook.id,
        at=said.get("created_at"),
        code=f"resend_{str(type).partition('.')[2]}" if outcome is Told.REFUSED else None,
        details=" ".join([str(type), *(str(bounce[name]) for name in ("type", "subType") if name in bounce)]),
    )


def _check_shown(headers: Headers, name: str, expected: str) -> None:
    if not expected.isascii():
        raise ConfigError(f"what Postmark is to show in the header {name} is plain ASCII")
    if not hmac.compare_digest(header_of(headers, name).encode(), expected.encode()):
        raise BadWebhook(f"its header {name} is not what Postmark was told to show")


def _evidence(
    source: str, outcome: Told, id: str, token: object, *, reference: str, at: object, code: str | None, details: str
) -> list[Evidence]:
    known = isinstance(token, str) and len(token) == TOKEN_LENGTH and token.isascii() and token.isalnum()
    if not 1 <= len(id.encode("utf-8", "replace")) <= ID_LENGTH:
        raise BadWebhook("its id of the mail is empty or too long")
    return [
        Evidence(
            source=source,
            outcome=outcome,
            token=str(token) if known else None,
            notification_id=clean(id, ID_LENGTH),
            reference=clean(reference, ID_LENGTH),
            occurred_at=_moment(at),
            error_code=None if code is None else clean(code, CODE_LENGTH),
            details=clean(details, CODE_LENGTH),
        )
    ]


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _tag_of(tags: object) -> object:
    """Our tag: Resend gives tags by name, or as a list of names and values."""
    if isinstance(tags, list):
        return next((each.get("value") for each in tags if isinstance(each, dict) and each.get("name") == FIELD), None)
    return _object(tags).get(FIELD)


def _moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None and moment.year >= 2000 else None
