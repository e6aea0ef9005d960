"""Resend: it recognises our token for a day and does not send twice; a mail can be asked for by their id."""

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta

from sendonce.channels.email.api import Request, Said, as_json, as_mailbox, check_settings, time_of
from sendonce.channels.email.mail import Mail
from sendonce.channels.protocol import Message
from sendonce.domain.answers import ACCOUNT, CREDENTIALS, KNOWN_TOKEN, MAIL_REFUSED, NO_MAIL_ID
from sendonce.domain.outcomes import (
    CannotTell,
    Delivered,
    Found,
    LookUp,
    NoAnswer,
    NotThere,
    Outcome,
)

POLICY = {"timeout": "30s", "if_unsure": "hold"}
_CREATED_AT = re.compile(r'"created_at"\s*:\s*"([^"\\]{1,40})"')
_ID = re.compile(r"[0-9a-fA-F-]{36}")
_SAFE = CannotTell("no_id", "Resend gave no id to ask by, but recognises the token", is_safe_to_repeat=True)
_FORGOTTEN = CannotTell("forgotten", "Resend gave no id to ask by, and may have forgotten the token by now")
_CREDENTIALS = {"missing_api_key", "restricted_api_key", "invalid_api_key"}
_THE_MAIL = {400, 413, 422}
# What their webhooks show of a mail, so that it is known again by more than an id that we may never have got.
_TAG = "sendonce"
_SENDER = {"invalid_from_address"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendSettings:
    """An account at Resend."""

    key: str = field(repr=False)
    sender: str
    url: str = "https://api.resend.com"

    def __post_init__(self) -> None:
        check_settings("Resend", self.key, self.sender, self.url)


class Resend:
    """How Resend is sent to and asked."""

    # Both the token and, on the smallest plan, the mails themselves.
    remembers = timedelta(hours=24)

    def __init__(self, settings: ResendSettings) -> None:
        self._settings = settings

    def sending(self, mail: Mail, token: str) -> Request:
        body = as_json(
            {
                "from": as_mailbox(mail.sender),
                "to": [mail.recipient],
                "subject": mail.subject,
                "text": mail.text or None,
                "html": mail.html,
                "reply_to": mail.reply_to and as_mailbox(mail.reply_to),
                "headers": dict(mail.headers),
                "attachments": [
                    {"filename": each.filename, "content_type": each.content_type, "content": each.content}
                    for each in mail.attachments
                ],
                "tags": [{"name": _TAG, "value": token}],
            }
        )
        headers = {**self._headers(), "Content-Type": "application/json", "Idempotency-Key": token}
        return Request("POST", f"{self._settings.url}/emails", headers, body)

    def outcome(self, said: Said) -> Outcome:
        name = said.text_of("name")
        if said.status < 400:
            if said.text_of("id"):
                return Delivered(said.text_of("id"), said.text)
            return replace(NO_MAIL_ID, response=said.text)
        if said.status == 409:
            # It has a request with this token: one that it is at, or one with other content (the sender was changed).
            return replace(KNOWN_TOKEN, code=name or KNOWN_TOKEN.code, response=said.text)
        if said.status == 401 or name in _CREDENTIALS:
            return replace(CREDENTIALS, message="Resend does not accept the key", response=said.text)
        if said.status in _THE_MAIL and name not in _SENDER:
            return replace(MAIL_REFUSED, code=name or f"http_{said.status}", response=said.text)
        return replace(ACCOUNT, message="Resend does not let this account or sender send", response=said.text)

    def asking(self, message: Message, *, is_remembered: bool) -> Request | CannotTell:
        if not message.notification_id or not _ID.fullmatch(message.notification_id):
            return _SAFE if is_remembered else _FORGOTTEN
        return Request("GET", f"{self._settings.url}/emails/{message.notification_id}", self._headers())

    def finding(self, said: Said, message: Message) -> LookUp:
        """The answer holds the whole mail, so that it may have been cut: what matters stands before its content."""
        if said.status == 404 and said.text_of("name") == "not_found":
            return NotThere()
        if said.status == 401 or said.text_of("name") in _CREDENTIALS:
            return NoAnswer("our_credentials", "Resend does not accept the key for asking: it needs full access")
        if said.status != 200 or f'"{message.notification_id}"' not in said.text:
            return NoAnswer("bad_answer", "Resend's answer cannot be read")
        created_at = _CREATED_AT.search(said.text)
        return Found(message.notification_id, time_of(created_at[1]) if created_at else None)

    def _headers(self) -> dict[str, str]:
        return {"Accept": "application/json", "Authorization": f"Bearer {self._settings.key}"}
