"""Publishers, workers and a receiver on a cluster: reached through one address that can be moved, or through both."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from sendonce.compose import migrate
from tests.crash.proxy import Proxy
from tests.crash.publishing import ORDERS
from tests.crash.stage import Stage
from tests.failover.cluster import Cluster, port_of
from tests.processes import SECONDS, Process, until
from tests.servers.postgres import Server
from tests.store.databases import Database, PostgresDatabase

Way = Literal["one address", "both addresses"]


class FailoverStage(Stage):
    """One address is a proxy's, which leads to whom it is pointed at; both are said to the driver, which finds out.

    No worker loses a lease or gives up on an answer because the machine is busy.
    """

    lease, timeout = "12s", "9s"

    def __init__(
        self, folder: Path, *, is_synchronous: bool, way: Way = "one address", rate: float = 100, seed: int = 7,
        concurrency: int = 60,
    ) -> None:  # fmt: skip
        super().__init__("postgres", folder, rate=rate, seed=seed, concurrency=concurrency)
        self._is_synchronous = is_synchronous
        self._way = way

    def fail_over(self) -> None:
        """The primary dies, the standby is promoted, and the address leads there."""
        self.cluster.lose_primary()
        self.follow()

    def follow(self) -> None:
        """Whoever looks at the database, or comes by the one address, reaches the primary of now."""
        self.database.url = self.cluster.primary.dsn(self.name)  # type: ignore[attr-defined]
        self.lead_to(self.cluster.primary)

    def lead_to(self, server: Server) -> None:
        """The one address is this server's from now on; who is connected to another is cut off."""
        assert self.proxy is not None
        self.proxy.to_port = port_of(server)
        self.proxy.cut()

    def worker_at(self, server: Server) -> Process:
        """One more worker, who knows this server only."""
        address, self._url = self._url, server.dsn(self.name)
        try:
            return self._worker(len(self.workers))
        finally:
            self._url = address

    def received(self, more: int) -> None:
        """Return when the receiver has got so many messages more than now, and every worker is at work."""
        until(self.have_begun, "all workers to have begun")
        before = self.recorder.totals()["distinct"]
        until(lambda: self.recorder.totals()["distinct"] >= before + more, f"{more} more to be received")

    def caught_up(self) -> None:
        """Return when what is open is what is being sent, so that what is recorded now is sent at once."""
        until(lambda: self.open_deliveries()[0] <= 3 * self.rate, "the workers to catch up")

    def drained(self) -> None:
        """Return when nothing is open any more."""
        until(lambda: not any(self.states().get(state) for state in OPEN), "everything to be closed", 5 * SECONDS)

    def states(self) -> Mapping[str, int]:
        """How many deliveries are in which state: every row, whatever leases say."""
        return dict(self.database.execute("select status, count(*)::int from sendonce_deliveries group by status"))

    def _new_database(self, stack: ExitStack) -> Database:
        self.cluster = stack.enter_context(Cluster(self._fill, is_synchronous=self._is_synchronous))
        database = PostgresDatabase(self.cluster.primary.dsn(self.name))
        self.proxy = stack.enter_context(Proxy("127.0.0.1", port_of(self.cluster.primary)))
        if self._way == "one address":
            self._url = f"postgresql://postgres@127.0.0.1:{self.proxy.port}/{self.name}"
        else:
            hosts = ",".join(f"127.0.0.1:{port_of(each)}" for each in (self.cluster.primary, self.cluster.standby))
            self._url = f"postgresql://postgres@{hosts}/{self.name}?target_session_attrs=read-write"
        return database

    def _fill(self, server: Server) -> None:
        self.name = server.create_database()
        migrate(server.dsn(self.name))
        PostgresDatabase(server.dsn(self.name)).execute(ORDERS)


OPEN = ("Pending", "InProgress", "PendingRetry")
