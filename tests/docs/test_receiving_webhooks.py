"""The receivers of the page about receiving webhooks do what the text beside them says, on real servers."""

import asyncio
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from werkzeug.serving import make_server

import sendonce
from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.guard import Guard
from sendonce.channels.http.look_ups import SubscriptionLookUps
from sendonce.channels.http.webhook import Webhook
from sendonce.channels.protocol import Credentials
from sendonce.domain.outcomes import Delivered, Found, NotThere
from sendonce.inbox.webhooks import Scheme
from sendonce.signing import key_of, new_secret
from tests.channels.sending import message_to
from tests.docs.test_examples import examples
from tests.inbox.asking import Serving
from tests.processes import ROOT

PAGE = "docs/how-to/receiving-webhooks.md"
FASTAPI, FLASK = examples(PAGE)
OLD, NEW = new_secret(), new_secret()


@pytest.fixture(autouse=True)
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORDERS_SECRETS", f"{OLD} {NEW}")
    sendonce.migrate("sqlite:///shop.db")
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.execute("create table orders (id int)")


@contextmanager
def fastapi() -> Iterator[str]:
    names: dict[str, Any] = {"__name__": "shop"}
    exec(FASTAPI, names)  # noqa: S102
    with Serving(names["app"]) as serving:
        yield serving.url
    asyncio.run(names["engine"].dispose())


@contextmanager
def flask() -> Iterator[str]:
    names: dict[str, Any] = {"__name__": "shop"}
    exec(FLASK, names)  # noqa: S102
    server = make_server("127.0.0.1", 0, names["app"])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def sent(url: str, *secrets: str, key: str = "o-1", more: Mapping[str, str] | None = None) -> tuple[str, Any]:
    """What our own sender is answered, and what a look-up says then."""
    client = HttpClient(Guard.parse("127.0.0.0/8"))
    credentials = Credentials(signing=tuple(key_of(each) for each in secrets), headers=more or {})
    message = message_to(
        f"{url}/hooks/orders", payload='{"order": 7}', key=key, credentials=credentials, ask=f"{url}/receipts/{{token}}"
    )
    try:
        outcome = await Webhook(client).send(message, timeout=60)
        return type(outcome).__name__, await SubscriptionLookUps(client).look_up(message, timeout=60)
    finally:
        await client.close()


def orders() -> list[tuple[int]]:
    with closing(sqlite3.connect("shop.db")) as connection:
        return connection.execute("select id from orders").fetchall()


@pytest.mark.parametrize("serving", [fastapi, flask])
def test_webhook_is_handled_once_by_either_secret_and_refused_without(
    serving: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with serving() as url:
        answers = [asyncio.run(sent(url, *secrets))[0] for secrets in ((OLD,), (OLD, NEW), (NEW,), (new_secret(),), ())]

    assert answers == [*[Delivered.__name__] * 3, "Refused", "Refused"]
    assert orders() == [(7,)]


def test_receiver_that_the_page_mounts_is_asked_and_tells_what_it_has() -> None:
    with fastapi() as url:
        first = asyncio.run(sent(url, NEW))[1]
        other = asyncio.run(sent(url, new_secret(), key="o-2"))[1]
        unhandled = asyncio.run(_looked_up(url))

    assert isinstance(first, Found)
    assert first.sent_at is not None
    assert other.code == "http_401"
    assert unhandled == NotThere()


async def _looked_up(url: str) -> Any:
    client = HttpClient(Guard.parse("127.0.0.0/8"))
    message = message_to(
        f"{url}/hooks/orders",
        key="never",
        credentials=Credentials(signing=(key_of(NEW),)),
        ask=f"{url}/receipts/{{token}}",
    )
    try:
        return await SubscriptionLookUps(client).look_up(message, timeout=60)
    finally:
        await client.close()


def test_page_names_every_scheme() -> None:
    text = (ROOT / PAGE).read_text("utf-8")

    assert re.findall(r'^\| `"(\w+)"`', text, re.MULTILINE) == list(get_args(Scheme))
