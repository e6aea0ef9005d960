"""What subscriptions' messages are signed with, and the end of those whose receiver is gone for good (410)."""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import NamedTuple

from sendonce.channels.protocol import Credentials
from sendonce.domain.answers import MISPLACED, NO_SECRET, UNREADABLE, UNSIGNED
from sendonce.domain.attempts import Result
from sendonce.domain.outcomes import Deferred, Refused
from sendonce.errors import StoreBusy
from sendonce.observability.facts import Disabled, Emit
from sendonce.sealing import Misplaced, SecretBox, Use
from sendonce.signing import key_of
from sendonce.store.ports import SecretStore
from sendonce.store.records import SubscriptionSecrets

LARGEST = 10_000
AT_ONCE = 1000


class _Kept(NamedTuple):
    until: float
    credentials: Credentials | Deferred


class CredentialsCache:
    """See `CredentialStore`. A rotated secret is signed with after at most `seconds`.

    Those who ask at once share one read, also for different subscriptions: an event may go to thousands of them.
    """

    def __init__(self, store: SecretStore, sealer: SecretBox, *, seconds: float = 5.0) -> None:
        self._store = store
        self._sealer = sealer
        self._seconds = seconds
        self._kept: dict[int, _Kept] = {}
        self._wanted: dict[int, asyncio.Future[Credentials | Deferred]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def of(self, subscription_id: int) -> Credentials | Deferred:
        """Return the subscription's credentials, or a Deferred that says why they are unavailable."""
        kept = self._kept.get(subscription_id)
        if kept is not None and kept.until > time.monotonic():
            return kept.credentials
        answer = self._wanted.get(subscription_id)
        if answer is None:
            answer = self._wanted[subscription_id] = asyncio.get_running_loop().create_future()
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        # A caller that gives up must not take the answer from the others.
        return await asyncio.shield(answer)

    async def _read(self) -> None:
        """Answer all waiting callers, also those who come while secrets are being read."""
        while self._wanted:
            ids = list(self._wanted)[:AT_ONCE]
            found = await self._found(ids)
            for each in ids:
                credentials = self._opened(found, each)
                if credentials is not NO_SECRET:
                    self._keep(each, credentials)
                answer = self._wanted.pop(each)
                if not answer.done():
                    answer.set_result(credentials)

    async def _found(self, ids: Sequence[int]) -> dict[int, SubscriptionSecrets] | Deferred:
        try:
            found = await self._store.secrets_of(ids)
        except StoreBusy:
            return NO_SECRET
        except Exception:  # whatever it is, those who wait are answered: nothing goes out unsigned, and nobody hangs
            return UNREADABLE
        return {each.subscription_id: each for each in found}

    def _opened(self, found: dict[int, SubscriptionSecrets] | Deferred, subscription_id: int) -> Credentials | Deferred:
        if isinstance(found, Deferred):
            return found
        try:
            return _credentials(found[subscription_id], self._sealer)
        except Misplaced:
            return MISPLACED
        except Exception:  # somebody wrote it past us
            return UNREADABLE

    def _keep(self, subscription_id: int, credentials: Credentials | Deferred) -> None:
        self._kept.pop(subscription_id, None)
        if len(self._kept) >= LARGEST:
            del self._kept[next(iter(self._kept))]
        self._kept[subscription_id] = _Kept(time.monotonic() + self._seconds, credentials)


def _credentials(found: SubscriptionSecrets, sealer: SecretBox) -> Credentials | Deferred:
    """What the rows hold, newest first: of every kind but the signing ones only the newest counts."""
    signing: list[bytes] = []
    others: dict[str, str] = {}
    for row in found.secrets:
        text = sealer.open(row.secret, Use(row.subscription_id, row.kind)).decode()
        if row.kind == "signing":
            signing.append(key_of(text))
        else:
            others.setdefault(row.kind, text)
    if found.is_signed and not signing:
        return UNSIGNED
    return Credentials(
        signing=tuple(signing),
        bearer=others.get("bearer"),
        headers=json.loads(others.get("headers", "{}")),
        certificate=others.get("certificate"),
    )


GONE_CODE = "http_410"
GONE_REASON = "its receiver answered 410 Gone"


class DisableGoneSubscriptions:
    """Collects receivers that answered 410 Gone, and disables their subscriptions."""

    def __init__(self, store: SecretStore, emit: Emit) -> None:
        self._store = store
        self._emit = emit
        self._noted: set[int] = set()
        self._is_noted = asyncio.Event()

    def note(self, results: Sequence[Result]) -> None:
        """Note the results of receivers that are gone."""
        for report, _ in results:
            if type(report.outcome) is Refused and report.outcome.code == GONE_CODE and report.claim.subscription_id:
                self._noted.add(report.claim.subscription_id)
                self._is_noted.set()

    async def run(self) -> None:
        """Disable what was noted, until cancelled."""
        while True:
            await self._is_noted.wait()
            self._is_noted.clear()
            await self.apply()

    async def apply(self) -> None:
        """Disable what was noted until now. One that cannot be written is noted again by its next delivery."""
        while self._noted:
            subscription_id = self._noted.pop()
            try:
                if await self._store.disable_subscription(subscription_id, reason=GONE_REASON):
                    self._emit(Disabled(subscription_id=subscription_id, reason=GONE_REASON))
            except StoreBusy:
                continue
