"""What callers send and get: reviews, jobs, their recipients, and the delivery log."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, StrictBool, StrictInt

from sendonce.contrib.fastapi import Line, Text

LARGEST_ID = 2**63 - 1


EXAMPLE: JsonValue = {
    "idempotency_key": "CL-17/v3",
    "changelist_id": "CL-17",
    "review_version": 3,
    "title": "Retry on 503",
    "summary": "Looks good.",
    "recipients": [{"address": "ada@example.com"}, {"address": "joe@example.com", "required": False}],
}


def _reachable(address: str) -> str:
    if "://" in address and not address.lower().startswith(("http://", "https://")):
        raise ValueError("it must be an e-mail address, or begin with https:// or http://")
    return address


ChangelistId = Annotated[Line, Field(max_length=100)]
Version = Annotated[StrictInt, Field(ge=0, le=LARGEST_ID)]
Address = Annotated[Line, Field(max_length=500), AfterValidator(_reachable)]


class Given(BaseModel):
    """A body: a field with a name that is not known is refused."""

    model_config = ConfigDict(extra="forbid")


class Recipient(Given):
    """Who is told: an e-mail address, or an HTTP address. The job's status goes by those that are required."""

    address: Address
    required: StrictBool = True


class Review(Given):
    """A finished review of one version of a changelist, and who is to be told. `rerun` asks for a higher version."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    idempotency_key: Annotated[Line, Field(max_length=120)]
    changelist_id: ChangelistId
    review_version: Version
    rerun: StrictBool = False
    title: Annotated[Line, Field(max_length=200)]
    summary: Annotated[Text, Field(max_length=20_000)] = ""
    recipients: Annotated[list[Recipient], Field(min_length=1, max_length=100)]


class Retry(Given):
    """Tell those again who wait for a person. Those who may have been told already need `even_if_sent`."""

    operator: Annotated[Line, Field(max_length=100)]
    reason: Annotated[Line, Field(max_length=500)]
    even_if_sent: StrictBool = False


class Notification(BaseModel):
    """One recipient of a job, and how far it is. The last error stays when a later attempt has succeeded.

    `sent_to`: where it goes instead, when an operator has corrected the address.
    """

    recipient: str
    sent_to: str | None
    required: bool
    status: Literal["pending", "sending", "sent", "failed"]
    notified_at: datetime | None
    notification_id: str | None
    last_error: str | None
    attempts: int


class Job(BaseModel):
    """A review job. Its status is made from its required recipients when it is asked for."""

    id: int
    idempotency_key: str
    changelist_id: str
    review_version: int
    title: str
    status: Literal["in_progress", "retryable_failed", "succeeded"]
    created_at: datetime
    recipients: list[Notification]


class Attempt(BaseModel):
    """One line of the delivery log. An outcome that is null: it is being sent now."""

    changelist_id: str
    recipient: str
    review_version: int
    generation: int
    attempt: int
    started_at: datetime
    finished_at: datetime | None
    outcome: Literal["Delivered", "Accepted", "Refused", "Failed", "Unknown", "Deferred"] | None
    error_code: str | None
    notification_id: str | None


class Retried(BaseModel):
    """Who is told again, who of them may have been told before, and the job as it is now."""

    retried: list[str]
    may_repeat: list[str]
    job: Job
