"""One run: a seed decides everything that happens in it, from the weather to which process runs next."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from sendonce.domain.attempts import Result
from sendonce.store.ports import Started
from tests.simulation.database import Database, Door, Trouble
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.nodes import Node, Reconciling, config_of
from tests.simulation.people import Application, Operator
from tests.simulation.world import KINDS, Send, World

Note = Callable[[str], None]
# How long, in virtual seconds, everything may take to come to its end once nothing goes wrong any more.
PATIENCE = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How much happens in one run. `down`: such a share of all requests fails because their channel does; and such a
    share of all blows is left out then, so that workers live to see it."""

    events: int
    seconds: float
    nodes: int = 2
    down: float = 0.0


SMALL = Profile(events=6, seconds=3.0)
LONG = Profile(events=120, seconds=60.0, nodes=3)
# Breakers open, are probed and ramp up all the time.
OUTAGES = Profile(events=60, seconds=8.0, down=0.8)
PROFILES = {"small": SMALL, "long": LONG, "outages": OUTAGES}


@dataclass(slots=True, kw_only=True)
class Counts:
    """What has happened to the system, on purpose."""

    crashes: int = 0
    freezes: int = 0
    stops: int = 0
    clock_jumps: int = 0
    memory_losses: int = 0
    recovered_in: float = 0.0


class Told(NamedTuple):
    """A result that a worker has told the store, in short."""

    delivery_id: int
    attempt: int
    lease_id: int
    outcome: str


class Scene:
    def __init__(self, seed: int, profile: Profile, note: Note | None = None) -> None:
        self.seed = seed
        self.profile = profile
        self._note = note
        order = self.dice("order")
        self.loop = SimulatedLoop(
            order, sticky=order.choice([0.0, 0.0, 0.5, 0.9]), most_steps=int(20_000 * profile.seconds)
        )
        self.loop.on_death = self._died
        self.database = Database(self.loop)
        self.trouble = Trouble(self.dice("database"))
        self.world = World(self.loop, self.dice("world"), self.database.tick, self._lease_state, self.note)
        self.config = config_of(order.choice([1.0, 1.0, 2.0]))
        self.counts = Counts()
        self.nodes: list[Node] = []
        self.reconciling: list[Reconciling] = []
        self.subscriptions: list[int] = []
        self.broken: list[str] = []
        self.late: list[Told] = []
        self.applied: list[Told] = []
        self.jumps_ahead: list[int] = []
        self._started = 0
        self._sorts = _sorts(self.dice("fleet"))
        self.application = Application(self)
        self.operator = Operator(self)

    def dice(self, name: str) -> Random:
        """Chance for one purpose; a change in one place leaves the others as they were."""
        return Random(f"{self.seed}/{name}")

    def note(self, who: Process | None, what: str, detail: object = "") -> None:
        if self._note is not None:
            name = "network" if who is None else who.name
            self._note(f"{self.loop.time() - 1000:9.3f}  {name:<12} {what} {_told(detail)}".rstrip())

    def door(self, process: Process) -> Any:
        return Door(self.database, self.trouble, process, self.loop, self.note, self._watch)

    def start_node(self) -> None:
        self._started += 1
        # Of each sort of worker there is one again and again, so that whatever is sent has somebody who serves it.
        lacking = min(self._sorts, key=[node.lacking for node in self.live()].count)
        node = Node(self, self._started, lacking)
        self.nodes.append(node)
        node.start()
        self.note(node.process, "begins")

    def live(self) -> list[Node]:
        return [node for node in self.nodes if not node.is_over]

    def _died(self, process: Process) -> None:
        self.counts.crashes += 1
        self.note(process, "is dead")

    def _lease_state(self, delivery_id: int, attempt: int) -> str | None:
        """What the database knows of an attempt at this moment: open under a lease, ended, or nothing."""
        state: str | None = self.database.one(
            "select case when a.status = 'Leased' and l.id is not null then 'open' else 'ended' end"
            "  from sendonce_attempts a left join sendonce_leases l on l.id = a.lease_id"
            " where a.delivery_id = ? and a.attempt = ?",
            delivery_id,
            attempt,
        )
        return state

    def _watch(self, name: str, args: tuple[Any, ...], answer: Any) -> None:
        if name != "settle":
            return
        for result, verdict in zip(args[0], answer, strict=True):
            claim, lease_id, outcome = result.report[:3]
            self.note(None, f"result of {claim.delivery_id}/{claim.attempt}: {type(outcome).__name__}, {verdict}")
            if verdict != "already applied":
                told = Told(claim.delivery_id, claim.attempt, lease_id, type(outcome).__name__)
                (self.late if verdict == "late" else self.applied).append(told)


def _sorts(dice: Random) -> list[tuple[str, ...]]:
    """What the workers of a run do not serve: nothing is left out, or each sort of them lacks what the other has."""
    if dice.random() < 0.6:
        return [()]
    kinds = dice.sample(KINDS, len(KINDS))
    return [tuple(kinds[:2]), tuple(kinds[2:3])]


def _told(detail: object) -> str:
    """One short line about what a call has answered, or about a request."""
    match detail:
        case None | "" | []:
            return ""
        case Started(lease=None, parked=parked):
            return f"nothing, {parked} parked" if parked else "nothing"
        case Started(lease=lease):
            named = ", ".join(f"{each.delivery_id}/{each.attempt}" for each in lease.claims) if lease else ""
            return f"lease {lease.id if lease else ''}: {named}"
        case Send():
            return f"{detail.delivery_id}/{detail.attempt} to {detail.intent} (lease {detail.lease_state})"
        case [Result(), *_]:
            claims = [each.report.claim for each in detail if isinstance(each, Result)]
            return ", ".join(f"{claim.delivery_id}/{claim.attempt}" for claim in claims)
        case list():
            return ", ".join(str(each) if isinstance(each, str | int) else type(each).__name__ for each in detail)
        case set():
            return ", ".join(map(str, sorted(detail)))
        case int() | str():
            return str(detail)
    return ""
