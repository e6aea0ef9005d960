"""What can be handled at all, and what a body is read as."""

from datetime import UTC, datetime

import pytest

from sendonce.consumer.incoming import Incoming, Taken, fault_of
from sendonce.errors import BadMessage


def taken(id: str | None = "m-1", body: bytes = b"{}", headers: dict[str, str] | None = None) -> Taken:
    return Taken(id=id, body=body, headers=headers or {}, position="nats:payments:1")


def incoming(body: bytes) -> Incoming:
    return Incoming(
        id="m-1",
        body=body,
        headers={},
        subject=None,
        source="nats:main/payments",
        tries=1,
        first_seen_at=datetime.now(UTC),
    )


def test_message_that_can_be_handled_has_no_fault() -> None:
    assert fault_of(taken("x" * 500)) is None
    assert fault_of(taken(body=b"x" * 10), largest_body=10) is None


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (taken(None), "it has no id"),
        (taken(""), "it has no id"),
        (taken("a\0b"), "a message's id must not contain a NUL character"),
        (taken("x" * 501), "a message's id is a text of 1 to 500 bytes, not 501 bytes"),
        (taken("é" * 251), "a message's id is a text of 1 to 500 bytes, not 502 bytes"),
        (taken(body=b"x" * 1_000_001), "its body has 1000001 bytes; at most 1000000 are taken"),
        (taken(headers={"a": "x" * 16_000}), "its headers have 16001 characters; at most 16000 are taken"),
    ],
)
def test_message_that_cannot_be_handled_says_why(message: Taken, fault: str) -> None:
    assert fault_of(message) == fault


def test_message_body_is_read_as_json() -> None:
    assert incoming(b'{"amount": 5}').json() == {"amount": 5}


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_message_body_that_is_no_json_is_bad(body: bytes) -> None:
    with pytest.raises(BadMessage):
        incoming(body).json()


def test_message_shows_no_content_where_it_is_printed() -> None:
    assert "secret" not in repr(incoming(b"secret"))
