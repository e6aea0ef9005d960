"""Postmark: mails carry our token as metadata, and can be searched for by it. It does not deduplicate."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from urllib.parse import urlencode

from sendonce.channels.email.api import Request, Said, as_json, as_mailbox, check_settings, time_of
from sendonce.channels.email.mail import Mail
from sendonce.channels.protocol import Message
from sendonce.domain.answers import ACCOUNT, CREDENTIALS, MAIL_REFUSED, NO_MAIL_ID
from sendonce.domain.outcomes import (
    Delivered,
    Found,
    LookUp,
    NoAnswer,
    NotThere,
    Outcome,
)

# Their search learns of a mail a little after they took it: whoever asks too early is told that it is not there.
POLICY = {"doubt_wait": "5m", "timeout": "30s", "if_unsure": "hold"}
_FIELD = "sendonce"
_BAD_TOKEN = 10
_OUR_ACCOUNT = {400, 401, 405, 412, 413, *range(1200, 1300)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostmarkSettings:
    """`remembers` is the retention that is set at Postmark: 45 days unless it was changed there."""

    token: str = field(repr=False)
    sender: str
    stream: str = "outbound"
    url: str = "https://api.postmarkapp.com"
    remembers: timedelta = timedelta(days=45)

    def __post_init__(self) -> None:
        check_settings("Postmark", self.token, self.sender, self.url)


class Postmark:
    """How Postmark is sent to and asked."""

    def __init__(self, settings: PostmarkSettings) -> None:
        self._settings = settings
        self.remembers = settings.remembers

    def sending(self, mail: Mail, token: str) -> Request:
        body = as_json(
            {
                "From": as_mailbox(mail.sender),
                "To": mail.recipient,
                "Subject": mail.subject,
                "TextBody": mail.text or None,
                "HtmlBody": mail.html,
                "ReplyTo": mail.reply_to and as_mailbox(mail.reply_to),
                "Headers": [{"Name": name, "Value": value} for name, value in mail.headers.items()],
                "Attachments": [
                    {"Name": each.filename, "ContentType": each.content_type, "Content": each.content}
                    for each in mail.attachments
                ],
                "Metadata": {_FIELD: token},
                "MessageStream": self._settings.stream,
            }
        )
        headers = {**self._headers(), "Content-Type": "application/json"}
        return Request("POST", f"{self._settings.url}/email", headers, body)

    def outcome(self, said: Said) -> Outcome:
        """Their ErrorCode decides: 422 is the answer to a wrong address and to an account that may not send alike."""
        error = said.parts.get("ErrorCode")
        if said.status == 200 and error == 0 and said.text_of("MessageID"):
            return Delivered(said.text_of("MessageID"), said.text, time_of(said.text_of("SubmittedAt")))
        if 200 <= said.status < 400:
            return replace(NO_MAIL_ID, response=said.text)
        if said.status == 401 or error == _BAD_TOKEN:
            return replace(CREDENTIALS, message="Postmark does not know the token", response=said.text)
        if said.status in (413, 422) and error not in _OUR_ACCOUNT:
            return replace(MAIL_REFUSED, code=f"postmark_{error or said.status}", response=said.text)
        return replace(ACCOUNT, message="Postmark does not let this account or sender send", response=said.text)

    def asking(self, message: Message, *, is_remembered: bool) -> Request:
        query = urlencode({"count": 1, "offset": 0, f"metadata_{_FIELD}": message.token})
        return Request("GET", f"{self._settings.url}/messages/outbound?{query}", self._headers())

    def finding(self, said: Said, message: Message) -> LookUp:
        messages = said.parts.get("Messages")
        if said.status == 401:
            return NoAnswer("our_credentials", "Postmark does not know the token")
        if said.status != 200 or not isinstance(messages, list):
            return NoAnswer("bad_answer", "Postmark's answer to the search cannot be read")
        if not messages and said.parts.get("TotalCount") == 0:
            return NotThere()
        # An answer about another mail, from a search that did not filter, must not count as ours.
        match messages:
            case [{"MessageID": str(id), "Metadata": {"sendonce": message.token}, **rest}]:
                return Found(id, time_of(str(rest.get("ReceivedAt"))))
        return NoAnswer("bad_answer", "Postmark's answer to the search is about other mails")

    def _headers(self) -> dict[str, str]:
        return {"Accept": "application/json", "X-Postmark-Server-Token": self._settings.token}
