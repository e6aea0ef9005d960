"""The functions of the page about late evidence do what the text beside them says."""

import asyncio
import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sendonce import Admin, Outbox, migrate
from sendonce.compose import open_connection, open_store
from sendonce.domain.texts import provider_token
from sendonce.signing import key_of, sign
from tests.docs.test_examples import examples

BASIC = {"Authorization": "Basic " + base64.b64encode(b"hooks:s3cret").decode()}


def test_functions_of_the_page_settle_what_waits_and_refuse_strangers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    migrate(url)
    with open_connection(url) as connection:
        for key in ("a", "b", "c"):
            Outbox().publish(connection, "memo.saved", {}, key=key, to="null:a")
    names: dict[str, Any] = {}
    [example] = examples("docs/how-to/evidence.md")
    exec(example, names)  # noqa: S102

    with Admin.open(url, operator="hooks") as admin:
        space = asyncio.run(_namespace(url))
        a, b, c = (provider_token(space, "", "memo.saved", key, "null:a", 0) for key in ("a", "b", "c"))
        body = json.dumps({"type": "email.sent", "data": {"email_id": "r-1", "tags": {"sendonce": a}}}).encode()
        at = int(datetime.now(UTC).timestamp())
        signature = sign([key_of(names["SECRETS"][0])], "m", at, body)
        signed = {"svix-id": "m", "svix-timestamp": str(at), "svix-signature": signature}
        said = json.dumps({"RecordType": "Delivery", "MessageID": "p-1", "Metadata": {"sendonce": b}}).encode()

        resend = [names["from_resend"](admin, shown, body) for shown in (signed, {**signed, "svix-id": "n"})]
        postmark = [names["from_postmark"](admin, shown, said) for shown in (BASIC, {})]
        bank = names["from_a_bank"](admin, c)
        proven = [each.proven_at is not None for each in admin.deliveries()]

    assert (resend, postmark, bank) == ([204, 401], [204, 401], "settled")
    assert proven == [True] * 3


async def _namespace(url: str) -> str:
    store = await open_store(url)
    try:
        return await store.namespace()
    finally:
        await store.close()
