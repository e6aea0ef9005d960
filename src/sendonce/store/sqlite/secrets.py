"""Subscriptions' secrets: read to sign with, rotated, sealed anew; and a receiver that is gone for good."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

from sendonce.domain.texts import MESSAGE_LENGTH, clean
from sendonce.errors import NotFound
from sendonce.store.ports import Reseal
from sendonce.store.records import ENGINE, Acted, KeptSecret, SecretRow, SubscriptionSecrets
from sendonce.store.secrets import gathered
from sendonce.store.sqlite.journal import log_operation
from sendonce.store.sqlite.lanes import Lane, Transaction
from sendonce.store.sqlite.rows import record
from sendonce.store.sqlite.times import microseconds

WINDOW = 1000


class Secrets:
    """See `SecretStore`, and what other ports say of secrets."""

    _writer: Lane
    _reader: Lane

    async def secrets_of(self, subscription_ids: Sequence[int]) -> list[SubscriptionSecrets]:
        values = {"subscription_ids": json.dumps(list(subscription_ids))}
        rows = await self._reader.run(Transaction.fetch, "secrets_of", values)
        return gathered(rows, lambda row: record(SecretRow, row))

    async def kept_secrets(self, subscription_id: int) -> list[KeptSecret]:
        rows = await self._reader.run(Transaction.fetch, "kept_secrets", {"subscription_id": subscription_id})
        return [record(KeptSecret, row) for row in rows]

    async def disable_subscription(self, subscription_id: int, *, reason: str) -> bool:
        return await self._writer.run(_disable, subscription_id, reason)

    async def rotate_secret(
        self, subscription_id: int, secret: bytes, *, overlap: timedelta, operator: str, reason: str | None
    ) -> Acted:
        return await self._writer.run(_rotate, subscription_id, secret, overlap, operator, reason)

    async def reseal(self, seal: Reseal, *, operator: str) -> Acted:
        return await self._writer.run(_reseal, seal, operator)


def add_secrets(transaction: Transaction, subscription_id: int, secrets: Mapping[str, bytes]) -> None:
    """Enter secrets by kind, as they are to be stored."""
    for kind, secret in secrets.items():
        values = {"subscription_id": subscription_id, "kind": kind, "secret": secret}
        transaction.change("add_secret", values)


def _disable(transaction: Transaction, subscription_id: int, reason: str) -> bool:
    values = {"subscription_id": subscription_id, "reason": clean(reason, MESSAGE_LENGTH)}
    if not transaction.fetch("disable_subscription", values):
        return False
    log_operation(transaction, "disabled", ENGINE, reason, (subscription_id,), subject="subscription")
    return True


def _rotate(
    transaction: Transaction, subscription_id: int, secret: bytes, overlap: timedelta, operator: str, reason: str | None
) -> Acted:
    values = {"subscription_id": subscription_id}
    if not transaction.fetch("touch_subscription", values):
        raise NotFound(f"there is no subscription {subscription_id}, or it was removed")
    transaction.change("end_secrets", {**values, "overlap": microseconds(overlap)})
    _forget_what_is_deleted(transaction)
    transaction.change("drop_ended_secrets", values)
    add_secrets(transaction, subscription_id, {"signing": secret})
    return log_operation(transaction, "rotate secret", operator, reason, (subscription_id,), subject="subscription")


def _reseal(transaction: Transaction, seal: Reseal, operator: str) -> Acted:
    _forget_what_is_deleted(transaction)
    sealed: list[int] = []
    while rows := transaction.fetch("secret_window", {"after": sealed[-1] if sealed else 0, "window": WINDOW}):
        for id, subscription_id, kind, secret in rows:
            transaction.change("reseal_secret", {"id": id, "secret": seal(subscription_id, kind, secret)})
            sealed.append(id)
    transaction.change("bind_secrets")
    return log_operation(transaction, "reseal", operator, None, sealed, subject="secret")


def _forget_what_is_deleted(transaction: Transaction) -> None:
    """Write zeros over what is deleted from here on: else an old secret would stay readable in the file."""
    transaction.connection.execute("pragma secure_delete = on")
