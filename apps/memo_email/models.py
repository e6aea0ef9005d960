"""What the API takes and gives."""

from datetime import datetime
from typing import Annotated, Literal, Self, TypeAlias
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sendonce.contrib.fastapi import Line, Text

Status: TypeAlias = Literal["PENDING", "SENDING", "SENT", "FAILED"]
Prefix: TypeAlias = Annotated[Line, Field(min_length=1, max_length=50)]
Body: TypeAlias = Annotated[Text, Field(min_length=1, max_length=100_000)]
Subject: TypeAlias = Annotated[Line, Field(min_length=1, max_length=600)]
Reason: TypeAlias = Annotated[Line, Field(min_length=1, max_length=500)]
ChatRoom: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9._~#@+-]{1,100}$")]


def _one_spelling(address: str) -> str:
    """Two spellings of one address must not get two mails."""
    mailbox, _, domain = address.rpartition("@")
    return f"{mailbox}@{domain.lower()}"


Address: TypeAlias = Annotated[
    str, Field(pattern=r"^[^\s@<>()\[\]\\,;:\"?]{1,64}@[^\s@]{1,190}$"), AfterValidator(_one_spelling)
]


class NewMemo(BaseModel):
    """A memo, and who is to hear of it. With an `id` of the caller's it can be sent again when the answer was lost."""

    model_config = ConfigDict(extra="forbid")

    id: UUID | None = None
    memo_number_prefix: Prefix
    department_code: Annotated[Line, Field(min_length=1, max_length=50)]
    title: Annotated[Line, Field(min_length=1, max_length=500)]
    purpose: Annotated[Text, Field(max_length=10_000)] | None = None
    recipients: Annotated[list[Address], Field(min_length=1, max_length=100)]
    email_body: Body
    chat_room: ChatRoom | None = None


class Message(BaseModel):
    """What is sent to one recipient, and what has become of it."""

    id: UUID
    memo_id: UUID
    channel: str
    recipient: str
    notification_type: str
    status: Status
    retry_count: int
    last_attempt_at: datetime | None
    sent_at: datetime | None
    error_message: str | None


class Memo(BaseModel):
    id: UUID
    memo_number: str
    memo_number_prefix: str
    memo_number_sequence: int
    department_code: str
    title: str
    purpose: str | None
    created_at: datetime


class MemoWithMessages(Memo):
    messages: list[Message]


class Mail(Message):
    """With its content; both are null once retention has blanked them."""

    subject: str | None
    body: str | None
    idempotency_key: str


class MailWithHistory(Mail):
    """As it is now, and what it was before each replay and correction, oldest first."""

    history: list[Mail]


class Replay(BaseModel):
    """Who sends it again and why. What was sent, or may have been, needs `even_if_sent`."""

    model_config = ConfigDict(extra="forbid")

    operator: Annotated[Line, Field(min_length=1, max_length=100)]
    reason: Reason
    even_if_sent: bool = False


class Correction(Replay):
    """What is to be another: the address, the subject, the text. What is not given stays."""

    recipient_email: Address | None = None
    subject: Subject | None = None
    body: Body | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.recipient_email is None and self.subject is None and self.body is None:
            raise ValueError("nothing would change; give recipient_email, subject or body")
        return self
