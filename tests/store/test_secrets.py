"""Secrets of subscriptions on both databases: kept apart, rotated with an overlap, sealed when there is a key."""

from collections.abc import Iterable
from datetime import timedelta

import psycopg
import pytest
from cryptography.fernet import Fernet

from sendonce.admin.subscriptions import reseal
from sendonce.errors import NotAllowed, NotFound, SendonceError
from sendonce.sealing import SecretBox, Use, new_key
from sendonce.store.ports import Store
from sendonce.store.records import SecretRow
from tests.store.databases import REFUSED, Database, PostgresDatabase, SqliteDatabase

H = timedelta(hours=1)
USE = Use(1, "signing")
SECRETS = {"signing": b"first", "bearer": b"token", "headers": b'{"X-Key": "1"}', "certificate": b"PEM"}


async def subscribe(store: Store, **changes: bytes) -> int:
    return await store.add_subscription(
        tenant="",
        types=["*"],
        destination="https://example.com/hook",
        policy=None,
        description=None,
        operator="ada",
        secrets=lambda _: changes or {"signing": b"first"},
    )


async def signing(store: Store, subscription_id: int) -> list[bytes]:
    return [row.secret for row in await rows_of(store, subscription_id)]


async def rows_of(store: Store, subscription_id: int) -> tuple[SecretRow, ...]:
    [found] = await store.secrets_of([subscription_id])
    return found.secrets


async def rotate(store: Store, subscription_id: int, secret: bytes, overlap: timedelta = H) -> None:
    await store.rotate_secret(subscription_id, secret, overlap=overlap, operator="ada", reason="yearly")


def in_table(database: Database) -> list[bytes]:
    return [bytes(row["secret"]) for row in database.rows("subscription_secrets")]


def everything_stored(database: Database, tables: Iterable[str]) -> bytes:
    """All bytes of the database: the files as they are, or every value of these tables."""
    if isinstance(database, SqliteDatabase):
        return b"".join(file.read_bytes() for file in sorted(database.path.parent.glob(f"{database.path.name}*")))
    return b"\n".join(
        value if isinstance(value, bytes) else str(value).encode()
        for table in tables
        for row in database.rows(table)
        for value in row.values()
    )


async def test_secrets_are_kept_by_kind_and_read_newest_first(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store, **SECRETS)
    await subscribe(store, signing=b"of another one")

    rows = await rows_of(store, subscription_id)

    assert [(row.kind, row.secret) for row in rows] == list(reversed(SECRETS.items()))
    assert [row.id for row in rows] == sorted((row.id for row in rows), reverse=True)
    assert {row.expires_at for row in rows} == {None}
    assert abs(rows[0].created_at - database.now()) < timedelta(minutes=1)


async def test_subscription_without_secrets_has_none(store: Store) -> None:
    subscription_id = await store.add_subscription(
        tenant="", types=["*"], destination="null:a", policy=None, description=None, operator="ada"
    )

    assert await rows_of(store, subscription_id) == ()
    assert await store.kept_secrets(subscription_id) == []


async def test_people_see_which_secrets_there_are_and_not_what_they_are(store: Store) -> None:
    subscription_id = await subscribe(store, **SECRETS)

    [row] = [each for each in await store.subscriptions(None) if each.id == subscription_id]
    kept = await store.kept_secrets(subscription_id)

    assert [each.kind for each in kept] == list(reversed(SECRETS))
    for secret in SECRETS.values():
        assert secret.decode() not in repr(row) + repr(kept) + repr(await store.secrets_of([subscription_id]))


async def test_kind_that_is_unknown_is_refused_and_nothing_is_written(database: Database, store: Store) -> None:
    with pytest.raises(SendonceError) as caught:
        await subscribe(store, password=b"hunter2")

    assert "hunter2" not in str(caught.value)
    assert database.rows("subscriptions") == database.rows("subscription_types") == []


async def test_secrets_both_sign_while_a_rotation_overlaps(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store, signing=b"first", bearer=b"token")
    other = await subscribe(store, signing=b"of another one")

    await rotate(store, subscription_id, b"second")
    overlapping = await signing(store, subscription_id)
    kept = [(each.kind, each.expires_at is None) for each in await store.kept_secrets(subscription_id)]
    database.advance(H + timedelta(seconds=1))
    afterwards = await signing(store, subscription_id)

    assert overlapping == [b"second", b"token", b"first"]
    assert kept == [("signing", True), ("bearer", True), ("signing", False)]
    assert afterwards == [b"second", b"token"]
    assert await signing(store, other) == [b"of another one"]


async def test_rotation_without_overlap_leaves_nothing_of_the_old_secret(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store)

    await rotate(store, subscription_id, b"second", timedelta(0))

    assert await signing(store, subscription_id) == [b"second"]
    assert in_table(database) == [b"second"]


