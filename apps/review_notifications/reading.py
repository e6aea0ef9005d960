"""Reads jobs, recipients and the delivery log from the application's views."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, TextClause, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from apps.review_notifications.models import Attempt, Job, Notification
from sendonce import NotFound

_JOB = text("""
    select j.id, j.idempotency_key, j.changelist_id, j.review_version, r.title, j.status, j.created_at
      from review_jobs j
      join reviews r on r.changelist_id = j.changelist_id and r.review_version = j.review_version
     where j.id = :job_id""")

_JOBS_OF = text("""
    select j.id, j.idempotency_key, j.changelist_id, j.review_version, r.title, j.status, j.created_at
      from review_jobs j
      join reviews r on r.changelist_id = j.changelist_id and r.review_version = j.review_version
     where j.changelist_id = :changelist_id
     order by j.review_version desc
     limit :limit""")

_RECIPIENTS = text("""
    select job_id, recipient, sent_to, required, status, notified_at, notification_id, last_error, attempts
      from review_notifications
     where job_id in :job_ids
     order by job_id, required desc, recipient
""").bindparams(bindparam("job_ids", expanding=True))

_WAITING = text("""
    select recipient, dead_letter_id
      from review_notifications
     where job_id = :job_id and dead_letter_id is not null
     order by dead_letter_id""")

_LOG = text("""
    select changelist_id, recipient, review_version, generation, attempt, started_at, finished_at, outcome, error_code,
           notification_id
      from review_log
     where job_id = :job_id
     order by delivery_id, attempt
     limit :limit""")


async def job(connection: AsyncConnection, job_id: int) -> Job:
    """One job with its recipients; NotFound when there is none."""
    found = await _jobs(connection, await _rows(connection, _JOB, job_id=job_id))
    if not found:
        raise NotFound(f"there is no review job {job_id}")
    return found[0]


async def jobs_of(connection: AsyncConnection, changelist_id: str, limit: int) -> list[Job]:
    """The jobs of a changelist, the newest version first."""
    return await _jobs(connection, await _rows(connection, _JOBS_OF, changelist_id=changelist_id, limit=limit))


async def waiting(connection: AsyncConnection, job_id: int) -> dict[int, str]:
    """The recipients of a job that were given up and wait for a person, by their open dead letters."""
    rows = await _rows(connection, _WAITING, job_id=job_id)
    return {row.dead_letter_id: row.recipient for row in rows}


async def log(connection: AsyncConnection, job_id: int, limit: int) -> list[Attempt]:
    """Every attempt of a job, by recipient, in their order."""
    rows = await _rows(connection, _LOG, job_id=job_id, limit=limit)
    return [Attempt.model_validate(row, from_attributes=True) for row in rows]


async def _jobs(connection: AsyncConnection, rows: Sequence[Row[Any]]) -> list[Job]:
    recipients: dict[int, list[Notification]] = {row.id: [] for row in rows}
    for row in await _rows(connection, _RECIPIENTS, job_ids=list(recipients)):
        recipients[row.job_id].append(Notification.model_validate(row, from_attributes=True))
    return [Job(**row._mapping, recipients=recipients[row.id]) for row in rows]


async def _rows(connection: AsyncConnection, query: TextClause, **values: object) -> Sequence[Row[Any]]:
    return (await connection.execute(query, values)).all()
