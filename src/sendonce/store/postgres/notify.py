"""LISTEN on a connection of its own: wakes a worker when a publisher with `notify` has committed."""

import asyncio
from datetime import timedelta

import psycopg

from sendonce.store.postgres.connection import Connection, connect

CHANNEL = "sendonce"


class PostgresNotifier:
    """Announcements are hints: one that is lost costs a poll interval, never a delivery."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection | None = None

    async def wait(self, timeout: timedelta) -> None:
        """Return when something was announced, or after `timeout`. A lost connection only makes it wait."""
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                if self._connection is None or self._connection.closed:
                    self._connection = await connect(self._url)
                    await self._connection.execute(f"listen {CHANNEL}".encode())
                    return  # what was announced before we listened is found by looking once more
                async for _ in self._connection.notifies(timeout=timeout.total_seconds(), stop_after=1):
                    return
        except TimeoutError:
            return
        except (psycopg.Error, OSError):
            await self.close()
            await asyncio.sleep(timeout.total_seconds())

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
