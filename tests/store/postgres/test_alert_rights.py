"""The worker's role may look at what alerts are decided by, and keep what was told; the reader's may only look."""

from datetime import timedelta

import pytest

from sendonce.engine.metrics_server import Gauges
from sendonce.errors import StoreError
from sendonce.observability.metrics import RETENTION_BEHIND
from sendonce.store.upkeep import Stage
from tests.servers.postgres import Server
from tests.store.postgres.roles import KEEPER, granted_roles

HOUR = timedelta(hours=1)


async def test_M10_worker_raises_and_clears_alerts_and_the_reader_sees_them(
    postgres_server: Server, postgres_template: str
) -> None:
    with granted_roles(postgres_server, postgres_template) as roles, roles.database() as database:
        workers, readers = roles.under(database.url, "worker"), roles.under(database.url, "reader")
        worker, reader = await workers.open(), await readers.open()
        try:
            assert (await worker.readings(HOUR)).dead_letters == 0
            assert await worker.raise_alert("dead_letters", "3 wait", seen=3, repeat=HOUR)
            assert not await worker.raise_alert("dead_letters", "4 wait", seen=4, repeat=HOUR)
            assert [alert.message for alert in (await reader.status()).alerts] == ["4 wait"]
            with pytest.raises(StoreError, match="may not do that"):
                await reader.clear_alert("dead_letters")
            assert await worker.clear_alert("dead_letters")
        finally:
            await workers.close()
            await readers.close()


async def test_M12_worker_that_may_remove_nothing_has_its_gauges(
    postgres_server: Server, postgres_template: str
) -> None:
    with granted_roles(postgres_server, postgres_template) as roles, roles.database() as database:
        workers = roles.under(database.url, KEEPER)
        store = await workers.open()
        try:
            worker_id = await store.register("host:1", "1", 1, is_listening=True)
            gauges = Gauges(store, worker_id, lambda _: None, kept={Stage.KEYS: HOUR})

            await gauges.look()

            assert RETENTION_BEHIND in dict(gauges.measured())
        finally:
            await workers.close()
