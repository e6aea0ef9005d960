"""Payloads and files that are too large or too deep: one sentence, nothing half-written, the transaction goes on."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sendonce.cli import main
from sendonce.domain.emails import Attachment, Email
from sendonce.errors import BadEvent, SendonceError
from sendonce.outbox.outbox import Outbox
from tests.store.databases import Database

DEEP = 100_000


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def circle() -> object:
    own: list[object] = []
    own.append(own)
    return own


PAYLOADS: dict[str, Callable[[], object]] = {
    "a hundred megabytes": lambda: "a" * 100_000_000,
    "a hundred thousand levels": lambda: nested(DEEP),
    "a hundred and one levels": lambda: nested(101),
    "itself": circle,
    "a million keys": lambda: {str(number): number for number in range(200_000)},
}


@pytest.mark.parametrize("kind", PAYLOADS)
def test_payload_that_is_too_much_is_refused_and_the_transaction_goes_on(database: Database, kind: str) -> None:
    payload = PAYLOADS[kind]()

    with database.connection() as connection:
        with pytest.raises(SendonceError) as caught:
            Outbox().publish(connection, "a.b", payload, key="k", to="null:a")
        Outbox().publish(connection, "a.b", {}, key="other", to="null:a")

    assert len(str(caught.value)) < 300
    assert len(str(caught.value).splitlines()) == 1
    assert database.execute("select key from sendonce_events") == [("other",)]
    assert database.one("select count(*) from sendonce_deliveries") == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Email("ada@example.com", text="a" * 20_000_000),
        lambda: Email("ada@example.com", text="a", attachments=[Attachment("a", bytes(11_000_000))]),
        lambda: Email("ada@example.com", text="a", subject="a" * 1_000_000),
        lambda: "null:" + "a" * 1_000_000,
        lambda: ["null:a", "https://good.example/" + "a" * 3000],
    ],
    ids=["text", "attachments", "subject", "address", "one of two"],
)
def test_destination_that_is_too_much_is_refused_whole(database: Database, make: Callable[[], object]) -> None:
    with database.connection() as connection, pytest.raises(SendonceError) as caught:
        Outbox().publish(connection, "a.b", {}, key="k", to=make())  # type: ignore[arg-type]

    assert len(str(caught.value).splitlines()) == 1
    assert database.one("select count(*) from sendonce_events") == 0


HEADERS = {
    "fifty megabytes": {"X-Large": "a" * 50_000_000},
    "sixteen kilobytes and a byte": {"X-Large": "a" * (16_384 - 7 + 1)},
    "sixty-five": {f"X-{number}": "" for number in range(65)},
    "bytes, not letters": {"X-Large": "ü" * 8_200},
}
WITHIN_HEADERS = [{"X-Large": "a" * (16_384 - 7)}, {f"X-{number}": "a" for number in range(64)}]


@pytest.mark.parametrize("kind", HEADERS)
def test_headers_that_are_too_much_are_refused_and_the_transaction_goes_on(database: Database, kind: str) -> None:
    with database.connection() as connection:
        with pytest.raises(BadEvent, match="64, with 16384 bytes together") as caught:
            Outbox().publish(connection, "a.b", {}, key="k", to="null:a", headers=HEADERS[kind])
        for number, headers in enumerate(WITHIN_HEADERS):
            Outbox().publish(connection, "a.b", {}, key=f"within {number}", to="null:a", headers=headers)

    assert len(str(caught.value)) < 300
    assert database.one("select count(*) from sendonce_events") == len(WITHIN_HEADERS)


def test_destinations_that_are_too_many_are_refused_and_the_transaction_goes_on(database: Database) -> None:
    many = [f"null:{number}" for number in range(200_000)]

    with database.connection() as connection:
        with pytest.raises(BadEvent, match="10000 destinations, not 200000") as caught:
            Outbox().publish(connection, "a.b", {}, key="k", to=many)
        with pytest.raises(BadEvent, match="10000 destinations, not 10001"):
            Outbox().request(
                connection, "a.b", {}, key="r", subject="s", version=1, required=many[:10_000], optional=["null:x"]
            )
        with pytest.raises(BadEvent, match="3 destinations, not 4"):
            Outbox(most_destinations=3).publish(connection, "a.b", {}, key="few", to=many[:4])
        Outbox(most_destinations=3).publish(connection, "a.b", {}, key="few", to=many[:3])
        assert Outbox().publish(connection, "a.b", {}, key="many", to=many[:10_000]).deliveries == 10_000

    assert len(str(caught.value).splitlines()) == 1
    assert database.one("select count(*) from sendonce_events") == 2


PUBLISH = ["publish", "a.b", "--key=k", "--subscriptions-only", "--payload-file=f"]
FILES = {
    "sendonce.toml of many levels": (["config", "--config=f"], "[worker]\na = " + "[" * DEEP),
    "sendonce.toml of many dots": (["config", "--config=f"], "a" + ".a" * 3_000 + " = 1"),
    "a payload of many levels": (PUBLISH, "[" * DEEP + "]" * DEEP),
    "a payload of many megabytes": (PUBLISH, json.dumps("a" * 20_000_000)),
    "a number of many digits": (PUBLISH, "1" * 10_000),
    "a policy of many levels": (["worker", "--until-idle", "--policy=" + "[" * DEEP], ""),
}


@pytest.mark.parametrize("kind", FILES)
def test_file_that_is_too_much_is_one_sentence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, text = FILES[kind]
    monkeypatch.chdir(tmp_path)
    Path("f").write_text(text)
    main(["migrate", "--database=sqlite:///x.db"])

    code = main([*words, "--database=sqlite:///x.db"])

    said = capsys.readouterr().err
    assert code in (1, 2)
    assert len(said.splitlines()) == 1
    assert len(said) < 500
    assert "unexpected" not in said
