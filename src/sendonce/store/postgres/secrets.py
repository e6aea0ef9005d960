"""Subscriptions' secrets: read to sign with, rotated, sealed anew; and a receiver that is gone for good."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta

from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.errors import NotFound
from sendonce.store.ports import Reseal
from sendonce.store.postgres.journal import log_operation
from sendonce.store.postgres.lanes import Connection, Lanes, fetch
from sendonce.store.records import ENGINE, Acted, KeptSecret, SecretRow, SubscriptionSecrets
from sendonce.store.secrets import gathered

WINDOW = 1000
_COLUMNS = [each.name for each in fields(SecretRow)]


class Secrets(Lanes):
    """On the lane of people: no claim, result or renewal waits for a secret that is being read."""

    async def secrets_of(self, subscription_ids: Sequence[int]) -> list[SubscriptionSecrets]:
        """See SecretStore."""
        rows = await self.people.fetch("secrets_of", {"subscription_ids": list(subscription_ids)})
        return gathered(rows, lambda row: SecretRow(**dict(zip(_COLUMNS, row, strict=True))))

    async def kept_secrets(self, subscription_id: int) -> list[KeptSecret]:
        """See ReadStore."""
        rows = await self.people.fetch("kept_secrets", {"subscription_id": subscription_id})
        return [
            KeptSecret(id=id, kind=kind, created_at=created_at, expires_at=expires_at)
            for id, kind, created_at, expires_at in rows
        ]

    async def disable_subscription(self, subscription_id: int, *, reason: str) -> bool:
        """See SecretStore."""
        async with self.people.transaction() as connection:
            why = clean(reason, MESSAGE_LENGTH)
            values = {"subscription_id": subscription_id, "reason": why}
            if not await fetch(connection, "disable_subscription", values):
                return False
            await log_operation(connection, "disabled", ENGINE, why, (subscription_id,), subject="subscription")
            return True

    async def rotate_secret(
        self, subscription_id: int, secret: bytes, *, overlap: timedelta, operator: str, reason: str | None
    ) -> Acted:
        """See OperatorStore."""
        async with self.people.transaction() as connection:
            values = {"subscription_id": subscription_id}
            if not await fetch(connection, "touch_subscription", values):
                raise NotFound(f"there is no subscription {subscription_id}, or it was removed")
            await fetch(connection, "end_secrets", {**values, "overlap": overlap.total_seconds()})
            await fetch(connection, "drop_ended_secrets", values)
            await add_secrets(connection, subscription_id, {"signing": secret})
            ids = (subscription_id,)
            return await log_operation(connection, "rotate secret", operator, reason, ids, subject="subscription")

    async def reseal(self, seal: Reseal, *, operator: str) -> Acted:
        """See SealStore."""
        async with self.people.transaction() as connection:
            sealed: list[int] = []
            window = {"after": 0, "window": WINDOW}
            while rows := await fetch(connection, "secret_window", window):
                for id, subscription_id, kind, secret in rows:
                    values = {"id": id, "secret": seal(subscription_id, kind, secret)}
                    await fetch(connection, "reseal_secret", values)
                    sealed.append(id)
                window = {"after": sealed[-1], "window": WINDOW}
            await fetch(connection, "bind_secrets", {})
            return await log_operation(connection, "reseal", operator, None, sealed, subject="secret")


async def add_secrets(connection: Connection, subscription_id: int, secrets: Mapping[str, bytes]) -> None:
    """Enter secrets by kind, as they are to be stored."""
    for kind, secret in secrets.items():
        await fetch(connection, "add_secret", {"subscription_id": subscription_id, "kind": kind, "secret": secret})