async def test_secret_that_has_expired_is_deleted_by_the_next_rotation(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store)
    await rotate(store, subscription_id, b"second")
    database.advance(H + timedelta(seconds=1))
    before = in_table(database)

    await rotate(store, subscription_id, b"third")

    assert sorted(before) == [b"first", b"second"]
    assert sorted(in_table(database)) == [b"second", b"third"]


async def test_rotation_with_a_longer_overlap_does_not_prolong_what_ends_sooner(
    database: Database, store: Store
) -> None:
    subscription_id = await subscribe(store)
    await rotate(store, subscription_id, b"second", H)
    await rotate(store, subscription_id, b"third", 24 * H)

    database.advance(H + timedelta(seconds=1))

    assert await signing(store, subscription_id) == [b"third", b"second"]


async def test_rotation_is_in_the_operations_log_without_the_secret(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store)

    await rotate(store, subscription_id, b"second")

    last = database.rows("operations")[-1]
    assert (last["kind"], last["operator"], last["reason"]) == ("rotate secret", "ada", "yearly")
    assert last["subject"] == f"subscription {subscription_id}"
    assert "second" not in str(database.rows("operations"))


@pytest.mark.parametrize("removed", [True, False])
async def test_subscription_that_is_gone_cannot_be_rotated(database: Database, store: Store, removed: bool) -> None:
    subscription_id = await subscribe(store) if removed else 10**9
    if removed:
        await store.set_subscription_state(subscription_id, "removed", operator="ada", reason=None)
    before = in_table(database)

    with pytest.raises(NotFound):
        await rotate(store, subscription_id, b"second")

    assert in_table(database) == before


async def test_secret_encrypted_with_a_key_leaves_nothing_in_the_database(database: Database, store: Store) -> None:
    sealer, secret = SecretBox([new_key()]), b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    plain = await subscribe(store, signing=b"a plain one, to be found")

    subscription_id = await subscribe(store, signing=sealer.seal(secret, USE))

    stored = everything_stored(database, ["subscriptions", "subscription_secrets", "operations"])
    assert b"a plain one, to be found" in stored, plain
    assert secret not in stored
    assert secret.hex().encode() not in stored
    assert [sealer.open(each, USE) for each in await signing(store, subscription_id)] == [secret]


async def test_secret_in_plain_is_refused_where_secrets_are_encrypted(database: Database, store: Store) -> None:
    """Somebody has forgotten the key: nothing is written, and the sentence says what to do."""
    sealed, plain = SecretBox([new_key()]).seal(b"whsec_first", USE), SecretBox().seal(b"whsec_second", USE)
    subscription_id = await subscribe(store, signing=sealed)

    with pytest.raises(NotAllowed, match="SENDONCE_SECRET_KEYS"):
        await rotate(store, subscription_id, plain)
    with pytest.raises(NotAllowed, match="SENDONCE_SECRET_KEYS"):
        await subscribe(store, signing=plain)

    assert in_table(database) == [sealed]
    assert len(database.rows("subscriptions")) == 1


async def test_encryption_anew_leaves_nothing_that_the_old_key_or_no_key_opens(
    database: Database, store: Store
) -> None:
    old, new = new_key(), new_key()
    both = SecretBox([new, old])
    unbound = b"sealed:" + Fernet(old).encrypt(b"token")
    first = await subscribe(store, signing=SecretBox().seal(b"was plain for long", USE), bearer=unbound)
    second = await subscribe(store, signing=b"sealed:" + Fernet(old).encrypt(b"second"))

    assert await reseal(store, both, operator="ada") == 3
    assert await reseal(store, both, operator="ada") == 3

    rows = [*await rows_of(store, first), *await rows_of(store, second)]
    opened = [SecretBox([new]).open(row.secret, Use(row.subscription_id, row.kind)) for row in rows]
    assert opened == [b"token", b"was plain for long", b"second"]
    assert all(row.secret.startswith(b"sealed:2:") for row in rows)
    assert [database.rows("operations")[-1][name] for name in ("kind", "affected")] == ["reseal", 3]
    await database.close()
    assert b"was plain for long" not in everything_stored(database, ["subscription_secrets"])


async def test_secret_without_its_use_is_refused_where_all_have_one(database: Database, store: Store) -> None:
    """A secret of the time before, from a backup, would open for any subscription."""
    key = new_key()
    unbound = b"sealed:" + Fernet(key).encrypt(b"whsec_old")
    subscription_id = await subscribe(store, signing=unbound)
    await subscribe(store, signing=unbound)

    await reseal(store, SecretBox([key]), operator="ada")
    before = in_table(database)
    for work in (rotate(store, subscription_id, unbound), subscribe(store, bearer=unbound)):
        with pytest.raises(NotAllowed, match=r"bound to what they are of: store them with a newer sendonce"):
            await work
    with pytest.raises(REFUSED, match="bound to what they are of"):
        database.execute("update sendonce_subscription_secrets set secret = ?", unbound)

    assert in_table(database) == before
    await rotate(store, subscription_id, SecretBox([key]).seal(b"whsec_new", USE))


