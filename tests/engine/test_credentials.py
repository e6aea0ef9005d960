"""The keyring: what a subscription signs with, read seldom, never guessed."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace

import pytest

from sendonce.admin.subscriptions import Secrets
from sendonce.channels.protocol import Credentials
from sendonce.domain.attempts import Report
from sendonce.domain.outcomes import Deferred, Delivered
from sendonce.engine import subscriptions as credentials_module
from sendonce.engine.attempt import AttemptRunner
from sendonce.engine.subscriptions import CredentialsCache
from sendonce.errors import StoreBusy, StoreError
from sendonce.sealing import SecretBox, Use, new_key
from sendonce.signing import key_of, new_secret
from sendonce.store.ports import Store
from sendonce.store.records import SubscriptionSecrets
from tests.domain.values import a_claim
from tests.engine.rig import QUICK, Told, serving
from tests.store.databases import Database, SqliteDatabase

KEY = new_key()
SEALER = SecretBox([KEY])
SECRET = new_secret()


class Counting:
    """A store that counts reads, and fails or waits as told."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads: list[list[int]] = []
        self.errors: list[Exception] = []
        self.gate: asyncio.Event | None = None

    async def secrets_of(self, subscription_ids: Sequence[int]) -> list[SubscriptionSecrets]:
        self.reads.append(list(subscription_ids))
        if self.gate is not None:
            await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        return await self._store.secrets_of(subscription_ids)

    async def disable_subscription(self, subscription_id: int, *, reason: str) -> bool:
        return await self._store.disable_subscription(subscription_id, reason=reason)


async def subscribe(store: Store, secrets: Secrets, sealer: SecretBox = SEALER) -> int:
    return await store.add_subscription(
        tenant="",
        types=["*"],
        destination="https://example.com/hook",
        policy=None,
        description=None,
        operator="ada",
        secrets=secrets.sealed(sealer),
    )


def parts(credentials: object) -> tuple[object, ...]:
    assert isinstance(credentials, Credentials)
    return credentials.signing, credentials.bearer, dict(credentials.headers), credentials.certificate


@pytest.mark.parametrize("sealer", [SecretBox(), SEALER], ids=["plain", "sealed"])
async def test_kind_of_secret_is_handed_out(store: Store, sealer: SecretBox) -> None:
    everything = Secrets(signing=SECRET, bearer="token", headers={"X-Key": "ä"}, certificate="PEM")
    subscription_id = await subscribe(store, everything, sealer)
    nothing = await subscribe(store, Secrets(), sealer)
    keyring = CredentialsCache(store, SEALER)

    assert parts(await keyring.of(subscription_id)) == ((key_of(SECRET),), "token", {"X-Key": "ä"}, "PEM")
    assert parts(await keyring.of(nothing)) == ((), None, {}, None)


async def test_credentials_sign_with_both_keys_while_a_rotation_overlaps(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store, Secrets(signing=SECRET))
    keyring, second = CredentialsCache(store, SEALER, seconds=0), new_secret()

    stored = SEALER.seal(second.encode(), Use(subscription_id, "signing"))
    await store.rotate_secret(subscription_id, stored, overlap=timedelta(hours=1), operator="ada", reason=None)
    overlapping = await keyring.of(subscription_id)
    database.advance(timedelta(hours=1, seconds=1))
    afterwards = await keyring.of(subscription_id)

    assert parts(overlapping)[0] == (key_of(second), key_of(SECRET))
    assert parts(afterwards)[0] == (key_of(second),)


async def test_secret_is_read_once_in_a_while(sqlite_store: Store) -> None:
    subscription_id = await subscribe(sqlite_store, Secrets(signing=SECRET))
    counting = Counting(sqlite_store)
    patient, hasty = CredentialsCache(counting, SEALER), CredentialsCache(counting, SEALER, seconds=0)

    for _ in range(100):
        await patient.of(subscription_id)
    assert len(counting.reads) == 1
    for _ in range(3):
        await hasty.of(subscription_id)
    assert len(counting.reads) == 4


async def test_credentials_asked_for_at_once_share_one_read(sqlite_store: Store) -> None:
    subscription_id = await subscribe(sqlite_store, Secrets(signing=SECRET))
    counting = Counting(sqlite_store)
    counting.gate = asyncio.Event()
    keyring = CredentialsCache(counting, SEALER)
    asking = [asyncio.create_task(keyring.of(subscription_id)) for _ in range(50)]
    while not counting.reads:
        await asyncio.sleep(0)

    asking[0].cancel()
    counting.gate.set()
    answers = await asyncio.gather(*asking[1:])

    assert counting.reads == [[subscription_id]]
    assert {parts(each)[0] for each in answers} == {(key_of(SECRET),)}
    assert asking[0].cancelled()


