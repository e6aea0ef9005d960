"""Both services as processes, each on a database of its own, with the keys that each has given the other."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from uuid import UUID, uuid4

from apps.chancepay.demo.lossy import Loss, LossyWay
from apps.chancepay.keys import Role, new_key
from apps.chancepay.peer import Address, Peer
from apps.chancepay.reconcile import Outcome, reconcile
from apps.chancepay.requests.api import MIGRATIONS as REQUESTS
from apps.chancepay.wallet.api import MIGRATIONS as WALLET
from apps.serving import prepare
from sendonce.contrib.sqlalchemy import async_engine
from tests.apps.service import Answer, Service, running
from tests.crash.accounts import url_of
from tests.processes import ROOT, Process, until
from tests.servers.postgres import Server
from tests.store.databases import Database, PostgresDatabase, SqliteDatabase

MIGRATIONS = {"requests": REQUESTS, "wallet": WALLET}
# Quick, and patient with a machine that stands still.
SETTINGS = """
[worker]
lease = "6s"
poll = "20ms"

[policy]
max_attempts = {attempts}
first_delay = "50ms"
longest_delay = "1s"
jitter = 0
timeout = "3s"
doubt_wait = "50ms"
"""


class Way:
    """The lossy way between wallet and requests, on a thread of its own. `choose` may be set anew at any time."""

    def __init__(self) -> None:
        self.choose: Callable[[], Loss] = lambda: Loss.NONE
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._way = LossyWay(lambda: self.choose())

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._way.__aenter__(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._way.__aexit__(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return self._way.url

    @property
    def lost(self) -> dict[Loss, int]:
        return dict(self._way.lost)

    def lead_to(self, url: str) -> None:
        self._way.target = url


class Side:
    """One service: its database, the keys that it has handed out, and its process while it runs."""

    def __init__(self, name: str, database: Database, folder: Path) -> None:
        self.name = name
        self.database = database
        self.url = url_of(database)
        self.folder = folder
        prepare(self.url, MIGRATIONS[name])
        self.keys: dict[Role, str] = {"caller": self.key("caller"), "internal": self.key("internal")}
        self.service: Service | None = None
        self._port = 0
        self._running = ExitStack()

    def key(self, role: Role, name: str = "") -> str:
        """A new key."""

        async def make() -> str:
            engine = async_engine(self.url)
            try:
                return await new_key(engine, name or f"the {role}", role)
            finally:
                await engine.dispose()

        return asyncio.run(make())

    def start(self, *arguments: str, environment: Mapping[str, str]) -> Service:
        """Start it; on the port that it had, when it is started again."""
        self.service = self._running.enter_context(
            running(
                f"chancepay.{self.name}", self.folder, *arguments, database=self.url, environment=environment,
                command="serve", port=self._port,
            )
        )  # fmt: skip
        self._port = int(self.service.url.rpartition(":")[2])
        return self.service

    def stop(self) -> None:
        self._running.close()
        self.service = None

    def kill(self) -> None:
        assert self.service is not None
        self.service.process.kill()
        self.stop()

    def call(self, method: str, path: str, body: object = None, *, role: Role = "caller", key: str = "") -> Answer:
        assert self.service is not None
        return self.service.send(method, path, body, {"authorization": f"Bearer {key or self.keys[role]}"})

    def get(self, path: str, role: Role = "caller") -> Any:
        """What there is; it must be there."""
        answer = self.call("GET", path, role=role)
        assert answer.status == 200, answer
        return answer.body


class ChancePay:
    """Both services and what is between them. `broker` is its table of the settings."""

    def __init__(
        self, requests: Side, wallet: Side, folder: Path, way: Way, *, mode: str, broker: str, attempts: int
    ) -> None:
        self.requests, self.wallet, self.way, self.mode = requests, wallet, way, mode
        self._folder = folder
        self._config = folder / "settings.toml"
        self._config.write_text(SETTINGS.format(attempts=attempts) + broker)
        self._listeners = ExitStack()

    def start(self, *requests_arguments: str) -> None:
        self.start_wallet()
        self.start_requests(*requests_arguments)

    def start_wallet(self) -> None:
        self.wallet.start("--mode", self.mode, "--peer", self.way.url, environment=self._environment("requests"))

    def start_requests(self, *arguments: str) -> None:
        assert self.wallet.service is not None
        peer = ("--mode", self.mode, "--peer", self.wallet.service.url)
        service = self.requests.start(*peer, *arguments, environment=self._environment("wallet"))
        self.way.lead_to(service.url)

    def listen(self, *arguments: str) -> Process:
        """Start a listener of the wallet: a process that takes orders from the broker, until everything is stopped."""
        return self._listeners.enter_context(self.second_listener(*arguments))

    def second_listener(self, *arguments: str) -> Process:
        """A listener that the caller ends."""
        return Process(
            "-m", "apps.chancepay.wallet", "listen", "--database", self.wallet.url, "--mode", self.mode,
            "--peer", self.way.url, *arguments, folder=self._folder,
            environment={"PYTHONPATH": str(ROOT), **self._environment("requests")},
        )  # fmt: skip

    def stop(self) -> None:
        self._listeners.close()
        self.requests.stop()
        self.wallet.stop()

    def pay(self, wallet: str, amount: int, uuid: UUID | None = None) -> str:
        """Request a payment; its uuid."""
        body = {"wallet": wallet, "amount": amount, "uuid": str(uuid or uuid4())}
        answer = self.requests.call("POST", "/payments", body)
        assert answer.status in (200, 201), answer
        return str(answer.body["uuid"])

    def refund(self, payment: str, amount: int) -> str:
        answer = self.requests.call("POST", f"/payments/{payment}/refunds", {"amount": amount})
        assert answer.status == 201, answer
        return str(answer.body["uuid"])

    def payment(self, uuid: str) -> dict[str, Any]:
        found: dict[str, Any] = self.requests.get(f"/payments/{uuid}")
        return found

    def settled(self, uuid: str) -> dict[str, Any]:
        """The payment, once it is decided."""
        until(lambda: self.payment(uuid)["status"] != "PENDING", f"payment {uuid} to be decided")
        return self.payment(uuid)

    def given_wallet(self, name: str, balance: int) -> str:
        """Open a wallet and pay in."""
        assert self.wallet.call("POST", "/wallets", {"id": name}).status in (200, 201)
        if balance:
            paid_in = {"uuid": str(uuid4()), "amount": balance}
            assert self.wallet.call("POST", f"/wallets/{name}/deposits", paid_in).status == 201
        return name

    def balance(self, wallet: str) -> int:
        return int(self.wallet.get(f"/wallets/{wallet}")["balance"])

    def reconcile(self, **how: bool) -> Outcome:
        """As the command does it."""
        assert self.requests.service is not None
        assert self.wallet.service is not None
        sides = [Address(side.service.url, side.keys["internal"]) for side in (self.requests, self.wallet)]  # type: ignore[union-attr]

        async def run() -> Outcome:
            async with Peer(sides[0]) as requests, Peer(sides[1]) as wallet:
                return await reconcile(requests, wallet, **how)

        return asyncio.run(run())

    def _environment(self, peer: str) -> dict[str, str]:
        key = {"requests": self.requests, "wallet": self.wallet}[peer].keys["internal"]
        return {"SENDONCE_CONFIG": str(self._config), "CHANCEPAY_PEER_KEY": key}


@contextmanager
def databases(server: Server | None, folder: Path) -> Iterator[dict[str, Database]]:
    """A database for each service: of this server, or on SQLite."""
    if server is None:
        yield {name: SqliteDatabase(folder / f"{name}.db") for name in MIGRATIONS}
        return
    names = {name: server.create_database() for name in MIGRATIONS}
    try:
        yield {name: PostgresDatabase(server.dsn(made)) for name, made in names.items()}
    finally:
        for made in names.values():
            server.drop_database(made)


@contextmanager
def chancepay(
    server: Server | None, folder: Path, *, mode: str = "sure", broker: str = "", attempts: int = 5
) -> Iterator[ChancePay]:
    """Both services, made and not started yet."""
    with databases(server, folder) as found, Way() as way:
        sides = [Side(name, found[name], folder) for name in MIGRATIONS]
        made = ChancePay(sides[0], sides[1], folder, way, mode=mode, broker=broker, attempts=attempts)
        try:
            yield made
        finally:
            made.stop()


def keys_in(text: str) -> list[str]:
    """The API keys in what a command has printed."""
    return re.findall(r"key_\S+", text)
