"""What a run has left behind: the rows, the log of every change, and what the outside has seen, to be compared."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from sendonce.domain.destinations import scheme_of
from tests.simulation.scene import Scene
from tests.simulation.world import CAN_BE_ASKED, HOLD, Asking, Send

Row = dict[str, Any]

DELIVERIES = """
select d.*, e.key, e.type, e.tenant, s.policy, coalesce(s.destination, d.destination) as address,
       coalesce(x.content, e.payload) as body
  from sendonce_deliveries d
  join sendonce_events e on e.id = d.event_id
  left join sendonce_subscriptions s on s.id = d.subscription_id
  left join sendonce_contents x on x.event_id = d.event_id and x.destination_hash = d.destination_hash
   and x.corrections = d.corrections
 order by d.id
"""
EVENTS = """
select e.key, e.routed, (select count(*) from sendonce_deliveries d
                          where d.event_id = e.id and d.generation = 0 and d.corrections = 0) as deliveries
  from sendonce_events e
"""


class History:
    """`claims`: by delivery and attempt, the tick of the claim and the delivery's last row in the log before it."""

    def __init__(self, scene: Scene) -> None:
        rows = scene.database.rows
        self.scene = scene
        self.deliveries: dict[int, Row] = {row["id"]: row for row in rows(DELIVERIES)}
        self.attempts: dict[tuple[int, int], Row] = {
            (row["delivery_id"], row["attempt"]): row for row in rows("select * from sendonce_attempts")
        }
        self.events = rows(EVENTS)
        self.letters = rows("select * from sendonce_dead_letters")
        self.findings = rows("select * from sendonce_findings")
        self.leases = rows("select * from sendonce_leases")
        self.counters = rows("select name, sum(amount) as amount from sendonce_counters group by name")
        self.log = rows("select * from temp.log order by tick")
        self.sends = scene.world.sends
        self.askings: dict[int, list[Asking]] = defaultdict(list)
        for asking in scene.world.askings:
            self.askings[asking.delivery_id].append(asking)
        self.by_intent: dict[str, list[Send]] = defaultdict(list)
        for send in self.sends:
            self.by_intent[send.intent].append(send)
        self.chains: dict[tuple[int, bytes], list[int]] = defaultdict(list)
        for id, row in self.deliveries.items():
            self.chains[row["event_id"], row["destination_hash"]].append(id)
        self.claims: dict[tuple[int, int], tuple[int, Row]] = {}
        self.changes: dict[int, list[Row]] = defaultdict(list)
        self._read_log()

    def _read_log(self) -> None:
        for row in self.log:
            if row["what"] == "delivery":
                self.changes[row["id"]].append(row)
            elif row["what"] == "attempt" and row["was"] is None:
                self.claims[row["id"], row["attempt"]] = (row["tick"], self.changes[row["id"]][-1])

    def intent_of(self, delivery_id: int) -> str:
        row = self.deliveries[delivery_id]
        return f"{row['body']}>{row['address']}"

    def can_be_asked(self, delivery_id: int) -> bool:
        return scheme_of(self.deliveries[delivery_id]["address"]) in CAN_BE_ASKED

    def holds(self, delivery_id: int) -> bool:
        """Whether a person is to decide when it may have been sent and nobody can be asked, as it was published."""
        row = self.deliveries[delivery_id]
        chosen = self.deliveries[self.chains[row["event_id"], row["destination_hash"]][0]]["if_unsure"]
        if chosen:
            return bool(chosen == "hold")
        return scheme_of(row["address"]) == HOLD or "hold" in (row["policy"] or "")

    def asked(self, delivery_ids: list[int], after: int, before: int) -> Iterator[Asking]:
        """Look-ups about these in between that gave leave to send."""
        for id in delivery_ids:
            for asking in self.askings.get(id, ()):
                if after < asking.tick < before and asking.answer in ("NotThere", "CannotTell"):
                    yield asking

    def family(self, delivery_id: int) -> list[int]:
        """All generations of one event on its way to one destination."""
        row = self.deliveries[delivery_id]
        return self.chains[row["event_id"], row["destination_hash"]]
