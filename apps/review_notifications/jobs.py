"""Review jobs: recorded once for each key and version, read as they are now, tried again when a person says so."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from apps.review_notifications import reading
from apps.review_notifications.models import Attempt, Job, Recipient, Retried, Retry, Review
from sendonce import Admin, Email, NotAllowed, Outbox, RerunRefused
from sendonce.contrib.sqlalchemy import ain_transaction
from sendonce.contrib.sqlalchemy import areading as reads

T = TypeVar("T")

TYPE = "review.finished"
_ADD_REVIEW = text("""
    insert into reviews (changelist_id, review_version, title, summary)
    values (:changelist_id, :review_version, :title, :summary)""")
_NEWEST = text("select max(review_version) from reviews where changelist_id = :changelist_id")
_REFUSED = (
    "version {} is not the newest of this changelist: a lower one is not sent any more, and a higher one only with"
    " rerun given as true"
)


class Jobs:
    """What the application does. A job is a request of sendonce: its rules for keys and versions hold here."""

    def __init__(self, engine: AsyncEngine, admin: Admin) -> None:
        self._engine = engine
        self._admin = admin
        self._outbox = Outbox()

    async def submit(self, review: Review) -> tuple[Job, bool]:
        """The review's job, and whether it is new. What the review says and whom to tell are written together."""

        async def work(connection: AsyncConnection) -> tuple[int, bool]:
            requested = await self._outbox.arequest(
                connection,
                TYPE,
                _payload(review),
                key=review.idempotency_key,
                subject=review.changelist_id,
                version=review.review_version,
                required=[_destination(each, review) for each in review.recipients if each.required],
                optional=[_destination(each, review) for each in review.recipients if not each.required],
                rerun=review.rerun,
                if_different="keep_first",
            )
            if not requested.duplicate:
                await self._check_newest(connection, review)
                await connection.execute(_ADD_REVIEW, _payload(review))
            return requested.request_id, not requested.duplicate

        try:
            job_id, is_new = await ain_transaction(self._engine, work)
        except RerunRefused:
            raise NotAllowed(_REFUSED.format(review.review_version)) from None
        return await self.job(job_id), is_new

    async def _check_newest(self, connection: AsyncConnection, review: Review) -> None:
        """Refuse what sendonce takes for new because its retention has removed what came before.

        `reviews` is kept for good. Whoever submits one of the same changelist waits until we have committed.
        """
        newest = (await connection.execute(_NEWEST, {"changelist_id": review.changelist_id})).scalar()
        if newest == review.review_version:
            raise NotAllowed(
                f"version {review.review_version} of this changelist was told of long ago, and its job is not kept any"
                " more: nothing is sent again"
            )
        if newest is not None and (newest > review.review_version or not review.rerun):
            raise NotAllowed(_REFUSED.format(review.review_version))

    async def job(self, job_id: int) -> Job:
        return await self._read(lambda connection: reading.job(connection, job_id))

    async def job_when_done(self, job_id: int, seconds: int) -> Job:
        """The job as soon as it is not in progress any more, or as it is when the time is over."""
        if (await self.job(job_id)).status == "in_progress":
            await self._admin.await_for_request(job_id, timedelta(seconds=seconds))
        return await self.job(job_id)

    async def jobs_of(self, changelist_id: str, limit: int) -> list[Job]:
        return await self._read(lambda connection: reading.jobs_of(connection, changelist_id, limit))

    async def log(self, job_id: int, limit: int) -> list[Attempt]:
        await self.job(job_id)
        return await self._read(lambda connection: reading.log(connection, job_id, limit))

    async def retry(self, job_id: int, order: Retry) -> Retried:
        """Tell those again who were given up and wait for a person: all of them or none."""
        await self.job(job_id)
        waiting = await self._waiting(job_id)
        if not waiting:
            raise NotAllowed(f"nobody of review job {job_id} waits for a person, so there is nobody to tell again")
        doubtful = [name for letter_id, name in waiting.items() if (await self._admin.adead_letter(letter_id)).in_doubt]
        if doubtful and not order.even_if_sent:
            raise NotAllowed(
                f"{len(doubtful)} of {len(waiting)} recipients given up may have been told already: see the job's log,"
                " and give even_if_sent as true to tell them all the same"
            )
        admin = self._admin.as_operator(order.operator)
        try:
            await admin.arequeue(list(waiting), reason=order.reason, even_if_sent=order.even_if_sent)
        except NotAllowed:
            if await self._waiting(job_id) == waiting:
                raise
            raise NotAllowed(f"somebody else has just decided about review job {job_id}; look at it again") from None
        return Retried(retried=list(waiting.values()), may_repeat=doubtful, job=await self.job(job_id))

    async def _waiting(self, job_id: int) -> dict[int, str]:
        return await self._read(lambda connection: reading.waiting(connection, job_id))

    async def _read(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """At one moment: a job's status and its recipients belong together."""
        async with reads(self._engine, isolation_level="REPEATABLE READ") as connection:
            return await work(connection)


def _payload(review: Review) -> dict[str, object]:
    """The same for every attempt and every recipient."""
    return review.model_dump(include={"changelist_id", "review_version", "title", "summary"})


def _destination(recipient: Recipient, review: Review) -> str | Email:
    if "://" in recipient.address:
        return recipient.address
    subject = f"Review of {review.changelist_id} v{review.review_version}: {review.title}"
    return Email(recipient.address, subject=subject, text=review.summary or review.title)
