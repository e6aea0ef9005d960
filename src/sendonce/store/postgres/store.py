"""The PostgreSQL store: every port over five connections, each opened when it is first needed."""

from datetime import timedelta
from typing import Self

from sendonce.errors import StoreBusy, StoreError
from sendonce.store.migrations import available, check_version
from sendonce.store.postgres.claims import Claims
from sendonce.store.postgres.doctor import Verifying
from sendonce.store.postgres.migrate import PACKAGE, version_on
from sendonce.store.upkeep import Turn


class PostgresStore(Claims, Verifying):
    """All of `sendonce.store.ports.Store`."""

    @classmethod
    async def connect(cls, url: str, *, writes: bool = False) -> Self:
        """Open a database, or say with SchemaMismatch or StoreBusy why it cannot be used.

        `writes`: its server must be one that can be written to, and stay so.
        """
        store = cls(url, writes=writes)
        try:
            async with store.people.connection() as connection:
                check_version(await version_on(connection), len(available(PACKAGE)))
        finally:
            await store.people.close()  # a worker has no use for it; a reader's next call opens it again
        return store

    async def server(self) -> tuple[str, str, str] | None:
        """See ReadStore."""
        try:
            return await super().server()
        except StoreBusy:
            raise
        except StoreError:
            return None  # some hosted servers tell nobody

    async def take_turn(self, part: str, turn: Turn, *, whole: timedelta) -> int | None:
        """See RetentionStore. Whose turn it is not has no use for the connection."""
        last_id = await super().take_turn(part, turn, whole=whole)
        if last_id is None:
            await self.upkeep.close()
        return last_id

    async def end_turn(self, part: str, turn: Turn, *, wait: timedelta) -> None:
        """See RetentionStore."""
        await super().end_turn(part, turn, wait=wait)
        await self.upkeep.close()
