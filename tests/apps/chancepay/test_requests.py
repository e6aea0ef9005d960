"""The requests' service by itself: what callers get, what bad input gets, and who may do what."""

import json
import re
import subprocess
import sys
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.apps.chancepay.services import ChancePay, Side, keys_in
from tests.apps.service import Answer
from tests.processes import ROOT, SECONDS, until

pytestmark = pytest.mark.slow

NOBODY = str(UUID(int=0))
_numbers = count(1)


@pytest.fixture
def wallet(services: ChancePay) -> str:
    return services.given_wallet(f"wallet-{next(_numbers)}", 1000)


def report(
    services: ChancePay, uuid: str, status: str = "SUCCEED", reason: str | None = None, **more: object
) -> Answer:
    """Report as the wallet does."""
    found = services.payment(uuid)
    about = {name: found[name] for name in ("kind", "wallet", "amount", "refund_of")}
    body = {**about, "status": status, "reason": reason, **more}
    return services.requests.call("PUT", f"/internal/requests/{uuid}", body, role="internal")


def test_request_is_recorded_once_for_its_uuid(services: ChancePay, wallet: str) -> None:
    body = {"wallet": wallet, "amount": 5, "uuid": str(uuid4())}

    answers = [services.requests.call("POST", "/payments", body) for _ in range(3)]
    other = services.requests.call("POST", "/payments", body | {"amount": 6})

    assert [answer.status for answer in answers] == [201, 200, 200]
    assert len({answer.body["uuid"] for answer in answers}) == 1
    assert (other.status, other.body["error"][:5]) == (409, "uuid:")
    events = "select count(*) from sendonce_events where key = ?"
    assert services.requests.database.one(events, body["uuid"]) == 1


def test_pending_request_says_why_in_mode_sure(services: ChancePay, wallet: str) -> None:
    uuid = services.pay(wallet, 5)

    until(lambda: services.payment(uuid)["pending"]["why"] == "no_report_yet", "the order to be published")

    assert services.payment(uuid)["pending"]["detail"] == "the broker has it"
    assert services.payment(uuid)["status"] == "PENDING"


def test_report_decides_a_request_once(services: ChancePay, wallet: str) -> None:
    uuid = services.pay(wallet, 5)

    first, again = report(services, uuid), report(services, uuid)
    other = report(services, uuid, "FAILED", "insufficient_balance")

    assert [(answer.status, answer.body) for answer in (first, again)] == [
        (200, {"known": False}),
        (200, {"known": True}),
    ]
    assert (other.status, other.body) == (409, {"error": "this request is SUCCEED already; nothing was changed"})
    found = services.payment(uuid)
    assert (found["status"], found["reason"], found["pending"]) == ("SUCCEED", None, None)


def test_report_about_other_content_or_nothing_is_refused(services: ChancePay, wallet: str) -> None:
    uuid = services.pay(wallet, 5)
    body = {"kind": "payment", "wallet": wallet, "amount": 5, "status": "SUCCEED"}

    other = report(services, uuid, amount=6)
    nobody = services.requests.call("PUT", f"/internal/requests/{NOBODY}", body, role="internal")

    assert other.status == 409
    assert "about another amount" in other.body["error"]
    assert (nobody.status, nobody.body["error"]) == (404, f"there is no request {NOBODY}")
    assert services.payment(uuid)["status"] == "PENDING"
    assert services.requests.service is not None
    services.requests.service.process.says(f"report about {uuid} refused")


def test_database_refuses_a_second_decision_and_other_content(services: ChancePay, wallet: str) -> None:
    uuid = services.pay(wallet, 5)
    report(services, uuid)
    database = services.requests.database
    [key] = database.execute("select number from requests where wallet = ?", wallet)

    for change in ("status = 'FAILED', reason = 'unknown_wallet'", "amount = 7", "wallet = 'other'"):
        with pytest.raises(Exception, match="decided once"):
            database.execute(f"update requests set {change} where number = ?", key[0])

    assert services.payment(uuid)["status"] == "SUCCEED"


