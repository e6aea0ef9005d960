"""What a subscription's messages are signed with: read from the database, opened, and kept for a few seconds."""

import asyncio
import json
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from sendonce.channels.credentials import Credentials
from sendonce.channels.signing import key_of
from sendonce.domain.outcomes import Deferred
from sendonce.errors import SendonceError, StoreBusy
from sendonce.sealing import Sealer
from sendonce.stores.ports import SecretStore
from sendonce.stores.records import SecretRow

LARGEST = 10_000
BUSY = Deferred("no_secret", "its secret could not be read now", timedelta(seconds=5))
UNREADABLE = Deferred(
    "our_credentials",
    "its secret cannot be read; see the worker's SENDONCE_SECRET_KEYS, and rights",
    timedelta(minutes=1),
)


class _Kept(NamedTuple):
    until: float
    credentials: Credentials | Deferred


class SubscriptionKeyring:
    """See `Keyring`. A rotated secret is signed with after at most `seconds`; concurrent callers share one read."""

    def __init__(self, store: SecretStore, sealer: Sealer, *, seconds: float = 5.0) -> None:
        self._store = store
        self._sealer = sealer
        self._seconds = seconds
        self._kept: dict[int, _Kept] = {}
        self._reading: dict[int, asyncio.Task[Credentials | Deferred]] = {}

    async def of(self, subscription_id: int) -> Credentials | Deferred:
        """They, or why it must wait."""
        kept = self._kept.get(subscription_id)
        if kept is not None and kept.until > time.monotonic():
            return kept.credentials
        reading = self._reading.get(subscription_id)
        if reading is None:
            reading = asyncio.create_task(self._read(subscription_id))
            self._reading[subscription_id] = reading
            reading.add_done_callback(lambda _: self._reading.pop(subscription_id, None))
        # A caller that gives up must not take the answer from the others.
        return await asyncio.shield(reading)

    async def _read(self, subscription_id: int) -> Credentials | Deferred:
        try:
            credentials: Credentials | Deferred = _credentials(
                await self._store.secrets_of(subscription_id), self._sealer
            )
        except StoreBusy:
            return BUSY
        except (SendonceError, ValueError):
            credentials = UNREADABLE
        self._keep(subscription_id, credentials)
        return credentials

    def _keep(self, subscription_id: int, credentials: Credentials | Deferred) -> None:
        self._kept.pop(subscription_id, None)
        if len(self._kept) >= LARGEST:
            del self._kept[next(iter(self._kept))]
        self._kept[subscription_id] = _Kept(time.monotonic() + self._seconds, credentials)


def _credentials(rows: Sequence[SecretRow], sealer: Sealer) -> Credentials:
    """What the rows hold, newest first: of every kind but the signing ones only the newest counts."""
    signing: list[bytes] = []
    others: dict[str, str] = {}
    for row in rows:
        text = sealer.open(row.secret).decode()
        if row.kind == "signing":
            signing.append(key_of(text))
        else:
            others.setdefault(row.kind, text)
    return Credentials(
        signing=tuple(signing),
        bearer=others.get("bearer"),
        headers=json.loads(others.get("headers", "{}")),
        certificate=others.get("certificate"),
    )
