"""Fifty subscriptions of which ten misbehave, and the books that say what became of every delivery to them."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from tests.cli.workbench import Cli
from tests.provider import Provider
from tests.store.databases import Database

ENDPOINTS = 50
WELL = "well"
BEHAVIOURS: dict[str, dict[str, object]] = {
    "never answers": {"slow": "10m"},
    "503": {"fail": "503"},
    "429 with Retry-After": {"fail": "429", "retry_after": "30s"},
    "410": {"fail": "410"},
    "404": {"fail": "404"},
    "redirects": {"fail": "302"},
    "drops after accepting": {"drop_after_accept": True},
    "takes a second": {"late": "1s"},
    "refuses connections": {},
    "bad TLS": {},
}
ENDS = {WELL: "Completed", "takes a second": "Completed", "404": "DeadLettered", "redirects": "DeadLettered"}
# What these fail with; each waits behind a breaker.
WAITING = {
    "never answers": "read_timeout",
    "503": "http_503",
    "429 with Retry-After": "http_429",
    "drops after accepting": "connection_lost",
    "refuses connections": "connection_refused",
    "bad TLS": "tls_error",
}
MENDED = ("never answers", "503", "429 with Retry-After", "410", "drops after accepting")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One subscription: how its receiver behaves, at which path, and what signs for it."""

    id: int
    behaviour: str
    path: str
    secret: str

    @property
    def room(self) -> str:
        """Where its deliveries wait while its breaker is open."""
        return f"destination:subscription:{self.id}"


def subscribe(cli: Cli, provider: Provider, closed_port: int) -> list[Endpoint]:
    """Enter the subscriptions, each for a host of its own, and have the provider behave."""
    port = int(provider.url.rpartition(":")[2])
    endpoints = []
    for number, behaviour in enumerate([*BEHAVIOURS, *[WELL] * (ENDPOINTS - len(BEHAVIOURS))]):
        path = f"/{number:02}"
        scheme = "https" if behaviour == "bad TLS" else "http"
        place = f"127.0.0.1:{closed_port}" if behaviour == "refuses connections" else f"127.0.0.{number + 1}:{port}"
        url = f"{scheme}://{place}{path}"
        added = cli("subscriptions", "add", "--type", "order.*", "--to", url, "--json").json
        endpoints.append(Endpoint(added["id"], behaviour, path, added["secret"]))
        if settings := BEHAVIOURS.get(behaviour):
            provider.control(**settings, path=path)
    return endpoints


class Books:
    """What the database says of the deliveries to each endpoint."""

    def __init__(self, database: Database, endpoints: list[Endpoint], amount: int) -> None:
        self._database = database
        self._amount = amount
        self.endpoints = endpoints

    def states(self) -> dict[int, Counter[str]]:
        """How many are in which state, by subscription."""
        states: dict[int, Counter[str]] = defaultdict(Counter)
        for id, status, amount in self._database.execute(
            "select subscription_id, status, count(*) from sendonce_deliveries group by subscription_id, status"
        ):
            states[id][status] = amount
        return states

    def of(self, behaviour: str) -> list[Endpoint]:
        return [each for each in self.endpoints if each.behaviour == behaviour]

    def the(self, behaviour: str) -> Endpoint:
        [endpoint] = self.of(behaviour)
        return endpoint

    def have_ended(self, *behaviours: str) -> bool:
        """Whether all deliveries to these are in their last state."""
        states = self.states()
        return all(states[each.id][ENDS[name]] == self._amount for name in behaviours for each in self.of(name))

    def are_held_back(self) -> bool:
        """Whether everybody who fails has a breaker, and who is gone is disabled."""
        rooms = {row[0] for row in self._database.execute("select room from sendonce_breakers")}
        return rooms >= {self.the(name).room for name in WAITING} and self.state_of("410") == "disabled"

    def state_of(self, behaviour: str) -> str:
        id = self.the(behaviour).id
        return str(self._database.one("select state from sendonce_subscriptions where id = ?", id))

    def rows(self, behaviour: str) -> list[dict[str, Any]]:
        id = self.the(behaviour).id
        return [row for row in self._database.rows("deliveries") if row["subscription_id"] == id]

    def attempts(self, behaviour: str) -> Counter[tuple[str, str | None]]:
        """What the attempts for one endpoint came to, and how often."""
        found = self._database.execute(
            "select a.outcome, a.error_code, count(*) from sendonce_attempts a"
            " join sendonce_deliveries d on d.id = a.delivery_id where d.subscription_id = ?"
            " group by a.outcome, a.error_code",
            self.the(behaviour).id,
        )
        return Counter({(outcome, code): amount for outcome, code, amount in found})
