"""An hour of chaos: a steady stream of events while everything that can break does, and the account at the end.

python -m tests.crash.chaos --minutes 60 --rate 1000 --database postgres [--seed 7]
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.crash.checking import count_outcomes, examine, verify
from tests.crash.monkey import Monkey, machine_monkey, receiver_monkey
from tests.crash.operators import operators_monkey
from tests.crash.report import Report
from tests.crash.stage import DOWN, Stage
from tests.guarantees.figures import record
from tests.processes import ROOT, until
from tests.servers.os_users import FOLDER
from tests.servers.runs import Run

PROGRESS_SECONDS = 10.0
# A run goes on until what so many seconds should bring is recorded, however slow the machine is.
LEAST = 2
BACKLOG_SECONDS = 60.0
DRAIN_SECONDS = 600.0
REST = (2.0, 6.0)


@dataclass(frozen=True, kw_only=True)
class Plan:
    database: str
    minutes: float
    rate: float
    seed: int
    concurrency: int = 100
    rest: tuple[float, float] = REST
    has_operators: bool = False


class Recoveries:
    """How long it takes after each fault until all that had been published by then is closed."""

    def __init__(self, stage: Stage) -> None:
        self.longest = 0.0
        self._stage = stage
        self._waiting: list[tuple[float, int]] = []
        self._lock = threading.Lock()

    def mended(self, _: str) -> None:
        with suppress(*DOWN):
            last = self._stage.last_delivery()
            with self._lock:
                self._waiting.append((time.monotonic(), last))

    def look(self, oldest: int) -> None:
        """Everything before this one is closed; 0 for everything."""
        now = time.monotonic()
        with self._lock:
            over = [(at, last) for at, last in self._waiting if not oldest or last < oldest]
            self._waiting = [each for each in self._waiting if each not in over]
        self.longest = max([self.longest, *(now - at for at, _ in over)])


def run(plan: Plan, folder: Path) -> Report:
    """Let it happen, heal everything, wait until all is closed, and compare what everybody says."""
    title = f"chaos on {plan.database}: {plan.minutes:g} minutes at {plan.rate:g} events/s, seed {plan.seed}"
    report = Report(title=title)
    begun = time.monotonic()
    with Stage(plan.database, folder, rate=plan.rate, seed=plan.seed, concurrency=plan.concurrency) as stage:
        recoveries = Recoveries(stage)
        makers = [machine_monkey, receiver_monkey, *([operators_monkey] if plan.has_operators else [])]
        monkeys = [make(stage, recoveries.mended, plan.rest) for make in makers]
        for monkey in monkeys:
            monkey.start()
        started = time.monotonic()
        try:
            watch(stage, monkeys, recoveries, started, started + plan.minutes * 60)
        finally:
            for monkey in monkeys:
                monkey.stop()
        stage.brake(is_on=False)
        stage.stop_publishing()
        published_for = time.monotonic() - started
        recoveries.mended("all")
        ended = time.monotonic()
        until(lambda: is_drained(stage, recoveries), "everything to be closed", DRAIN_SECONDS)
        report.recovery_seconds = time.monotonic() - ended
        ledger = stage.recorder.ledger(folder)
        examine(stage.database, folder, ledger, report, stage.lost)
        verify(stage.database, report)
        report.in_doubt = count_outcomes(stage.database)["Unknown"]
        faults = sum((monkey.done for monkey in monkeys), start=Counter[str]())
        totals = stage.recorder.totals()
        cuts = stage.proxy.cuts if stage.proxy else 0
    report.more |= {
        "rate_reached": round(report.published / published_for, 1),
        "requests": totals["requests"],
        "worker_kills": faults["worker killed"] + 2 * faults["all workers killed"],
        "publisher_kills": faults["publisher killed"],
        "freezes": faults["worker frozen"],
        "server_stops": faults["server stopped"],
        "connections_cut": cuts,
        "receiver_faults": faults["receiver misbehaved"],
        **({"acts_of_operators": monkeys[2].done.total()} if plan.has_operators else {}),
        **({"restores": faults["restored"]} if plan.has_operators else {}),
        "recovery_after_calm_seconds": round(report.recovery_seconds, 1),
        "longest_recovery_seconds": round(recoveries.longest, 1),
        "took_seconds": round(time.monotonic() - begun, 1),
    }
    return report


def watch(stage: Stage, monkeys: list[Monkey], recoveries: Recoveries, started: float, ends: float) -> None:
    """Say every few seconds how it goes, and have the publishers wait when they are too far ahead."""
    say_at = time.monotonic() + PROGRESS_SECONDS
    last_seen, last_at = 0, started
    amount: int | None
    newest = 0
    while (time.monotonic() < ends or newest <= LEAST * stage.rate) and not any(monkey.error for monkey in monkeys):
        assert time.monotonic() < ends + DRAIN_SECONDS, f"only {newest} deliveries were recorded"
        time.sleep(1.0)
        stage.check()
        amount = None
        with suppress(*DOWN):
            newest = stage.last_delivery()
            amount, oldest = stage.open_deliveries()
            recoveries.look(oldest)
            if amount > BACKLOG_SECONDS * stage.rate:
                stage.brake(is_on=True)
            elif amount < BACKLOG_SECONDS * stage.rate / 2:
                stage.brake(is_on=False)
        if time.monotonic() >= say_at:
            say_at += PROGRESS_SECONDS
            seen, now = stage.recorder.totals()["distinct"], time.monotonic()
            print(
                f"{now - started:6.0f} s  received {seen:,} ({(seen - last_seen) / (now - last_at):.0f}/s),"
                f" open {'?' if amount is None else format(amount, ',')},"
                f" faults {sum(monkey.done.total() for monkey in monkeys)},"
                f" longest recovery {recoveries.longest:.1f} s",
                file=sys.stderr, flush=True,
            )  # fmt: skip
            last_seen, last_at = seen, now


def is_drained(stage: Stage, recoveries: Recoveries) -> bool:
    amount, oldest = stage.open_deliveries()
    recoveries.look(oldest)
    return amount == 0


def keep(plan: Plan, report: Report) -> None:
    """The figures of this run."""
    more = dict(report.more)
    record(
        f"chaos-{plan.database}{'-operators' if plan.has_operators else ''}",
        {
            "database": plan.database,
            "minutes": plan.minutes,
            "rate_wanted": plan.rate,
            "rate_reached": more.pop("rate_reached"),
            "events": report.published,
            **more,
            "lost": report.lost,
            "doubled": report.doubled.total(),
            **{f"repeated_{cause.replace(' ', '_')}": amount for cause, amount in sorted(report.repeated.items())},
            "held": report.held,
            **(
                {"replayed": report.replayed, "decided": report.decided, "gone": report.gone}
                if plan.has_operators
                else {}
            ),
            "strange": report.strange.total(),
        },
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--database", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--operators", action="store_true", help="people are at work meanwhile, and restore backups")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    plan = Plan(
        database=args.database, minutes=args.minutes, rate=args.rate, seed=args.seed, has_operators=args.operators
    )
    servers = Run(ROOT)  # stops what this run has started, also when it is killed
    os.environ[FOLDER] = str(servers.folder)
    try:
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            report = run(plan, Path(folder))
    finally:
        servers.over()
    print(report)
    keep(plan, report)
    report.check()


if __name__ == "__main__":
    main()
