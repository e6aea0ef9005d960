"""Operators at work while everything breaks: every verb that people have, typed as commands, and restores."""

from collections.abc import Callable
from contextlib import suppress

from tests.crash.commands import typed
from tests.crash.monkey import Monkey
from tests.crash.publishing import ORDERED
from tests.crash.stage import DOWN, Stage

WHY = ("--reason", "chaos", "--operator", "ada")
A_FEW = 20
_WAITING = "select id from sendonce_deliveries where status in ('Pending', 'PendingRetry') order by id desc"
_ENDED = "select id from sendonce_deliveries where status = 'Completed' order by id desc"
_LETTERS = "select id from sendonce_dead_letters where closed_at is null order by id"
_PLACES = "select destination from sendonce_deliveries where subscription_id is null order by id desc"


class Operators:
    """What they do. All in one thread: what a restore takes back nobody has decided about a moment before."""

    def __init__(self, stage: Stage, monkey: Monkey) -> None:
        self._stage, self._monkey = stage, monkey

    def stop(self) -> None:
        scopes = [("--all",), ("--channel", "http"), ("--destination", f"subscription:{self._stage.subscription}")]
        scope = scopes[self._monkey.one_of(len(scopes))]
        self._type("stop", *scope, *WHY)
        self._monkey.between(1, 4)
        self._type("resume", *scope)

    def pause(self) -> None:
        self._type("subscriptions", "pause", self._stage.subscription)
        self._monkey.between(1, 4)
        self._type("subscriptions", "resume", self._stage.subscription)

    def cancel(self) -> None:
        for id in self._some(_WAITING)[:3]:
            self._type("cancel", id, *WHY)

    def cancel_in_bulk(self) -> None:
        self._type("cancel", "--type", ORDERED, "--since", "1s", "--yes", *WHY)

    def requeue(self) -> None:
        if letters := self._some(_LETTERS):
            self._type("dead-letters", "requeue", *letters, "--even-if-sent", *WHY)

    def requeue_in_bulk(self) -> None:
        self._type("dead-letters", "requeue", "--given-up-as", "cancelled", "--yes", *WHY)

    def replay(self) -> None:
        if ids := self._some(_ENDED):
            self._type("replay", *ids, "--even-if-sent", *WHY)

    def replay_in_bulk(self) -> None:
        self._type("replay", "--type", ORDERED, "--since", "2s", "--even-if-sent", "--yes", *WHY)

    def prune(self) -> None:
        file = self._stage.folder / f"archive-{self._monkey.done['pruned']}.jsonl"
        old = ("--payloads", "5s", "--history", "10s", "--keys", "never")
        self._type("prune", *old, "--archive", str(file), "--yes", *WHY)

    def erase(self) -> None:
        for place in self._some(_PLACES)[:3]:
            self._type("erase", "--destination", place, "--yes", *WHY)

    def restore(self) -> None:
        before = self._stage.back_up()
        self._monkey.between(2, 8)
        self._stage.restore(before, typed_too=self._monkey.chance(0.5))

    def _type(self, *arguments: str) -> None:
        typed(self._stage.database, *arguments)

    def _some(self, question: str) -> list[str]:
        with suppress(*DOWN):
            return [str(row[0]) for row in self._stage.database.execute(f"{question} limit {A_FEW}")]
        return []


def operators_monkey(stage: Stage, mended: Callable[[str], None], _: tuple[float, float]) -> Monkey:
    """People who decide, and restore, one thing after another."""
    monkey = Monkey("operators", stage.seed, mended, rest=(0.1, 0.5))
    people = Operators(stage, monkey)
    for name, weight, trick in (
        ("stopped", 3, people.stop),
        ("paused", 3, people.pause),
        ("cancelled", 3, people.cancel),
        ("cancelled in bulk", 2, people.cancel_in_bulk),
        ("requeued", 3, people.requeue),
        ("requeued in bulk", 3, people.requeue_in_bulk),
        ("replayed", 3, people.replay),
        ("replayed in bulk", 2, people.replay_in_bulk),
        ("pruned", 2, people.prune),
        ("erased", 2, people.erase),
        ("restored", 2, people.restore),
    ):
        monkey.learn(name, weight, trick)
    return monkey