async def test_credentials_of_many_subscriptions_are_read_together(store: Store) -> None:
    ids = [await subscribe(store, Secrets(signing=SECRET, bearer=f"token-{n}")) for n in range(20)]
    unknown, counting = max(ids) + 1, Counting(store)
    keyring = CredentialsCache(counting, SEALER)

    answers = await asyncio.gather(*map(keyring.of, [*ids, unknown]))

    assert [parts(each)[1] for each in answers] == [*(f"token-{n}" for n in range(20)), None]
    assert len(counting.reads) <= 2, "the first may be read alone; those who come meanwhile are read together"


async def test_credentials_that_cannot_be_decrypted_do_not_hold_up_others(sqlite_store: Store) -> None:
    good = await subscribe(sqlite_store, Secrets(signing=SECRET))
    bad = await subscribe(sqlite_store, Secrets(signing=SECRET), SecretBox([new_key()]))
    keyring = CredentialsCache(sqlite_store, SEALER)

    first, second = await asyncio.gather(keyring.of(bad), keyring.of(good))

    assert isinstance(first, Deferred)
    assert parts(second)[0] == (key_of(SECRET),)


async def test_credentials_wait_and_are_read_again_when_the_database_cannot_answer(sqlite_store: Store) -> None:
    subscription_id = await subscribe(sqlite_store, Secrets(signing=SECRET))
    counting = Counting(sqlite_store)
    counting.errors = [StoreBusy("PostgreSQL cannot answer now")]
    keyring = CredentialsCache(counting, SEALER)

    first, second = await keyring.of(subscription_id), await keyring.of(subscription_id)

    assert isinstance(first, Deferred)
    assert first.code == "no_secret"
    assert first.again_in is not None
    assert first.again_in <= timedelta(seconds=10)
    assert parts(second)[0] == (key_of(SECRET),)


@pytest.mark.parametrize("keys", [[], [new_key()]], ids=["no key", "another key"])
async def test_secret_that_cannot_be_opened_is_our_fault(sqlite_store: Store, keys: list[str]) -> None:
    subscription_id = await subscribe(sqlite_store, Secrets(signing=SECRET, bearer="token"))

    answer = await CredentialsCache(sqlite_store, SecretBox(keys)).of(subscription_id)

    assert isinstance(answer, Deferred)
    assert answer.code == "our_credentials"
    assert "SENDONCE_SECRET_KEYS" in answer.message


@pytest.mark.parametrize("stored", [b"plain:whsec_short", b"plain:\xff\xfe", b"rubbish"])
async def test_secret_that_makes_no_sense_is_our_fault_and_not_shown(sqlite_store: Store, stored: bytes) -> None:
    subscription_id = await subscribe(sqlite_store, Secrets())
    await sqlite_store.rotate_secret(subscription_id, stored, overlap=timedelta(0), operator="ada", reason=None)

    answer = await CredentialsCache(sqlite_store, SEALER).of(subscription_id)

    assert isinstance(answer, Deferred)
    assert answer.code == "our_credentials"
    assert "short" not in answer.message


async def test_role_without_the_right_to_read_secrets_is_our_fault(sqlite_store: Store) -> None:
    counting = Counting(sqlite_store)
    counting.errors = [StoreError("this database role may not do that")]

    answer = await CredentialsCache(counting, SEALER).of(1)

    assert isinstance(answer, Deferred)
    assert answer.code == "our_credentials"


async def test_credentials_that_cannot_be_read_never_send_unsigned(sqlite_store: Store) -> None:
    subscription_id = await subscribe(sqlite_store, Secrets(signing=SECRET))
    channel = Told(Delivered("n-1"))
    claim = a_claim(destination="test:a", address="test:a", subscription_id=subscription_id)

    without = AttemptRunner(serving(channel), "here", CredentialsCache(sqlite_store, SecretBox()))
    refused = await without.attempt(claim, 1, QUICK, lambda _: 5.0)
    sent_before = list(channel.sent)
    having = AttemptRunner(serving(channel), "here", CredentialsCache(sqlite_store, SEALER))
    sent = await having.attempt(claim, 1, QUICK, lambda _: 5.0)

    assert isinstance(refused.outcome, Deferred)
    assert sent_before == []
    assert sent.outcome == Delivered("n-1")


KINDS = {"signing": SECRET, "bearer": "token", "headers": '{"X-Key": "1"}', "certificate": "PEM"}
COPY = (
    "insert into sendonce_subscription_secrets (subscription_id, created_at, kind, secret)"
    " select ?, created_at, ?, secret from sendonce_subscription_secrets where subscription_id = ? and kind = ?"
)


async def attempted(store: Store, subscription_id: int) -> tuple[Report, Told]:
    """One attempt for it by a worker that has the key, and the channel it went through."""
    channel = Told(Delivered("n-1"))
    claim = a_claim(destination="test:a", address="test:a", subscription_id=subscription_id)
    attempting = AttemptRunner(serving(channel), "here", CredentialsCache(store, SEALER))
    return await attempting.attempt(claim, 1, QUICK, lambda _: 5.0), channel


