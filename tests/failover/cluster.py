"""A primary and a standby that follows it, and what befalls such a pair."""

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import psycopg

from tests.crash.proxy import Proxy
from tests.processes import until
from tests.servers.binaries import local_binaries, packaged
from tests.servers.postgres import Server, start

STANDBY = "standby"
SETTINGS = {
    "max_wal_size": "4GB",
    "wal_keep_size": "512MB",
    "hot_standby": "on",
    "wal_retrieve_retry_interval": "200ms",
}


def port_of(server: Server) -> int:
    return int(server.url.rpartition(":")[2].partition("/")[0])


class Cluster:
    """`primary` and `standby` are who they are now. What the standby is sent passes through `link`.

    `prepare` is called with the primary before there is a standby. Synchronous: no commit is told before the standby
    has it on its disk.
    """

    def __init__(self, prepare: Callable[[Server], None], *, is_synchronous: bool) -> None:
        self._prepare = prepare
        self._is_synchronous = is_synchronous
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.primary = start(local_binaries() or packaged(16), durable=True, settings=SETTINGS)
            stack.callback(self.primary.stop)
            self._prepare(self.primary)
            self.link = stack.enter_context(Proxy("127.0.0.1", port_of(self.primary)))
            self.standby = self.primary.standby(port=self.link.port, name=STANDBY)
            stack.callback(self.standby.stop)
            until(lambda: self._follower(), "the standby to follow")
            if self._is_synchronous:
                self._set("synchronous_standby_names", STANDBY)
                until(lambda: self._follower() == "sync", "the standby to be waited for")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def fall_behind(self) -> None:
        """From now on the standby gets nothing: what is committed is on the primary alone."""
        self.link.silence()

    def lose_primary(self) -> None:
        """The primary's machine dies, and the standby takes its place. What was on its way to it is lost."""
        self.primary.kill()
        self.link.cut()
        self._swap()

    def switch_over(self) -> None:
        """The primary is stopped in order, when the standby has all of it, and the standby takes its place."""
        self.primary.halt("fast")
        self._swap()

    def return_as_stranger(self) -> None:
        """Who was the primary starts again, as if nothing had happened."""
        self.standby.resume()

    def return_as_standby(self) -> None:
        """Who was the primary comes back at its address, and follows the new one."""
        self.standby = self.primary.standby(name=STANDBY, instead_of=self.standby)

    def _swap(self) -> None:
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def _follower(self) -> str:
        with psycopg.connect(self.primary.dsn()) as connection:
            found = connection.execute(
                "select sync_state from pg_stat_replication where state = 'streaming'"
            ).fetchone()
        return str(found[0]) if found else ""

    def _set(self, name: str, value: str) -> None:
        with psycopg.connect(self.primary.dsn(), autocommit=True) as connection:
            connection.execute(f"alter system set {name} = '{value}'".encode())
            connection.execute("select pg_reload_conf()")
