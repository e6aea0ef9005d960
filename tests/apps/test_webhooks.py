"""The webhook application: its README from top to bottom, tenants apart, and what bad input gets."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.webhooks import new_key
from tests.apps.service import running
from tests.cli.workbench import run
from tests.conformance.webhooking import Tenant, Webhooks, serving
from tests.crash.accounts import url_of
from tests.processes import ROOT, until
from tests.provider import Provider

pytestmark = pytest.mark.slow

README = (ROOT / "apps/webhooks/README.md").read_text("utf-8")
COMMANDS = [line.removeprefix("$ ") for line in README.splitlines() if line.startswith("$ ")]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider("--keep", "1000") as provider:
        yield provider


@pytest.fixture(scope="module")
def webhooks(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhooks]:
    with serving(None, provider, tmp_path_factory.mktemp("webhooks")) as webhooks:
        yield webhooks


@pytest.fixture
def tenant(webhooks: Webhooks) -> Tenant:
    return webhooks.tenant()


class Walk:
    """The README's commands, each in a shell that has what it said before, with the ports of this test."""

    def __init__(self, folder: Path, key: str, ports: dict[str, str]) -> None:
        self.folder, self.key, self.ports = folder, key, ports
        self.left = COMMANDS[COMMANDS.index("export ACME=key_…") :]

    def step(self, beginning: str) -> Any:
        """Run the next command, which begins like this; what it answered."""
        command = self.left.pop(0)
        assert command.startswith(beginning), command
        return self.run(command)

    def run(self, command: str) -> Any:
        for written, here in self.ports.items():
            command = command.replace(written, here)
        said = [f"export ACME={self.key}", next(each for each in COMMANDS if each.startswith("call()")), command]
        done = subprocess.run(
            ["bash", "-c", "\n".join(said)], cwd=self.folder, capture_output=True, text=True, timeout=200, check=True
        )
        return json.loads(done.stdout) if done.stdout.strip() else None


def test_readme_does_what_it_says(tmp_path: Path) -> None:
    with running("webhooks", tmp_path) as service:
        service.process.says("API key of globex")
        [key, other] = re.findall(r"shown this once: (key_\S+)", service.process.said)
        walk = Walk(tmp_path, key, {"localhost:8000": service.url.removeprefix("http://")})
        walk.step("export ACME")
        walk.step("call()")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        walk.ports["127.0.0.1:9000"] = f"127.0.0.1:{port}"
        added = walk.step("call localhost:8000/endpoints -d")
        walk.step("grep -o")
        assert (tmp_path / "secret.txt").read_text().strip() == added["secret"]

        receive = walk.left.pop(0)
        assert receive == "sendonce receive --port 9000 --control-port 9001 --secret-file secret.txt"
        with Provider("--port", port, "--secret-file", str(tmp_path / "secret.txt")) as provider:
            found = re.search(r"control http://(\S+)", provider.said)
            assert found is not None
            walk.ports["localhost:9001"] = found[1]
            _follow(walk, provider)
        assert walk.left[0].startswith("python -m apps.webhooks --database postgresql://"), "all of it was tried"
        assert service.get("/undelivered", authorization=f"Bearer {other}").body["deliveries"] == []


