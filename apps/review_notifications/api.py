"""The HTTP side: submit a review, see its job and its log, wait for it, and have recipients told again."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path as File
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response, status

import sendonce
from apps.review_notifications.jobs import Jobs
from apps.review_notifications.models import LARGEST_ID, Attempt, ChangelistId, Job, Retried, Retry, Review
from sendonce.contrib.fastapi import ANSWERS, answer_errors
from sendonce.contrib.sqlalchemy import async_engine

SETTINGS = File(__file__).parent / "sendonce.toml"
LONGEST_WAIT = 15

router = APIRouter(prefix="/review-jobs", tags=["review jobs"])


def build(url: str) -> FastAPI:
    """The application on a database that has its tables, with a worker inside it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        settings = os.environ.get("SENDONCE_CONFIG", SETTINGS)
        async with AsyncExitStack() as stack:
            engine = async_engine(url)
            stack.push_async_callback(engine.dispose)
            admin = await stack.enter_async_context(
                sendonce.Admin.aopen(url, operator="review_notifications", config=settings)
            )
            await stack.enter_async_context(sendonce.aembedded_worker(url, config=settings))
            app.state.jobs = Jobs(engine, admin)
            yield

    app = FastAPI(title="Review notifications", version=sendonce.__version__, lifespan=lifespan, responses=ANSWERS)
    answer_errors(app)
    app.include_router(router)
    return app


def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


Application = Annotated[Jobs, Depends(_jobs)]
JobId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
Limit = Annotated[int, Query(ge=1, le=100)]


@router.post(
    "", status_code=status.HTTP_201_CREATED, responses={200: {"model": Job, "description": "It was there already"}}
)
async def submit(jobs: Application, review: Review, response: Response) -> Job:
    """Tell everybody about a review. A key or a version that is known sends nothing: its job comes back."""
    job, is_new = await jobs.submit(review)
    if not is_new:
        response.status_code = status.HTTP_200_OK
    return job


@router.get("")
async def list_jobs(jobs: Application, changelist_id: Annotated[ChangelistId, Query()], limit: Limit = 20) -> list[Job]:
    """The jobs of a changelist, the newest version first."""
    return await jobs.jobs_of(changelist_id, limit)


@router.get("/{job_id}")
async def show(jobs: Application, job_id: JobId, wait: Annotated[int, Query(ge=0, le=LONGEST_WAIT)] = 0) -> Job:
    """A job; with `wait`, as soon as it is not in progress any more, or after so many seconds."""
    return await jobs.job_when_done(job_id, wait) if wait else await jobs.job(job_id)


@router.post("/{job_id}/retry")
async def retry(jobs: Application, job_id: JobId, order: Retry) -> Retried:
    """Tell those again who were given up and wait for a person; what was discarded or erased is not sent."""
    return await jobs.retry(job_id, order)


@router.get("/{job_id}/log")
async def log(jobs: Application, job_id: JobId, limit: Annotated[int, Query(ge=1, le=10_000)] = 1000) -> list[Attempt]:
    """The delivery log: every attempt, under its changelist, recipient and version."""
    return await jobs.log(job_id, limit)
