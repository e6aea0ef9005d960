"""Records what a system has recorded in the course of time: of every kind something, and many of one kind.

Runs on any version of the package, so it uses what is public.
"""

import os
import sys
from inspect import signature
from typing import Any

from sendonce import Draft, Email, Outbox
from sendonce.compose import open_connection

MANY = 3500
FEW = 4
RECEIPT = ("mailer", "message-1")
# How one says "to subscriptions only", which was naming nobody before it was None.
NOBODY: Any = () if signature(Outbox.publish).parameters["to"].default == () else None
NAMES = ("asked", "recognised", "refused", "failing", "dropped")


def main(*addresses: str) -> None:
    outbox = Outbox()
    to = dict(zip(NAMES, addresses, strict=True))
    with open_connection(os.environ["SENDONCE_DATABASE"]) as connection:
        drafts = [
            Draft("memo.saved", {"memo": number}, key=f"memo-{number}", to=["null:a", "null:b"][: number % 3] or NOBODY)
            for number in range(MANY)
        ]
        outbox.publish_many(connection, drafts)
        for name, address in to.items():
            outbox.publish_many(
                connection,
                [
                    Draft("old.kind", {}, key=f"{name}-{nth}", to=[f"{address}/old-{nth}", "null:"])
                    for nth in range(FEW)
                ],
            )
        for nth in range(FEW):
            outbox.publish(connection, "held.back", {}, key=f"held-{nth}", to=NOBODY)
        for name in ("recognised", "refused"):
            outbox.request(
                connection,
                "review.done",
                {},
                key=f"job-{name}",
                subject=name,
                version=1,
                required=f"{to[name]}/request",
            )
        outbox.publish(
            connection, "old.mail", {}, key="mail", to=Email("ada@example.com", subject="Hello", text="Dear Ada")
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
