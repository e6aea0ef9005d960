"""Errors as answers: every kind has its status and one sentence, and no sentence repeats what a caller sent."""

import asyncio
import json
import sqlite3
from typing import Annotated, Any

import pytest
from fastapi import FastAPI
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.types import Message

from sendonce import (
    BadDestination,
    BadEvent,
    BadMessage,
    BadWebhook,
    CommitUnknown,
    ConfigError,
    KeyReused,
    NotAllowed,
    NotFound,
    NotInTransaction,
    Outbox,
    PublishError,
    RerunRefused,
    SchemaMismatch,
    SendonceError,
    ServerReadOnly,
    StoreBusy,
    StoreError,
)
from sendonce.compose import migration_sql
from sendonce.contrib.fastapi import ANSWERS, Line, Problem, Text, answer_errors

SECRET = "hunter2-4711"


class Order(BaseModel):
    name: Annotated[Line, Field(max_length=5)]
    amount: int
    note: Text = ""
    code: Annotated[str, Field(pattern=r"^[A-Z]+$")] = "A"
    tags: Annotated[list[str], Field(min_length=1)] = ["a"]


class Answer(BaseModel):
    status: int
    headers: dict[str, str]
    body: Any


def application(error: Exception | None = None) -> FastAPI:
    app = FastAPI(responses=ANSWERS)
    answer_errors(app)

    @app.post("/orders")
    async def add(order: Order) -> Order:
        if error is not None:
            raise error
        return order

    return app


def ask(app: FastAPI, body: bytes, *, method: str = "POST", path: str = "/orders") -> Answer:
    """One request, past the network."""
    said: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        said.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": path,
        "raw_path": path.encode(), "root_path": "", "scheme": "http", "query_string": b"",
        "headers": [(b"content-type", b"application/json")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in said[0]["headers"]}
    content = b"".join(message.get("body", b"") for message in said[1:])
    return Answer(status=said[0]["status"], headers=headers, body=json.loads(content))


GOOD = json.dumps({"name": "tea", "amount": 1}).encode()
STATUSES = [
    (NotFound, 404), (BadWebhook, 401), (BadMessage, 400), (NotAllowed, 409), (KeyReused, 409),
    (RerunRefused, 409), (BadEvent, 422), (BadDestination, 422),
    (PublishError, 422), (NotInTransaction, 422), (ConfigError, 400), (SendonceError, 400), (StoreBusy, 503),
    (ServerReadOnly, 503), (CommitUnknown, 503), (StoreError, 500), (SchemaMismatch, 500),
]  # fmt: skip


@pytest.mark.parametrize(("error", "status"), STATUSES)
def test_error_has_its_answer(error: type[SendonceError], status: int) -> None:
    answer = ask(application(error("what is wrong")), GOOD)

    assert answer.status == status
    assert Problem(**answer.body).error
    if status < 500 and error not in (KeyReused, RerunRefused):
        assert answer.body == {"error": "what is wrong"}


def test_error_that_is_public_has_a_status() -> None:
    import sendonce

    public = {
        value
        for name in sendonce.__all__
        if isinstance(value := getattr(sendonce, name), type) and issubclass(value, SendonceError)
    }
    assert public == {error for error, _ in STATUSES}


@pytest.mark.parametrize("error", [StoreError, SchemaMismatch, StoreBusy, CommitUnknown])
def test_response_hides_what_the_database_said(error: type[SendonceError]) -> None:
    assert SECRET not in str(ask(application(error(SECRET)), GOOD).body)


def test_busy_database_says_when_to_come_back() -> None:
    answer = ask(application(StoreBusy("locked")), GOOD)

    assert int(answer.headers["retry-after"]) > 0


def test_commit_unknown_is_answered_without_retry_after() -> None:
    answer = ask(application(CommitUnknown("lost")), GOOD)

    assert "retry-after" not in answer.headers
    assert "it may be done; look before you try again" in answer.body["error"]


async def test_advice_for_python_is_reworded_for_http_callers() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(migration_sql("sqlite:///none.db"))
    connection.execute("begin")
    outbox = Outbox()

    def ask_for(key: str, payload: object, version: int) -> None:
        outbox.request(connection, "a.b", payload, key=key, subject="s", version=version, required="null:a")

    ask_for("k", 1, 1)
    for refused, again in ((KeyReused, ("k", 2, 1)), (RerunRefused, ("l", 1, 2))):
        with pytest.raises(refused) as raised:
            ask_for(*again)
        said = (await asyncio.to_thread(ask, application(raised.value), GOOD)).body["error"]
        assert "=" in str(raised.value)
        assert "=" not in said
    connection.close()


@pytest.mark.parametrize(
    ("order", "named"),
    [
        ({"name": SECRET, "amount": 1}, "name: it is too long: at most 5"),
        ({"name": "tea", "amount": 1, "code": SECRET}, "code: it is not written as expected"),
        ({"name": "tea", "amount": 1, "tags": []}, "tags: it is too short: at least 1"),
        ({"name": "tea", "amount": SECRET}, "amount: "),
        ({"name": f"a\n{SECRET[:2]}", "amount": 1}, "name: it must be one line"),
        ({"name": "", "amount": 1}, "name: it is empty"),
        ({"name": "tea", "amount": 1, "note": f"{SECRET}\0"}, "note: it has control characters"),
        ({"amount": 1}, "name: field required"),
        ([SECRET], "the request: "),
    ],
)
def test_input_that_is_wrong_is_named_and_never_repeated(order: object, named: str) -> None:
    answer = ask(application(), json.dumps(order).encode())

    assert answer.status == 422
    assert answer.body["error"].startswith(named)
    assert SECRET not in answer.body["error"]


def test_faults_of_one_request_are_told_together() -> None:
    answer = ask(application(), b"{}")

    assert answer.body == {"error": "name: field required; amount: field required"}


def test_request_without_json_or_route_is_answered_with_a_sentence() -> None:
    broken = ask(application(), b'{"name": "hunter2')
    lost = ask(application(), b"", method="GET", path="/nowhere")
    wrong = ask(application(), b"", method="DELETE")

    assert (broken.status, lost.status, wrong.status) == (422, 404, 405)
    assert "hunter2" not in str(broken.body)
    assert all(Problem(**each.body).error for each in (broken, lost, wrong))


@pytest.mark.parametrize("text", ["a\0b", "\x1b[1m", "\x7f"])
def test_text_that_no_database_stores_or_no_terminal_shows_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Text).validate_python(text)


@pytest.mark.parametrize("text", ["Grüße, мир, 世界", "two\nlines\tand a tab"])
def test_texts_without_advice_are_kept_as_they_are(text: str) -> None:
    assert TypeAdapter(Text).validate_python(text) == text


@pytest.mark.parametrize("text", [" ", " tea", "a\u2028b", "a\x85b", "a\r\nb"])
def test_line_is_one_line(text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Line).validate_python(text)