@pytest.mark.parametrize("kind", KINDS)
async def test_row_copied_to_another_subscription_is_no_secret_of_that_one(
    database: Database, store: Store, kind: str
) -> None:
    theirs = await subscribe(store, Secrets(signing=SECRET, bearer="token", headers={"X-Key": "1"}, certificate="PEM"))
    mine = await subscribe(store, Secrets())
    database.execute(COPY, mine, kind, theirs, kind)

    done, channel = await attempted(store, mine)

    assert isinstance(done.outcome, Deferred)
    assert done.outcome.code == "our_credentials"
    assert "stored for another subscription" in done.outcome.message
    assert channel.sent == []


@pytest.mark.parametrize(("kind", "copied"), [(kind, other) for kind in KINDS for other in KINDS if other != kind])
async def test_row_copied_to_another_kind_is_no_secret_of_that_kind(
    database: Database, store: Store, kind: str, copied: str
) -> None:
    subscription_id = await store.add_subscription(
        tenant="", types=["*"], destination="https://example.com/hook", policy=None, description=None, operator="ada",
        secrets=lambda id: {copied: SEALER.seal(KINDS[copied].encode(), Use(id, copied))},
    )  # fmt: skip
    database.execute(COPY, subscription_id, kind, subscription_id, copied)

    done, channel = await attempted(store, subscription_id)

    assert isinstance(done.outcome, Deferred)
    assert "another use" in done.outcome.message
    assert channel.sent == []


@pytest.mark.parametrize("sealer", [SecretBox(), SEALER], ids=["plain", "sealed"])
@pytest.mark.parametrize("way", ["deleted", "expired"])
async def test_subscription_that_was_signed_once_waits_without_a_secret(
    database: Database, store: Store, way: str, sealer: SecretBox
) -> None:
    subscription_id = await subscribe(store, Secrets(signing=SECRET, bearer="token"), sealer)
    if way == "deleted":
        database.execute("delete from sendonce_subscription_secrets where kind = 'signing'")
    else:
        database.execute("update sendonce_subscription_secrets set expires_at = created_at where kind = 'signing'")

    done, channel = await attempted(store, subscription_id)
    stored = sealer.seal(new_secret().encode(), Use(subscription_id, "signing"))
    await store.rotate_secret(subscription_id, stored, overlap=timedelta(0), operator="ada", reason="lost")
    again, _ = await attempted(store, subscription_id)

    assert isinstance(done.outcome, Deferred)
    assert done.outcome.code == "our_credentials"
    assert "sendonce subscriptions rotate-secret" in done.outcome.message
    assert channel.sent == []
    assert again.outcome == Delivered("n-1")


async def test_subscription_that_was_never_signed_needs_no_secret(store: Store) -> None:
    subscription_id = await subscribe(store, Secrets(bearer="token"))

    done, _ = await attempted(store, subscription_id)

    assert done.outcome == Delivered("n-1")


async def test_credentials_cache_is_bounded(sqlite_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials_module, "LARGEST", 2)
    counting = Counting(sqlite_store)
    keyring = CredentialsCache(counting, SEALER)

    for subscription_id in (1, 2, 3, 3, 2, 1):
        await keyring.of(subscription_id)

    assert counting.reads == [[1], [2], [3], [1]]


async def test_credentials_cache_forgets_the_one_read_longest_ago(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials_module, "LARGEST", 3)
    now = [0.0]
    monkeypatch.setattr(credentials_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    counting = Counting(sqlite_store)
    keyring = CredentialsCache(counting, SEALER, seconds=10)

    for now[0], subscription_id in ((0, 1), (5, 2), (11, 1), (12, 3), (12, 4), (12, 1), (12, 2)):
        await keyring.of(subscription_id)

    assert counting.reads == [[1], [2], [1], [3], [4], [2]]


async def test_credentials_do_not_show(sqlite_store: Store) -> None:
    subscription_id = await subscribe(sqlite_store, Secrets(signing=SECRET, bearer="token-7"))
    keyring = CredentialsCache(sqlite_store, SEALER)

    shown = repr(await keyring.of(subscription_id)) + repr(vars(keyring)) + repr(Secrets(bearer="token-7"))

    assert "token-7" not in shown
    assert repr(key_of(SECRET)) not in shown


async def test_credentials_that_fail_in_any_way_hang_nobody(database: Database, store: Store) -> None:
    good, bad = await subscribe(store, Secrets(signing=SECRET)), await subscribe(store, Secrets(signing=SECRET))
    counting = Counting(store)
    counting.errors = [RuntimeError("a bug")]
    keyring = CredentialsCache(counting, SEALER, seconds=0)
    broken = await asyncio.wait_for(keyring.of(bad), 10)

    if isinstance(database, SqliteDatabase):  # which stores a text where bytes belong
        database.execute("update sendonce_subscription_secrets set secret = 'plain:x' where subscription_id = ?", bad)
    answers = await asyncio.wait_for(asyncio.gather(keyring.of(bad), keyring.of(good)), 10)

    assert isinstance(broken, Deferred)
    assert parts(answers[1])[0] == (key_of(SECRET),)
