"""A request: one version of a subject, fanned out to its recipients; its rules for asking again, and its state."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.events import NewEvent, render_key
from sendonce.domain.texts import digest
from sendonce.errors import BadEvent, KeyReused, RerunRefused

LARGEST_VERSION = 2**63 - 1


class RequestStatus(StrEnum):
    """Derived from the newest deliveries of the required recipients, never stored."""

    IN_PROGRESS = "in_progress"
    RETRYABLE_FAILED = "retryable_failed"
    SUCCEEDED = "succeeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientState:
    """One recipient and its newest delivery: `destination` as it was asked for, `sent_to` as it is now."""

    destination: str
    sent_to: str | None
    is_required: bool
    delivery_id: int | None
    status: DeliveryState | None
    notified_at: datetime | None
    notification_id: str | None
    final_error_code: str | None
    attempt_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """A request as it is now, with its recipients, the required ones first."""

    id: int
    tenant: str
    type: str
    subject: str
    version: int
    event_id: int
    created_at: datetime
    status: RequestStatus
    recipients: tuple[RecipientState, ...]


class NewRequest(NamedTuple):
    """All that is written for one request. The first `required` destinations of its event are the required ones."""

    event: NewEvent
    key: str
    required: int
    rerun: bool
    subject: str
    version: int

    @property
    def content_digest(self) -> bytes:
        """16 bytes over what makes two requests the same: the event's content, and who is required."""
        required = sorted(one.uri for one in self.event.destinations[: self.required])
        return digest(self.event.content_digest.hex(), *required)[:16]


class Existing(NamedTuple):
    """A request that is there. `is_same`: with the content and the recipients that are asked for now."""

    request_id: int
    event_id: int
    version: int
    run: int
    is_same: bool


class There(NamedTuple):
    """What a new request meets: the one that had its key, the one of its version, the newest of its subject."""

    by_key: Existing | None = None
    by_version: Existing | None = None
    newest: Existing | None = None


class Ruling(NamedTuple):
    """What becomes of a request: the known one comes back, or it is written as this run of its subject.

    `remember`: the key is new, and from now on a second one of the known request.
    """

    known: Existing | None = None
    remember: bool = False
    run: int = 0


def rule(wanted: NewRequest, there: There, *, keep_first: bool) -> Ruling:
    """Say what becomes of a request; KeyReused or RerunRefused when nothing may be written."""
    if there.by_key is not None:
        if not there.by_key.is_same and not keep_first:
            raise _reused(wanted, f"the key {wanted.key!r} of {wanted.event.type} was used before, for")
        return Ruling(known=there.by_key)
    if there.newest is None:
        return Ruling()
    newest = there.newest.version
    if there.by_version is not None and not (wanted.rerun and wanted.version < newest):
        if not there.by_version.is_same and not keep_first:
            raise _reused(wanted, f"version {wanted.version} of {wanted.subject!r} was requested before, with")
        return Ruling(known=there.by_version, remember=True)
    if wanted.version < newest:
        raise _refused(wanted, newest, "a lower version is not sent any more; ask for a higher one")
    if not wanted.rerun:
        raise _refused(wanted, newest, "a higher version is sent only when asked for explicitly: say rerun=True")
    return Ruling(run=there.newest.run + 1)


def event_key(subject: object, version: object) -> tuple[str, int]:
    """Subject and version, which make the event's key together; BadEvent says what is wrong with them."""
    if not isinstance(subject, str) or not subject:
        raise BadEvent("a request needs a subject: a text that names what it is about, such as a changelist's id")
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version <= LARGEST_VERSION:
        raise BadEvent("a request needs a version: a whole number, zero or above")
    try:
        render_key((subject, version))
    except BadEvent as error:
        raise BadEvent(f"the subject and the version make the event's key, and {error}") from None
    return subject, version


def _refused(wanted: NewRequest, newest: int, advice: str) -> RerunRefused:
    return RerunRefused(
        f"version {wanted.version} of {wanted.subject!r} was asked for and its newest is {newest}; {advice}"
    )


def _reused(wanted: NewRequest, what: str) -> KeyReused:
    return KeyReused(
        f"{what} different content or recipients; ask for a higher version with a key of its own, or say"
        ' if_different="keep_first" to go by the first one'
    )
