"""Mail providers with the real engine: a mail that may have been sent is asked about, and arrives once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sendonce.channels.email.api import MailApi, Provider
from sendonce.channels.email.postmark import POLICY as POSTMARK_POLICY
from sendonce.channels.email.postmark import Postmark, PostmarkSettings
from sendonce.channels.email.resend import POLICY as RESEND_POLICY
from sendonce.channels.email.resend import Resend, ResendSettings
from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.guard import Guard
from sendonce.channels.registry import Channels
from sendonce.domain.emails import Email
from sendonce.domain.policies import DEFAULT_POLICY, override
from sendonce.store.ports import Store
from sendonce.store.sqlite.connection import moment
from tests.channels.providers import SECRET, FakePostmark, FakeProvider, FakeResend, Trouble
from tests.engine.conftest import sqlite, sqlite_store, sqlite_template
from tests.engine.rig import working
from tests.given import given_due_delivery
from tests.processes import until_async
from tests.store.databases import SqliteDatabase

__all__ = ["sqlite", "sqlite_store", "sqlite_template"]

SENDER = "shop@example.com"
ADA = Email("ada@example.com", subject="Saved", text="Your memo is saved.")
FAKES = pytest.mark.parametrize("kind", [FakePostmark, FakeResend])


def provider_of(fake: FakeProvider) -> Provider:
    if isinstance(fake, FakePostmark):
        return Postmark(PostmarkSettings(token=SECRET, sender=SENDER, url=fake.url))
    return Resend(ResendSettings(key=SECRET, sender=SENDER, url=fake.url))


@asynccontextmanager
async def mailing(
    store: Store, fake: FakeProvider, *, ahead: timedelta = timedelta(0), doubt_wait: str = "0.01s"
) -> AsyncIterator[None]:
    """A worker that sends mails through this provider; `ahead`: how much later it believes that it is."""
    policy = POSTMARK_POLICY if isinstance(fake, FakePostmark) else RESEND_POLICY
    channel = MailApi(
        provider_of(fake),
        HttpClient(Guard.parse("127.0.0.0/8")),
        sender=SENDER,
        now=lambda: datetime.now(UTC) + ahead,
    )
    channels = Channels()
    channels.add(channel, "mailto", **{**policy, "doubt_wait": doubt_wait, "timeout": "0.5s"})
    try:
        async with working(store, channels):
            yield
    finally:
        await channels.close()


def delivery(sqlite: SqliteDatabase) -> dict[str, Any]:
    [row] = sqlite.rows("deliveries")
    return dict(row)


async def ended(sqlite: SqliteDatabase, state: str) -> dict[str, Any]:
    await until_async(lambda: delivery(sqlite)["status"] == state, f"the delivery is {state}")
    return delivery(sqlite)


@FAKES
@pytest.mark.parametrize(
    "trouble", [Trouble.TAKE_AND_DROP, Trouble.TAKE_AND_HANG, Trouble.TAKE_AND_FAIL, Trouble.TAKE_AND_BABBLE]
)
async def test_R16_mail_that_was_taken_without_an_answer_is_completed_with_their_id_and_not_sent_twice(
    sqlite: SqliteDatabase, sqlite_store: Store, kind: type[FakeProvider], trouble: Trouble
) -> None:
    given_due_delivery(sqlite, to=ADA)
    async with kind() as fake:
        fake.troubles = [trouble]
        async with mailing(sqlite_store, fake):
            row = await ended(sqlite, "Completed")

    [kept] = fake.mails
    assert row["notification_id"] == kept.id


async def test_R16_what_a_look_up_finds_is_completed_with_their_time_and_the_request_is_not_repeated(
    sqlite: SqliteDatabase, sqlite_store: Store
) -> None:
    given_due_delivery(sqlite, to=ADA)
    async with FakePostmark() as fake:
        fake.troubles = [Trouble.TAKE_AND_DROP]
        async with mailing(sqlite_store, fake):
            row = await ended(sqlite, "Completed")

    [kept] = fake.mails
    assert (fake.posts, moment(row["notified_at"])) == (1, kept.at)


@FAKES
async def test_R11_mail_that_was_not_taken_is_sent_with_the_same_token(
    sqlite: SqliteDatabase, sqlite_store: Store, kind: type[FakeProvider]
) -> None:
    given_due_delivery(sqlite, to=ADA)
    async with kind() as fake:
        fake.troubles = [Trouble.DROP]
        async with mailing(sqlite_store, fake):
            row = await ended(sqlite, "Completed")

    [kept] = fake.mails
    assert (fake.posts, row["notification_id"]) == (2, kept.id)


async def test_R11_while_the_provider_cannot_be_asked_nothing_is_sent(
    sqlite: SqliteDatabase, sqlite_store: Store
) -> None:
    given_due_delivery(sqlite, to=ADA)
    async with FakePostmark() as fake:
        fake.troubles = [Trouble.TAKE_AND_DROP]
        fake.asking_troubles = [Trouble.MAINTENANCE, Trouble.TAKE_AND_FAIL, Trouble.TAKE_AND_BABBLE]
        async with mailing(sqlite_store, fake):
            row = await ended(sqlite, "Completed")

    assert (len(fake.mails), fake.posts, fake.asked) == (1, 1, 4)
    assert row["deferred_count"] == 3


@FAKES
async def test_R19_after_the_providers_memory_a_mail_in_doubt_is_held_for_a_person(
    sqlite: SqliteDatabase, sqlite_store: Store, kind: type[FakeProvider]
) -> None:
    given_due_delivery(sqlite, to=ADA)
    async with kind() as fake:
        fake.troubles = [Trouble.TAKE_AND_DROP]
        fake.is_forgetful = True
        async with mailing(sqlite_store, fake, ahead=timedelta(days=46)):
            row = await ended(sqlite, "DeadLettered")

    assert (len(fake.mails), fake.posts) == (1, 1)
    assert row["in_doubt"]
    [dead] = sqlite.rows("dead_letters")
    assert dead["reason"] == "in_doubt"


async def test_credentials_that_are_wrong_dead_letter_nobodys_mail(sqlite: SqliteDatabase, sqlite_store: Store) -> None:
    given_due_delivery(sqlite, to=ADA)
    async with FakePostmark(secret="the new one") as fake, mailing(sqlite_store, fake):
        await until_async(lambda: delivery(sqlite)["deferred_count"] > 5, "more tries than a mail has")
        fake.secret = SECRET
        await ended(sqlite, "Completed")

    assert len(fake.mails) == 1


async def test_search_that_lags_behind_is_outwaited_before_it_is_asked(
    sqlite: SqliteDatabase, sqlite_store: Store
) -> None:
    given_due_delivery(sqlite, to=ADA)
    async with FakePostmark() as fake:
        fake.troubles = [Trouble.TAKE_AND_DROP]
        fake.is_lagging = True
        async with mailing(sqlite_store, fake, doubt_wait="0.5s"):
            await ended(sqlite, "PendingRetry")
            fake.is_lagging = False
            await ended(sqlite, "Completed")

    assert (len(fake.mails), fake.asked) == (1, 1)
    assert override(DEFAULT_POLICY, POSTMARK_POLICY).doubt_wait == timedelta(minutes=5)