def _follow(walk: Walk, provider: Provider) -> None:
    first, again = (walk.step("call localhost:8000/events -d") for _ in range(2))
    assert (first, again) == (
        {"id": 1, "duplicate": False, "deliveries": 1},
        {"id": 1, "duplicate": True, "deliveries": 0},
    )
    until(lambda: provider.totals("/orders").get("accepted") == 1, "it to arrive, with its signature")
    assert walk.step("call localhost:8000/events/1")["deliveries"][0]["endpoint_id"] == 1
    assert walk.step("call localhost:8000/deliveries/1")["explanation"]

    assert walk.step("call -X POST localhost:8000/endpoints/1/test")["type"] == "sendonce.test"
    until(lambda: provider.totals("/orders").get("accepted") == 2, "the test")
    assert walk.step("call -X POST localhost:8000/endpoints/1/pause")["state"] == "paused"
    waiting = walk.step("call localhost:8000/events -d")
    assert [each["event_id"] for each in walk.step("call localhost:8000/undelivered")["deliveries"]] == [waiting["id"]]
    assert walk.step("call -X POST localhost:8000/endpoints/1/resume")["state"] == "active"
    until(lambda: provider.totals("/orders").get("accepted") == 3, "what waited")
    assert walk.step("call -X POST localhost:8000/endpoints/1/rotate-secret")["secret"].startswith("whsec_")

    walk.step("curl -sS -X PUT localhost:9001/behaviour")
    walk.step("call localhost:8000/events -d")
    until(lambda: walk.run("call localhost:8000/dead-letters"), "the dead letter")
    assert [each["reason"] for each in walk.step("call localhost:8000/dead-letters")] == ["exhausted"]
    walk.step("curl -sS -X PUT localhost:9001/behaviour")
    assert walk.step("call localhost:8000/dead-letters/requeue") == {"delivery_ids": [5]}
    until(lambda: not walk.run("call localhost:8000/undelivered")["deliveries"], "it to arrive at last")
    walk.step("call localhost:8000/undelivered")
    assert provider.totals("/orders")["accepted"] == 4

    asked = walk.step("call -X PATCH localhost:8000/endpoints/1")["ask"]
    assert asked == provider.look_up
    walk.step("curl -sS -X PUT localhost:9001/behaviour")
    walk.step("call localhost:8000/events -d")
    until(lambda: walk.run("call localhost:8000/deliveries/6")["status"] == "Completed", "the answer to a look-up")
    attempts = walk.step("call localhost:8000/deliveries/6")["attempts"]
    assert [each["outcome"] for each in attempts] == ["Unknown", "Delivered"]
    assert provider.totals("/orders")["accepted"] == 5
    changed = walk.run("call -X PATCH localhost:8000/endpoints/1 -d '{\"ask\": null}'")
    assert changed["ask"] is None
    assert all(each["count"] == 1 for each in provider.messages().values())


def test_tenant_never_sees_touches_or_receives_anothers(webhooks: Webhooks, tenant: Tenant) -> None:
    other = webhooks.tenant()
    endpoint_id = tenant.endpoint(retry_limit=1)
    theirs = other.endpoint("b", "*")
    tenant.behave(fail="503")
    event_id = tenant.publish()
    [delivery] = tenant.ended(event_id)
    letter_id = tenant.letter(delivery["id"])
    before = (tenant.get("/endpoints"), tenant.get(f"/events/{event_id}"), tenant.get("/dead-letters"))

    for method, path, body in [
        ("GET", f"/endpoints/{endpoint_id}", None),
        ("PATCH", f"/endpoints/{endpoint_id}", {"retry_limit": 5, "event_types": ["*"]}),
        ("DELETE", f"/endpoints/{endpoint_id}", None),
        ("POST", f"/endpoints/{endpoint_id}/pause", None),
        ("POST", f"/endpoints/{endpoint_id}/resume", None),
        ("POST", f"/endpoints/{endpoint_id}/rotate-secret", None),
        ("POST", f"/endpoints/{endpoint_id}/test", None),
        ("GET", f"/events/{event_id}", None),
        ("GET", f"/deliveries/{delivery['id']}", None),
        ("POST", "/dead-letters/requeue", {"ids": [letter_id], "reason": "mine"}),
    ]:
        answer = other.call(method, path, body)
        assert (answer.status, answer.body["error"][:11]) == (404, "there is no"), (method, path)
        assert "subscription" not in answer.body["error"]

    assert [each["id"] for each in other.get("/endpoints")] == [theirs]
    assert (other.get("/undelivered")["deliveries"], other.get("/dead-letters")) == ([], [])
    assert (tenant.get("/endpoints"), tenant.get(f"/events/{event_id}"), tenant.get("/dead-letters")) == before
    same = other.publish()
    assert same != event_id, "the same type and key of another tenant is another event"
    other.ended(same)
    assert (tenant.counts(), other.counts()) == ({}, {f"{other.path}/b": 1})


@pytest.mark.parametrize("key", [None, "Bearer", "Bearer ", "Bearer key_guessed", "Basic YTpi", "Bearer \xe4"])
def test_key_is_needed_to_see_anything(webhooks: Webhooks, key: str | None) -> None:
    assert webhooks.service is not None
    headers = {} if key is None else {"authorization": key}

    answers = [webhooks.service.send("GET", path, headers=headers) for path in ("/endpoints", "/events/1")]

    assert [answer.status for answer in answers] == [401, 401]
    assert answers[0].body == {"error": "send your API key as: authorization: Bearer key_…"}