def test_refunds_are_never_more_than_was_paid(services: ChancePay, wallet: str) -> None:
    uuid = services.pay(wallet, 10)
    early = services.requests.call("POST", f"/payments/{uuid}/refunds", {"amount": 1})
    report(services, uuid)

    first = services.refund(uuid, 7)
    second = services.requests.call("POST", f"/payments/{uuid}/refunds", {"amount": 4})
    report(services, first, "FAILED", "unknown_payment")
    third = services.refund(uuid, 10)
    of_refund = services.requests.call("POST", f"/payments/{third}/refunds", {"amount": 1})

    assert early.status == second.status == 409
    assert second.body["error"] == "amount: it is too large: at most 3 of this payment can be given back"
    assert services.payment(uuid)["refunded"] == 10, "what has failed can be asked back again"
    assert services.payment(third)["refund_of"] == uuid
    assert (of_refund.status, of_refund.body) == (404, {"error": f"there is no payment {third}"})


def test_refund_with_its_uuid_again_is_the_one_that_is_there(services: ChancePay, wallet: str) -> None:
    uuid = services.pay(wallet, 10)
    report(services, uuid)
    body = {"amount": 10, "uuid": str(uuid4())}

    answers = [services.requests.call("POST", f"/payments/{uuid}/refunds", body) for _ in range(2)]

    assert [answer.status for answer in answers] == [201, 200]
    assert services.payment(uuid)["refunded"] == 10


def test_caller_sees_only_what_is_its_own(services: ChancePay, wallet: str) -> None:
    uuid = services.pay(wallet, 5)
    other = services.requests.key("caller", name="somebody else")

    seen = services.requests.call("GET", f"/payments/{uuid}", key=other)
    listed = services.requests.call("GET", "/payments", key=other)
    taken = services.requests.call("POST", "/payments", {"wallet": wallet, "amount": 5, "uuid": uuid}, key=other)
    refund = services.requests.call("POST", f"/payments/{uuid}/refunds", {"amount": 5}, key=other)

    assert (seen.status, seen.body) == (404, {"error": f"there is no payment {uuid}"})
    assert listed.body == {"payments": [], "next": None}
    assert taken.status == 409
    assert refund.status == 404


def test_lists_come_in_pages(services: ChancePay, wallet: str) -> None:
    key = services.requests.key("caller", name=f"pager {wallet}")
    made = []
    for amount in (1, 2, 3):
        body = {"wallet": wallet, "amount": amount}
        made.append(services.requests.call("POST", "/payments", body, key=key).body["uuid"])

    first = services.requests.call("GET", "/payments?limit=2", key=key).body
    second = services.requests.call("GET", f"/payments?limit=2&before={first['next']}", key=key).body
    one = services.requests.get("/internal/requests?limit=1&pending=true", role="internal")
    two = services.requests.get(f"/internal/requests?limit=1&pending=true&after={one['next']}", role="internal")

    assert [each["uuid"] for each in first["payments"] + second["payments"]] == made[::-1]
    assert second["next"] is None
    assert one["requests"][0]["order"]["uuid"] != two["requests"][0]["order"]["uuid"]


def test_key_is_needed_and_is_for_one_role(services: ChancePay) -> None:
    for side, path in ((services.requests, f"/payments/{NOBODY}"), (services.wallet, "/wallets/ada")):
        for key in ("key_guessed", "\xe4", " "):
            answer = side.call("GET", path, key=key)
            assert (answer.status, answer.body["error"][:22]) == (401, "send your API key as: "), key
        assert side.call("GET", path, role="internal").status == 403
    assert services.requests.call("GET", "/internal/requests").status == 403
    assert services.wallet.call("GET", "/internal/payments").status == 403


def test_key_is_made_and_revoked_by_command(services: ChancePay, wallet: str) -> None:
    made, again = (command(services.requests, "new-key", "shop").stdout for _ in range(2))
    [old], [new] = keys_in(made), keys_in(again)
    assert services.requests.call("GET", "/payments", key=old).status == 200

    revoked = command(services.requests, "revoke-key", "shop")

    assert revoked.stderr == "2 keys of shop ended\n"
    assert [services.requests.call("GET", "/payments", key=key).status for key in (old, new)] == [401, 401]
    assert services.requests.call("GET", "/payments").status == 200, "the others stay"


