"""The examples of the page about webhooks do what the text beside them says, with the real worker's parts."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sendonce.admin import subscriptions as secrets
from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.guard import Guard
from sendonce.channels.registry import builtin
from sendonce.compose import amigrate, open_connection, open_store
from sendonce.domain.outcomes import Delivered, Outcome
from sendonce.domain.policies import DEFAULT_POLICY
from sendonce.engine.attempt import AttemptRunner
from sendonce.engine.subscriptions import CredentialsCache
from sendonce.outbox.outbox import Outbox
from sendonce.sealing import SecretBox, new_key
from sendonce.signing import new_secret
from tests.docs.test_examples import examples

KEYS = [new_key()]


class Page:
    """The page's own code, and a receiver that answers with it."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        for example in examples("docs/how-to/webhooks.md"):
            exec(example, self.names)  # noqa: S102
        self.secrets: list[str] = []
        self.answers: list[list[int]] = []
        self.ids: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        """Tries each of its secrets; the answer is the first one's."""
        body, headers = await request.read(), {name.lower(): value for name, value in request.headers.items()}
        self.ids.append(headers["webhook-id"])
        self.answers.append([self.receive(secret, headers, body) for secret in self.secrets])
        return web.Response(status=self.answers[-1][0])

    def receive(self, secret: str, headers: Mapping[str, str], body: bytes) -> int:
        status: int = self.names["receive"](secret, headers, body)
        return status


async def served(page: Page) -> tuple[web.AppRunner, str]:
    app = web.Application()
    app.router.add_post("/orders", page.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    return runner, f"http://127.0.0.1:{port}/orders"


async def test_receiver_verifies_what_a_worker_signs_before_during_and_after_a_rotation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, first, second = Page(), new_secret(), new_secret()
    runner, url = await served(page)
    database = f"sqlite:///{tmp_path / 'shop.db'}"
    await amigrate(database)
    subscription_id = await page.names["subscribe"](database, url, first, KEYS)
    store = await open_store(database)
    await store.set_subscription_rate(subscription_id, None, operator="ada", reason=None)
    channels = builtin(client=HttpClient(Guard.from_environment({"SENDONCE_ALLOW_NETWORKS": "127.0.0.0/8"})))
    keyring = CredentialsCache(store, SecretBox(KEYS), seconds=0)
    attempting = AttemptRunner(channels, await store.namespace(), keyring)

    async def deliver(number: int) -> Outcome:
        with open_connection(database) as connection:
            Outbox().publish(connection, "order.created", {"order": number}, key=f"o-{number}", to=None)
        lease = (await store.start(1, 10, timedelta(seconds=30))).lease
        assert lease is not None
        # The answer was lost once: the same message comes again.
        await attempting.attempt(lease.claims[0], lease.id, DEFAULT_POLICY, lambda _: 5.0)
        return (await attempting.attempt(lease.claims[0], lease.id, DEFAULT_POLICY, lambda _: 5.0)).outcome

    page.secrets = [first]
    outcomes = [await deliver(1)]
    page.secrets = [first, second]
    rotation = {"overlap": timedelta(hours=1), "sealer": SecretBox(KEYS), "operator": "ada"}
    await secrets.rotate(store, subscription_id, second, **rotation)  # type: ignore[arg-type]
    outcomes.append(await deliver(2))
    await secrets.rotate(store, subscription_id, second, **{**rotation, "overlap": timedelta(0)})  # type: ignore[arg-type]
    outcomes.append(await deliver(3))

    await channels.close()
    await store.close()
    await runner.cleanup()
    assert page.answers == [[204], [204], [204, 204], [204, 204], [401, 204], [401, 204]]
    assert [type(each) is Delivered for each in outcomes] == [True, True, False]
    assert len(set(page.ids)) == 3
    assert capsys.readouterr().out.split() == ["1", "2", "3"]


def test_receiver_refuses_what_was_changed_on_the_way() -> None:
    page, secret = Page(), new_secret()
    webhook = page.names["Webhook"](secret)
    now, body = datetime.now(UTC), json.dumps({"order": 1})
    signed = {
        "webhook-id": "m-1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": webhook.sign("m-1", now, body),
    }

    assert page.receive(secret, signed, body.encode()) == 204
    assert page.receive(secret, signed, body.replace("1", "2").encode()) == 401
    assert page.receive(secret, signed | {"webhook-id": "m-2"}, body.encode()) == 401
    assert page.receive(new_secret(), signed, body.encode()) == 401