OTHER_SECRET = {"id": "id + 100", "subscription_id": "2", "kind": "'bearer'", "created_at": "created_at + {hour}"}


@pytest.mark.parametrize("column", OTHER_SECRET)
async def test_secret_stays_that_of_its_subscription_and_kind(database: Database, store: Store, column: str) -> None:
    await subscribe(store)
    await subscribe(store)
    hour = "3600000000" if isinstance(database, SqliteDatabase) else "interval '1 hour'"

    with pytest.raises((*REFUSED, psycopg.errors.GeneratedAlways)):
        database.execute(
            f"update sendonce_subscription_secrets set {column} = {OTHER_SECRET[column].format(hour=hour)} where id = 1"
        )


async def test_subscription_stays_signed(database: Database, store: Store) -> None:
    signed, never = await subscribe(store), await subscribe(store, bearer=b"token")
    later = await subscribe(store, bearer=b"token")
    await rotate(store, later, b"second")
    database.execute("delete from sendonce_subscription_secrets")

    assert {each.subscription_id: each.is_signed for each in await store.secrets_of([signed, never, later])} == {
        signed: True,
        never: False,
        later: True,
    }
    for value in ("null", "false" if isinstance(database, PostgresDatabase) else "0"):
        with pytest.raises(REFUSED, match="signed_subscriptions_stay_signed"):
            database.execute(f"update sendonce_subscriptions set is_signed = {value}")


async def test_encryption_anew_is_all_or_nothing(database: Database, store: Store) -> None:
    await subscribe(store, signing=b"first")
    await subscribe(store, signing=b"second")

    def seal(subscription_id: int, kind: str, stored: bytes) -> bytes:
        if stored == b"second":
            raise SendonceError("this one cannot be opened")
        return b"sealed"

    with pytest.raises(SendonceError, match="this one cannot be opened"):
        await store.reseal(seal, operator="ada")

    assert sorted(in_table(database)) == [b"first", b"second"]


async def test_secrets_are_encrypted_anew_in_steps(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store)
    with database.connection() as connection:
        sql = database.spell(
            "insert into sendonce_subscription_secrets (subscription_id, created_at, kind, secret) values (?, ?, ?, ?)"
        )
        created = database.rows("subscription_secrets")[0]["created_at"]
        connection.cursor().executemany(sql, [(subscription_id, created, "bearer", b"first")] * 1500)

    acted = await store.reseal(lambda _, __, stored: stored + b"!", operator="ada")

    assert len(set(acted.ids)) == 1501
    assert set(in_table(database)) == {b"first!"}


async def test_receiver_that_is_gone_disables_its_subscription_once(database: Database, store: Store) -> None:
    subscription_id = await subscribe(store)

    first = await store.disable_subscription(subscription_id, reason="the receiver answered 410 Gone")
    again = await store.disable_subscription(subscription_id, reason="once more")

    row = await store.subscription(subscription_id)
    assert row is not None
    assert (first, again) == (True, False)
    assert (row.state, row.state_reason) == ("disabled", "the receiver answered 410 Gone")
    log = [each for each in database.rows("operations") if each["kind"] == "disabled"]
    assert [(each["operator"], each["subject"]) for each in log] == [
        ("sendonce worker", f"subscription {subscription_id}")
    ]
    assert log[0]["reason"] == "the receiver answered 410 Gone"


@pytest.mark.parametrize("state", ["paused", "removed", None])
async def test_subscription_is_disabled_only_when_active(database: Database, store: Store, state: str | None) -> None:
    subscription_id = await subscribe(store) if state else 10**9
    if state:
        await store.set_subscription_state(subscription_id, state, operator="ada", reason="theirs")
    before = len(database.rows("operations"))

    assert await store.disable_subscription(subscription_id, reason="410") is False

    assert len(database.rows("operations")) == before
    row = await store.subscription(subscription_id)
    assert (row.state, row.state_reason) == (state, "theirs") if row else state is None


async def test_text_of_a_receiver_cannot_break_the_log(store: Store) -> None:
    subscription_id = await subscribe(store)

    assert await store.disable_subscription(subscription_id, reason="gone \0 \ud800 " + "x" * 10_000) is True

    row = await store.subscription(subscription_id)
    assert row is not None
    assert row.state_reason is not None
    assert row.state_reason.startswith("gone")
