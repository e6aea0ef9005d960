"""What the receiver knows of one side: which orders it has acted upon, how often, and who was there to hear it."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sendonce.demo.plan import Answer, Mood, answer_to

RECOGNISED = Answer(200, text="thank you, I know")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """One side as the receiver has counted it. `acted`, `recognised` and `refused` say how often, by order; `busy` how
    often it was asked to come back, `unheard` how many answers found nobody there.
    """

    acted: Mapping[int, int] = field(default_factory=dict)
    recognised: Mapping[int, int] = field(default_factory=dict)
    refused: Mapping[int, int] = field(default_factory=dict)
    busy: int = 0
    in_flight: int = 0
    heard: int = 0
    unheard: int = 0

    def as_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Counts":
        return cls(
            acted=_by_order(document["acted"]),
            recognised=_by_order(document["recognised"]),
            refused=_by_order(document["refused"]),
            busy=document["busy"],
            in_flight=document["in_flight"],
            heard=document["heard"],
            unheard=document["unheard"],
        )

    @property
    def seen(self) -> set[int]:
        """Every order that a request has come for."""
        return {*self.acted, *self.recognised, *self.refused}

    @property
    def doubled(self) -> set[int]:
        return {order for order, times in self.acted.items() if times > 1}


class Inbox:
    """Takes orders from many threads. An order with a token that it knows is answered, and nothing is done."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: set[str] = set()
        self._acted: Counter[int] = Counter()
        self._recognised: Counter[int] = Counter()
        self._refused: Counter[int] = Counter()
        self._requests = self._heard = self._unheard = self._busy = 0

    def take(self, order: int, token: str | None, mood: Mood) -> Answer:
        """Act on it, unless it is turned away or known; what to answer."""
        answer = answer_to(order, mood)
        with self._lock:
            self._requests += 1
            if answer.is_refusal:
                self._refused[order] += 1
                return answer
            if not answer.is_yes:
                self._busy += 1
                return answer
            if token is not None and token in self._tokens:
                self._recognised[order] += 1
                return RECOGNISED
            if token is not None:
                self._tokens.add(token)
            self._acted[order] += 1
            return answer

    def answered(self, *, is_heard: bool) -> None:
        with self._lock:
            self._heard += is_heard
            self._unheard += not is_heard

    def counts(self) -> Counts:
        with self._lock:
            return Counts(
                acted=dict(self._acted),
                recognised=dict(self._recognised),
                refused=dict(self._refused),
                busy=self._busy,
                in_flight=self._requests - self._heard - self._unheard,
                heard=self._heard,
                unheard=self._unheard,
            )


def _by_order(times: Mapping[str, int]) -> dict[int, int]:
    """JSON has only texts as names: make them orders again."""
    return {int(order): count for order, count in times.items()}