def test_test_event_goes_to_its_endpoint_alone_and_says_what_it_is(webhooks: Webhooks, tenant: Tenant) -> None:
    endpoint_id = tenant.endpoint("one", "order.*")
    tenant.endpoint("two", "*")

    delivery = tenant.post(f"/endpoints/{endpoint_id}/test")

    tenant.ended(delivery["event_id"])
    assert tenant.counts() == {f"{tenant.path}/one": 1}
    [came] = [each for each in webhooks.provider.last() if each["path"] == f"{tenant.path}/one"]
    headers = {name.lower(): value for name, value in came["headers"].items()}
    assert json.loads(came["body"]) == {"test": True, "subscription_id": endpoint_id}
    assert headers["sendonce-type"] == "sendonce.test"
    assert headers["webhook-signature"].startswith("v1,")


def test_rotation_signs_with_both_secrets_and_shows_neither_again(webhooks: Webhooks, tenant: Tenant) -> None:
    endpoint_id = tenant.endpoint()
    new = tenant.post(f"/endpoints/{endpoint_id}/rotate-secret")["secret"]

    tenant.ended(tenant.publish())

    [came] = [each for each in webhooks.provider.last() if each["path"].startswith(tenant.path)]
    headers = {name.lower(): value for name, value in came["headers"].items()}
    assert len(headers["webhook-signature"].split()) == 2
    shown = json.dumps([tenant.get("/endpoints"), tenant.get(f"/endpoints/{endpoint_id}")])
    assert "whsec_" not in shown
    assert webhooks.service is not None
    assert new not in webhooks.service.process.said


def test_endpoint_that_was_removed_gets_nothing_more(tenant: Tenant) -> None:
    endpoint_id = tenant.endpoint()

    removed = tenant.call("DELETE", f"/endpoints/{endpoint_id}")

    assert removed.status == 204
    assert tenant.get("/endpoints") == []
    for method, path in (("GET", ""), ("POST", "/resume"), ("POST", "/test"), ("DELETE", "")):
        assert tenant.call(method, f"/endpoints/{endpoint_id}{path}").status == 404
    assert tenant.post("/events", {"type": "order.paid", "key": "a", "payload": 1})["deliveries"] == 0


def test_lists_come_in_pages(tenant: Tenant) -> None:
    ids = [tenant.endpoint(str(number)) for number in range(5)]
    for each in ids:
        tenant.post(f"/endpoints/{each}/pause")
    event_id = tenant.publish()

    listed = tenant.get("/endpoints?limit=2") + tenant.get(f"/endpoints?limit=9&before={ids[3]}")
    first = tenant.get(f"/events/{event_id}?limit=3")
    second = tenant.get(f"/events/{event_id}?limit=3&before={first['next']}")
    newest = tenant.get("/undelivered?limit=4")
    oldest = tenant.get(f"/undelivered?limit=4&before={newest['next']}")

    assert [each["id"] for each in listed] == ids[::-1]
    assert [each["endpoint_id"] for each in second["deliveries"] + first["deliveries"]] == ids
    assert (second["next"], oldest["next"]) == (None, None)
    assert [each["endpoint_id"] for each in newest["deliveries"] + oldest["deliveries"]] == ids[::-1]


GOOD: dict[str, Any] = {"url": "https://hooks.example/", "event_types": ["order.*"]}
EVENT: dict[str, Any] = {"type": "order.paid", "key": "bad", "payload": {}}


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/endpoints", {}, 422, "url: field required"),
        ("/endpoints", GOOD | {"url": "mailto:ada@example.com"}, 422, "an endpoint is an address like https://"),
        ("/endpoints", GOOD | {"url": "https://"}, 422, "names no host"),
        ("/endpoints", GOOD | {"url": "https://a:b@hooks.example/"}, 422, "must not carry a user name or password"),
        ("/endpoints", GOOD | {"event_types": []}, 422, "event_types: it is too short: at least 1"),
        ("/endpoints", GOOD | {"event_types": ["no type"]}, 422, "a subscription listens to a type, a family"),
        ("/endpoints", GOOD | {"ask": "https://hooks.example/"}, 422, "has {token} in it once"),
        ("/endpoints", GOOD | {"retry_limit": 0}, 422, "retry_limit: input should be greater than or equal to 1"),
        ("/endpoints", GOOD | {"secret": "guess"}, 400, "whsec_"),
        ("/endpoints", GOOD | {"description": "a\0b"}, 422, "description: it has control characters"),
        ("/endpoints", GOOD | {"tenant": "acme"}, 422, "tenant: extra inputs are not permitted"),
        ("/events", EVENT | {"type": "order paid"}, 422, "an event type is up to 128 letters"),
        ("/events", EVENT | {"key": ""}, 422, "key: it is too short: at least 1"),
        ("/events", EVENT | {"payload": "x" * 2_000_000}, 422, "store it and send a reference"),
        ("/events", b'{"type": "a", "key": "b", "payload": NaN}', 422, "the payload is not JSON"),
        ("/events", b"{", 422, "the request is not JSON"),
        ("/dead-letters/requeue", {"ids": [], "reason": "a"}, 422, "ids: it is too short: at least 1"),
        ("/dead-letters/requeue", {"ids": [1]}, 422, "reason: field required"),
        ("/dead-letters/requeue", {"ids": [2**63 - 1], "reason": "a"}, 404, "there is no dead letter"),
    ],
)
def test_input_that_is_wrong_is_answered_with_a_sentence(
    tenant: Tenant, path: str, body: object, status: int, sentence: str
) -> None:
    answer = tenant.call("POST", path, body)

    assert answer.status == status, answer
    assert sentence in answer.body["error"]
    assert (tenant.get("/endpoints"), tenant.get("/undelivered")["deliveries"]) == ([], [])


