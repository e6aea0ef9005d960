"""The PostgreSQL store: every port over five connections, each opened when it is first needed."""

from typing import Self

from sendonce.stores.migrations import available, check_version
from sendonce.stores.postgres.alerting import Alerting
from sendonce.stores.postgres.bulk import Bulk
from sendonce.stores.postgres.correcting import Correcting
from sendonce.stores.postgres.erasing import Erasing
from sendonce.stores.postgres.leasing import Leasing
from sendonce.stores.postgres.losses import Losses
from sendonce.stores.postgres.migrator import PACKAGE, version_on
from sendonce.stores.postgres.operating import Operating
from sendonce.stores.postgres.orchestrating import Orchestrating
from sendonce.stores.postgres.reading import Reading
from sendonce.stores.postgres.reconciling import Reconciling
from sendonce.stores.postgres.requests import Requests
from sendonce.stores.postgres.retaining import Retaining
from sendonce.stores.postgres.rooms import Rooms
from sendonce.stores.postgres.secrets import Secrets
from sendonce.stores.postgres.subscribing import Subscribing
from sendonce.stores.postgres.undelivered import Undelivered
from sendonce.stores.postgres.verifying import Verifying


class PostgresStore(
    Reconciling, Losses, Bulk, Correcting, Orchestrating, Rooms, Leasing, Secrets, Alerting, Operating, Subscribing,
    Requests, Undelivered, Retaining, Erasing, Verifying, Reading,
):  # fmt: skip
    """All of `sendonce.stores.ports.Store`."""

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
