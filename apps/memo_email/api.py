"""The HTTP API: write memos, see what became of their mails, correct and replay what failed."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated
from uuid import UUID

from fastapi import FastAPI, Query, Request, Response

import sendonce
from apps.memo_email import memos, messages
from apps.memo_email.models import (
    Correction,
    Mail,
    MailWithHistory,
    Memo,
    MemoWithMessages,
    NewMemo,
    Prefix,
    Replay,
    Status,
)
from sendonce.contrib.fastapi import ANSWERS, answer_errors
from sendonce.contrib.sqlalchemy import areading, async_engine

SETTINGS = Path(__file__).parent / "sendonce.toml"
# What the mailbox of the demonstration does with mail to nobody@…: there is no such mailbox.
NOBODY = {"mailto:nobody@": {"mail_fail": "550"}}
Limit = Annotated[int, Query(ge=1, le=500)]


def build(url: str) -> FastAPI:
    """The application on a database that has its tables."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if "SENDONCE_SMTP_URL" not in os.environ:
                mailbox = await stack.enter_async_context(sendonce.aembedded_receiver(behaviours=NOBODY))
                os.environ["SENDONCE_SMTP_URL"] = mailbox.smtp
                os.environ["MEMO_CHAT_URL"] = mailbox.http.replace("http:", "json:") + "/chat/{address}"
            settings = os.environ.get("SENDONCE_CONFIG", SETTINGS)
            app.state.engine = async_engine(url)
            stack.push_async_callback(app.state.engine.dispose)
            app.state.admin = await stack.enter_async_context(
                sendonce.Admin.aopen(url, operator="memo_email", config=settings)
            )
            await stack.enter_async_context(sendonce.aembedded_worker(url, config=settings))
            yield

    app = FastAPI(title="Memos", version=sendonce.__version__, lifespan=lifespan, responses=ANSWERS)
    answer_errors(app)
    _add_memos(app)
    _add_mails(app)
    return app


def _add_memos(app: FastAPI) -> None:
    @app.post(
        "/memos",
        status_code=201,
        responses={200: {"model": MemoWithMessages, "description": "A memo with this id was there already"}},
    )
    async def create_memo(memo: NewMemo, request: Request, response: Response) -> MemoWithMessages:
        """Write a memo; its mails go out once it is committed. The same `id` again gives the memo that is there."""
        memo_id, is_new = await memos.create(request.app.state.engine, memo)
        if not is_new:
            response.status_code = 200
        try:
            return await get_memo(memo_id, request)
        except sendonce.StoreBusy:
            raise sendonce.CommitUnknown("the memo is written, but cannot be shown now") from None

    @app.get("/memos/{memo_id}")
    async def get_memo(memo_id: UUID, request: Request) -> MemoWithMessages:
        """A memo, and what became of its messages."""
        async with areading(request.app.state.engine) as connection:
            memo = await memos.find(connection, memo_id)
            return MemoWithMessages(**memo.model_dump(), messages=await messages.of_memo(connection, memo_id))

    @app.get("/memos")
    async def list_memos(
        request: Request,
        prefix: Annotated[Prefix, Query()],
        below: Annotated[int, Query(ge=1, le=2**31 - 1)] = 2**31 - 1,
        limit: Limit = 50,
    ) -> list[Memo]:
        """Memos of one prefix, newest first; `below` is the number where the page before ended."""
        async with areading(request.app.state.engine) as connection:
            return await memos.of_prefix(connection, prefix, below, limit)


def _add_mails(app: FastAPI) -> None:
    @app.get("/mails")
    async def list_mails(request: Request, status: Status, limit: Limit = 50) -> list[Mail]:
        """Mails by what became of them, oldest first: `status=FAILED` is what waits for a person."""
        async with areading(request.app.state.engine) as connection:
            return await messages.of_status(connection, status, limit)

    @app.get("/mails/{mail_id}")
    async def get_mail(mail_id: UUID, request: Request) -> MailWithHistory:
        """A mail, and what it was before each replay and correction."""
        async with areading(request.app.state.engine) as connection:
            mail, _ = await messages.story(connection, mail_id)
            return mail

    @app.post("/mails/{mail_id}/correct")
    async def correct_mail(mail_id: UUID, wanted: Correction, request: Request) -> MailWithHistory:
        """Correct the address or the text of a mail that failed, and send it. What was before is kept."""
        async with areading(request.app.state.engine) as connection:
            mail, delivery_id = await messages.story(connection, mail_id)
        if mail.status != "FAILED":
            raise sendonce.NotAllowed(f"this mail is {mail.status}; only one that is FAILED can be corrected")
        subject, body = wanted.subject or mail.subject, wanted.body or mail.body
        if subject is None or body is None:
            raise sendonce.NotAllowed("the content of this mail is no longer kept; give subject and body")
        admin = request.app.state.admin.as_operator(wanted.operator)
        await _check_repeat(admin, delivery_id, wanted)
        to = sendonce.Email(wanted.recipient_email or mail.recipient, subject=subject, text=body)
        await admin.acorrect(delivery_id, to=to, reason=wanted.reason, even_if_sent=wanted.even_if_sent)
        return await get_mail(mail_id, request)

    @app.post("/mails/{mail_id}/replay")
    async def replay_mail(mail_id: UUID, wanted: Replay, request: Request) -> MailWithHistory:
        """Send a mail again as it is, under the same idempotency key."""
        async with areading(request.app.state.engine) as connection:
            mail, delivery_id = await messages.story(connection, mail_id)
        if mail.status not in ("SENT", "FAILED"):
            raise sendonce.NotAllowed(f"this mail is {mail.status}; only one that is SENT or FAILED can be sent again")
        admin = request.app.state.admin.as_operator(wanted.operator)
        await _check_repeat(admin, delivery_id, wanted)
        await admin.areplay([delivery_id], reason=wanted.reason, even_if_sent=wanted.even_if_sent)
        return await get_mail(mail_id, request)


async def _check_repeat(admin: sendonce.Admin, delivery_id: int, wanted: Replay) -> None:
    """As the Admin does it, in the words of this API."""
    row = await admin.adelivery(delivery_id)
    if (row.in_doubt or row.status is sendonce.DeliveryState.COMPLETED) and not wanted.even_if_sent:
        known = "may have been sent already" if row.in_doubt else "was sent"
        raise sendonce.NotAllowed(f"this mail {known}; give even_if_sent as true to send it all the same")
