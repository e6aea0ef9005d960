"""A receiver that can be asked: found with its time, not found, too old to tell; and nobody else may ask."""

import asyncio
import json
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from sendonce import ConfigError, Inbox
from sendonce.inbox.asgi import Application, receipts
from sendonce.signing import key_of, new_secret, sign_look_up
from tests.inbox.asking import Serving
from tests.inbox.handling import handle
from tests.outbox.callers import Caller
from tests.outbox.conftest import Kind
from tests.outbox.databases import Address, sqlite_connection

SECRET, OTHER = new_secret(), new_secret()
NOW = int(time.time())


def headers(token: str, *, secret: str = SECRET, at: int | None = None, age: int = 0) -> list[tuple[bytes, bytes]]:
    signed = sign_look_up([key_of(secret)], token, int(time.time()) if at is None else at, int(time.time()) - age)
    return [(name.encode(), value.encode()) for name, value in signed.items()]


async def asked(
    app: Application, path: str, given: list[tuple[bytes, bytes]] | None = None, *, method: str = "GET"
) -> tuple[int, Any]:
    """Ask as a server does."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    token = path.rpartition("/")[2]
    scope = {"type": "http", "method": method, "path": path, "headers": headers(token) if given is None else given}
    await app(scope, _never, send)
    start, body = sent
    assert dict(start["headers"])[b"content-type"] == b"application/json"
    return start["status"], json.loads(body["body"]) if body["body"] else None


@contextmanager
def handling(address: Address) -> Iterator[Any]:
    """A sync connection of its own, in a transaction that is committed at the end."""
    if address.dialect == "postgresql":
        with psycopg.connect(address.url) as other:
            yield other
        return
    with closing(sqlite_connection(address)) as connection, connection:
        yield connection


@asynccontextmanager
async def opened(kind: Kind) -> AsyncIterator[Any]:
    """Another connection of the same kind."""
    async with kind.open(kind.address) as caller:
        yield caller.connection


async def _never() -> Any:
    raise AssertionError("a look-up has no body to be read")


def on(address: Address, **options: Any) -> Application:
    given: dict[str, Any] = {"secrets": SECRET, **options}
    return receipts(Inbox(), lambda: handling(address), consumer="mailer", **given)


class TestAnswers:
    async def test_message_that_was_handled_is_found_on_every_kind_of_connection(
        self, kind: Kind, caller: Caller
    ) -> None:
        await handle(caller, "m-1", result="paid")
        await caller.end("commit")
        await handle(caller, "m-1")
        await caller.end("commit")

        if caller.is_async:
            seen = await Inbox().aseen(caller.connection, "mailer", "m-1")
            missing = await Inbox().aseen(caller.connection, "mailer", "m-2")
        else:
            seen = Inbox().seen(caller.connection, "mailer", "m-1")
            missing = Inbox().seen(caller.connection, "mailer", "m-2")
        await caller.end("rollback")
        app = receipts(Inbox(), partial(opened, kind), consumer="mailer", secrets=SECRET)
        status, found = (await asked(app, "/receipts/m-1")) if caller.is_async else (200, {})

        assert missing is None
        assert seen is not None
        assert (seen.result, seen.duplicates) == ("paid", 1)
        assert status == 200
        if caller.is_async:
            assert (found["found"], found["result"], found["duplicates"]) == (True, "paid", 1)

    async def test_message_is_found_not_found_or_too_old(self, address: Address) -> None:
        with handling(address) as connection, Inbox().once(connection, "mailer", "m-1") as first:
            first.result = "paid"
        app = on(address)

        found = await asked(app, "/receipts/m-1")
        missing = await asked(app, "/receipts/m-2")
        old = await asked(app, "/receipts/m-2", headers("m-2", age=90 * 86_400))
        old_but_there = await asked(app, "/receipts/m-1", headers("m-1", age=90 * 86_400))
        head = await asked(app, "/receipts/m-1", method="HEAD")

        assert (found[0], found[1]["found"], found[1]["result"]) == (200, True, "paid")
        assert missing == (404, {"found": False})
        assert old == (410, {"found": None, "error": "the message is older than receipts are kept: nobody can tell"})
        assert old_but_there[0] == 200
        assert head == (200, None)

    async def test_message_is_too_old_a_little_before_its_receipt_may_be_gone(self, address: Address) -> None:
        app = on(address, keep=timedelta(hours=3))

        assert [(await asked(app, "/m", headers("m", age=age)))[0] for age in (7000, 7300)] == [404, 410]

    async def test_message_of_another_consumer_is_not_found(self, address: Address) -> None:
        with handling(address) as connection, Inbox().once(connection, "ledger", "m-1"):
            pass

        assert (await asked(on(address), "/m-1"))[0] == 404


class TestDoors:
    @pytest.mark.parametrize(
        ("given", "sentence"),
        [
            ([], "it has no header sendonce-recorded-at"),
            ([(b"sendonce-recorded-at", b"soon")], "is not a whole number of seconds"),
            ([(b"sendonce-recorded-at", b"1")], "it has no header webhook-id"),
            (headers("m-1", secret=OTHER), "by none of the secrets"),
            (headers("m-1", at=NOW - 10_000), "it was signed more than 5m ago"),
            ([*headers("m-1"), (b"webhook-id", b"look-up:m-1")], "more than one header webhook-id"),
            ([*headers("m-1")[1:], (b"webhook-id", b"\xff")], "something else than plain ASCII"),
            ([(b"sendonce-recorded-at", b"1"), (b"authorization", b"Bearer x")], "it has no header webhook-id"),
        ],
    )  # fmt: skip
    async def test_look_up_without_the_secret_learns_nothing(
        self, given: list[tuple[bytes, bytes]], sentence: str
    ) -> None:
        def connect() -> Any:
            raise AssertionError("the database is not asked for strangers")

        app = receipts(Inbox(), connect, consumer="mailer", secrets=[SECRET])

        status, said = await asked(app, "/receipts/m-1", given)

        assert status == 401
        assert sentence in said["error"]
        assert SECRET not in str(said)

    async def test_look_up_signed_for_another_message_learns_nothing(self, address: Address) -> None:
        status, said = await asked(on(address), "/receipts/m-1", headers("m-2"))

        assert status == 401
        assert "it is signed for another message" in said["error"]

    async def test_webhook_is_no_look_up(self, address: Address) -> None:
        """The same key signs both: the one cannot be shown as the other."""
        given = [(name, value.replace(b"look-up:", b"")) for name, value in headers("m-1")]

        assert (await asked(on(address), "/m-1", given))[0] == 401

    async def test_bearer_is_enough_where_it_is_set(self, address: Address) -> None:
        app = on(address, secrets=(), bearer="b3arer")
        stamp = (b"sendonce-recorded-at", str(NOW).encode())

        statuses = [
            (await asked(app, "/m-1", [stamp, *more]))[0]
            for more in ([(b"Authorization", b"Bearer b3arer")], [(b"authorization", b"Bearer other")], [])
        ]

        assert statuses == [404, 401, 401]

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
    async def test_look_up_is_a_get(self, address: Address, method: str) -> None:
        assert await asked(on(address), "/m-1", method=method) == (405, {"error": "ask with GET …/TOKEN"})

    @pytest.mark.parametrize("path", ["/receipts/", "/receipts/" + "a" * 501, "/receipts/a\x00b", "/receipts/a\nb"])
    async def test_token_that_no_message_has_is_refused(self, address: Address, path: str) -> None:
        assert (await asked(on(address), path, []))[0] == 400

    async def test_look_ups_are_bounded_and_strangers_use_up_none(self, address: Address) -> None:
        app = on(address, rate=2)

        strangers = [(await asked(app, "/m-1", []))[0] for _ in range(5)]
        answers = [(await asked(app, "/m-1"))[0] for _ in range(5)]

        assert strangers == [401] * 5
        assert answers[:2] == [404, 404]
        assert 429 in answers

    async def test_look_ups_at_the_same_time_are_bounded(self) -> None:
        entered, end = asyncio.Event(), asyncio.Event()

        class Slow:
            async def __aenter__(self) -> Any:
                entered.set()
                await end.wait()
                raise OSError("no database")

            async def __aexit__(self, *_: object) -> None: ...

        app = receipts(Inbox(), Slow, consumer="mailer", secrets=SECRET, at_once=1)
        first = asyncio.create_task(asked(app, "/m-1"))
        await entered.wait()
        second = await asked(app, "/m-1")
        end.set()

        assert second[0] == 429
        assert (await first)[0] == 503
        assert (await asked(app, "/m-1"))[0] == 503

    async def test_database_that_fails_is_no_answer_and_its_words_are_not_told(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        def connect() -> Any:
            raise sqlite3.OperationalError("password=hunter2")

        app = receipts(Inbox(), connect, consumer="mailer", secrets=SECRET)

        assert await asked(app, "/m-1") == (503, {"error": "it cannot be looked up now; ask again"})
        assert "hunter2" not in caplog.text
        assert "OperationalError" in caplog.text

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"secrets": ()}, "give the secrets or the bearer"),
            ({"secrets": "whsec_x"}, "a signing secret is whsec_"),
            ({"keep": timedelta(hours=1)}, "keep must be longer than an hour"),
            ({"rate": 0}, "rate must be above zero"),
            ({"at_once": 0}, "at_once at least 1"),
        ],
    )
    def test_setting_that_cannot_be_is_refused(self, options: dict[str, Any], sentence: str) -> None:
        with pytest.raises(ConfigError, match=sentence):
            receipts(Inbox(), lambda: None, consumer="mailer", **{"secrets": SECRET, **options})


def test_application_runs_under_a_server(sqlite_address: Address) -> None:
    def get(path: str, given: list[tuple[bytes, bytes]]) -> tuple[int, Any]:
        request = urllib.request.Request(serving.url + path)  # noqa: S310, it is our own
        for name, value in given:
            request.add_header(name.decode(), value.decode())
        try:
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    with Serving(on(sqlite_address)) as serving:
        assert get("/receipts/m-1", headers("m-1")) == (404, {"found": False})
        assert get("/receipts/m%2D1", headers("m-1")) == (404, {"found": False})
        assert get("/receipts/m-1", [])[0] == 401
