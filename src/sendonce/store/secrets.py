"""Subscriptions' secrets: read to sign with, rotated, and stored anew under another key."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple, TypeAlias

from sendonce.errors import NotFound
from sendonce.sql.steps import Steps, records, rows
from sendonce.store.operations_log import log
from sendonce.store.records import Acted, KeptSecret, SecretRow, SubscriptionSecrets

WINDOW = 1000
# A secret as it is to be stored, from its subscription, its kind and how it was stored.
Reseal: TypeAlias = Callable[[int, str, bytes], bytes]


class _SecretOf(NamedTuple):
    """A row for each secret of a subscription, and one for each subscription that has none."""

    is_signed: bool
    subscription_id: int
    id: int | None
    kind: str
    secret: bytes
    created_at: datetime
    expires_at: datetime | None


def secrets_of(subscription_ids: Sequence[int]) -> Steps[list[SubscriptionSecrets]]:
    """Of each of these: what has not expired, newest first, as it is stored; and whether it is signed."""
    found = yield from records(_SecretOf, "secrets_of", subscription_ids=list(subscription_ids))
    return [
        SubscriptionSecrets(
            subscription_id=subscription_id,
            is_signed=is_signed,
            secrets=tuple(_secret(each) for each in of_one if each.id is not None),
        )
        for (is_signed, subscription_id), of_one in groupby(found, key=lambda each: each[:2])
    ]


def _secret(row: _SecretOf) -> SecretRow:
    values = row._asdict()
    del values["is_signed"]
    return SecretRow(**values)


def kept_secrets(subscription_id: int) -> Steps[list[KeptSecret]]:
    """Which secrets it has that have not expired, newest first."""
    return (yield from records(KeptSecret, "kept_secrets", subscription_id=subscription_id))


def add_secrets(subscription_id: int, secrets: Mapping[str, bytes]) -> Steps[None]:
    """Enter secrets by kind, as they are to be stored."""
    for kind, secret in secrets.items():
        yield from rows("add_secret", subscription_id=subscription_id, kind=kind, secret=secret)


def rotate_secret(
    subscription_id: int, secret: bytes, *, overlap: timedelta, operator: str, reason: str | None
) -> Steps[Acted]:
    """Enter a new signing secret; those before it end after `overlap`, and are gone when they have ended."""
    if not (yield from rows("touch_subscription", subscription_id=subscription_id)):
        raise NotFound(f"there is no subscription {subscription_id}, or it was removed")
    yield from rows("end_secrets", subscription_id=subscription_id, overlap=overlap)
    yield from rows("zero_what_is_deleted")
    yield from rows("drop_ended_secrets", subscription_id=subscription_id)
    yield from add_secrets(subscription_id, {"signing": secret})
    return (yield from log("rotate secret", operator, reason, (subscription_id,), subject="subscription"))


def reseal(seal: Reseal, *, operator: str) -> Steps[Acted]:
    """Store every secret as `seal` returns it, all or none; the ids of the secrets. From then on none can be stored
    that is sealed the old way, for any use."""
    yield from rows("zero_what_is_deleted")
    sealed: list[int] = []
    while found := (yield from rows("secret_window", after=sealed[-1] if sealed else 0, window=WINDOW)):
        for id, subscription_id, kind, secret in found:
            yield from rows("reseal_secret", id=id, secret=seal(subscription_id, kind, secret))
            sealed.append(id)
    yield from rows("bind_secrets")
    return (yield from log("reseal", operator, None, sealed, subject="secret"))