def test_key_used_for_something_else_is_a_conflict(tenant: Tenant) -> None:
    tenant.publish("order-1", payload={"order": 1})

    answer = tenant.call("POST", "/events", {"type": "order.paid", "key": "order-1", "payload": {"order": 2}})

    assert answer.status == 409
    assert answer.body == {"error": "the key was used before, for different content; use a key of its own"}


def test_command_makes_another_key_for_a_tenant(webhooks: Webhooks, tenant: Tenant) -> None:
    endpoint_id = tenant.endpoint()

    made = run(tenant.name, "--database", url_of(webhooks.database), program=("-m", "apps.webhooks.new_key"), cwd=ROOT)

    assert made.code == 0, made.err
    same = Tenant(webhooks, tenant.name, made.out.strip())
    assert [each["id"] for each in same.get("/endpoints")] == [endpoint_id]


@pytest.mark.parametrize("name", ["", " ", "a\x1bb", "two\nlines", "x" * 101])
def test_name_that_is_none_gets_no_key(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["new_key", name, "--database", f"sqlite:///{tmp_path / 'webhooks.db'}"])

    assert new_key.main() == 1
    assert capsys.readouterr().err == "new_key: a tenant's name is one line of up to 100 characters, and not empty\n"


def test_key_for_a_database_that_is_not_there_makes_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["new_key", "acme", "--database", f"sqlite:///{tmp_path / 'none.db'}"])

    assert new_key.main() == 1
    assert "there is no sendonce database at" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_delivery_to_an_address_without_an_endpoint_is_shown(webhooks: Webhooks, tenant: Tenant) -> None:
    event_id = webhooks.database.publish("order.paid", {}, key="direct", to="unknown:a", tenant=tenant.name)

    [row] = tenant.deliveries(event_id)

    assert row["endpoint_id"] is None
    assert row["id"] in [each["id"] for each in tenant.get("/undelivered")["deliveries"]]
    story = tenant.get(f"/deliveries/{row['id']}")
    assert not [each for each in story["explanation"] if "sendonce " in each]


def test_requeue_that_is_refused_is_explained_in_the_words_of_the_api(webhooks: Webhooks, tenant: Tenant) -> None:
    endpoint_id = tenant.endpoint(retry_limit=1)
    tenant.behave(fail="503")
    tenant.post(f"/endpoints/{endpoint_id}/pause")
    event_id = tenant.publish()
    webhooks.database.execute("update sendonce_deliveries set in_doubt = true where event_id = ?", event_id)
    tenant.post(f"/endpoints/{endpoint_id}/resume")
    [delivery] = tenant.ended(event_id)
    letter_id = tenant.letter(delivery["id"])
    wanted = {"ids": [letter_id], "reason": "again"}

    unsure = tenant.call("POST", "/dead-letters/requeue", wanted)
    first, second = (tenant.call("POST", "/dead-letters/requeue", wanted | {"even_if_sent": True}) for _ in "12")

    assert (unsure.status, first.status, second.status) == (409, 200, 409)
    assert unsure.body["error"] == (
        f"dead letter {letter_id} may have arrived already: see delivery {delivery['id']},"
        " and give even_if_sent as true to send it all the same"
    )
    assert second.body["error"] == f"dead letter {letter_id} was requeued already"


@pytest.mark.more
@pytest.mark.timeout(180)
def test_api_never_fails_on_any_input(webhooks: Webhooks) -> None:
    assert webhooks.service is not None
    tenant = webhooks.tenant()
    tenant.endpoint()

    fuzzed = webhooks.service.fuzz("--header", f"Authorization: Bearer key_{tenant.name}", examples=8)

    assert fuzzed.returncode == 0, fuzzed.stdout[-5000:]
