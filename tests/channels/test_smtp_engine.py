"""Mails with the real engine and a real server: who is retried, who is given up, and who waits for a person."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sendonce.channels.email.smtp import POLICY
from sendonce.channels.registry import Channels
from sendonce.domain.emails import Email
from sendonce.store.ports import Store
from tests.channels.mail_servers import CLOSE, channel_to, mail_server, scripted
from tests.engine.conftest import sqlite, sqlite_store, sqlite_template
from tests.engine.rig import working
from tests.given import given_due_delivery
from tests.processes import until_async
from tests.store.databases import SqliteDatabase

__all__ = ["sqlite", "sqlite_store", "sqlite_template"]


@asynccontextmanager
async def mailing(store: Store, port: int, **settings: Any) -> AsyncIterator[None]:
    """A worker that sends mails through the server on this port."""
    async with channel_to(port, **settings) as channel:
        channels = Channels()
        channels.add(channel, "mailto", **POLICY)
        async with working(store, channels):
            yield


def given_mail(sqlite: SqliteDatabase, to: str) -> int:
    return given_due_delivery(sqlite, to=Email(to, subject="Saved", text="Your memo is saved."))


def states(sqlite: SqliteDatabase) -> dict[int, str]:
    return {row["id"]: row["status"] for row in sqlite.rows("deliveries")}


async def test_R15_unknown_mailbox_is_given_up_at_once_and_the_others_go_on(
    sqlite: SqliteDatabase, sqlite_store: Store
) -> None:
    nobody, ada = given_mail(sqlite, "nobody@example.com"), given_mail(sqlite, "ada@example.com")

    script = {"RCPT": ["550 5.1.1 no such mailbox", "250 ok"]}
    async with scripted(script) as server, mailing(sqlite_store, server.port, pool=1):
        await until_async(lambda: set(states(sqlite).values()) == {"DeadLettered", "Completed"}, "both are ended")

    assert states(sqlite) == {nobody: "DeadLettered", ada: "Completed"}
    [letter] = sqlite.rows("dead_letters")
    assert (letter["delivery_id"], letter["reason"]) == (nobody, "refused")
    assert len(server.mails) == 1


async def test_R14_greylisted_mail_is_sent_again_with_the_same_bytes(
    sqlite: SqliteDatabase, sqlite_store: Store
) -> None:
    ada = given_mail(sqlite, "ada@example.com")

    script = {".": ["451 4.7.1 greylisted", "451 4.7.1 greylisted", "250 2.0.0 queued"]}
    async with scripted(script) as server, mailing(sqlite_store, server.port):
        await until_async(lambda: states(sqlite) == {ada: "Completed"}, "it is sent")

    assert len(server.mails) == 3
    assert len(set(server.mails)) == 1


async def test_mail_is_not_given_up_for_a_wrong_password(sqlite: SqliteDatabase, sqlite_store: Store) -> None:
    ada = given_mail(sqlite, "ada@example.com")

    async with mail_server(password="right") as server:
        async with mailing(sqlite_store, server.port, user="shop", password="wrong"):
            await until_async(lambda: len(sqlite.rows("attempts")) > 8, "more attempts than the policy has")
        [delivery] = sqlite.rows("deliveries")
        async with mailing(sqlite_store, server.port, user="shop", password="right"):
            await until_async(lambda: states(sqlite) == {ada: "Completed"}, "it is sent when the password is right")

    assert delivery["status"] in ("PendingRetry", "InProgress")
    assert delivery["final_error_code"] == "our_credentials"
    assert len(server.envelopes) == 1


async def test_mail_that_was_dropped_after_the_final_dot_is_not_sent_again_and_waits_for_a_person(
    sqlite: SqliteDatabase, sqlite_store: Store
) -> None:
    ada = given_mail(sqlite, "ada@example.com")

    async with scripted({".": CLOSE}) as server, mailing(sqlite_store, server.port):
        await until_async(lambda: states(sqlite) == {ada: "DeadLettered"}, "it is held")

    [letter] = sqlite.rows("dead_letters")
    assert letter["reason"] == "in_doubt"
    assert len(server.mails) == 1