def command(side: Side, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """One of a service's commands, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", f"apps.chancepay.{side.name}", arguments[0], "--database", side.url, *arguments[1:]],
        cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip


GOOD: dict[str, Any] = {"wallet": "ada", "amount": 5}


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/payments", GOOD | {"amount": 0}, "amount: "),
        ("/payments", GOOD | {"amount": -5}, "amount: "),
        ("/payments", GOOD | {"amount": 2**63}, "amount: "),
        ("/payments", GOOD | {"amount": 10**400}, "amount: "),
        ("/payments", GOOD | {"amount": 1.0}, "amount: "),
        ("/payments", GOOD | {"amount": "5"}, "amount: "),
        ("/payments", GOOD | {"amount": True}, "amount: "),
        ("/payments", GOOD | {"amount": None}, "amount: "),
        ("/payments", {"wallet": "ada"}, "amount: field required"),
        ("/payments", GOOD | {"uuid": "17"}, "uuid: "),
        ("/payments", GOOD | {"uuid": "\ud800"}, "uuid: "),
        ("/payments", GOOD | {"wallet": "no-such-wallet"}, "wallet: there is no wallet no-such-wallet"),
        ("/payments", GOOD | {"wallet": "\ud800"}, "wallet: "),
        ("/payments", GOOD | {"wallet": "book:paid"}, "wallet: "),
        ("/payments", GOOD | {"wallet": "ada\x00"}, "wallet: "),
        ("/payments", GOOD | {"wallet": "a" * 65}, "wallet: "),
        ("/payments", GOOD | {"wallet": "ada\n"}, "wallet: "),
        ("/payments", GOOD | {"currency": "EUR"}, "currency: "),
        ("/payments", b"{", "the request is not JSON"),
        ("/payments", b'{"wallet": "\xff"}', "There was an error parsing the body"),
        ("/payments", [], "the request: "),
        ("/payments/17/refunds", {"amount": 1}, "uuid: "),
        (f"/payments/{NOBODY}/refunds", {"amount": 0}, "amount: "),
    ],
)
def test_mistake_is_answered_with_its_field(services: ChancePay, path: str, body: object, sentence: str) -> None:
    answer = services.requests.call("POST", path, body)

    assert 400 <= answer.status < 500
    assert answer.body["error"].startswith(sentence), answer


def test_request_that_is_too_large_is_refused_before_it_is_read(services: ChancePay) -> None:
    for side in (services.requests, services.wallet):
        answer = side.call("POST", "/payments", b" " * 70_000)
        assert (answer.status, answer.body) == (413, {"error": "the request has more than 65536 bytes"})


def test_health_says_that_it_lives_and_that_it_is_ready(services: ChancePay) -> None:
    for side in (services.requests, services.wallet):
        assert side.service is not None
        answers = [side.service.get(path) for path in ("/livez", "/readyz")]
        assert [(answer.status, answer.body["status"]) for answer in answers] == [(200, "alive"), (200, "ready")]


def test_command_refuses_a_database_without_tables(tmp_path: Any) -> None:
    for name in ("requests", "wallet"):
        for words in (["new-key", "ada"], ["serve", "--port", "0", "--peer", "http://127.0.0.1:1"]):
            done = subprocess.run(
                [sys.executable, "-m", f"apps.chancepay.{name}", *words], cwd=tmp_path, capture_output=True, text=True,
                timeout=SECONDS, check=False, env={"PYTHONPATH": str(ROOT), "CHANCEPAY_PEER_KEY": "key_x",
                                                   "CHANCEPAY_NATS": "nats://127.0.0.1:1"},
            )  # fmt: skip
            assert done.returncode == 1
            [line] = done.stderr.splitlines()
            assert re.fullmatch(
                rf"{name}: this database lacks .+; run: python -m apps.chancepay.{name} migrate .+", line
            )


@pytest.mark.more
def test_answers_of_any_input_are_as_described(services: ChancePay) -> None:
    for side in (services.requests, services.wallet):
        assert side.service is not None
        for role in side.keys:
            done = side.service.fuzz("-H", f"authorization: Bearer {side.keys[role]}", examples=10)
            assert done.returncode == 0, done.stdout
        assert json.dumps(side.service.process.said).find("Traceback") < 0
