"""`make bench`: every measurement, repeated, as medians; figures that have a bar are shown with it."""

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable

from benchmarks import brokers, claims, embedded, fanout, inbox, measures, names, outgoing, reads, recovery
from benchmarks.measures import Figures
from tests.servers.binaries import local_binaries, packaged
from tests.servers.postgres import Server, start

SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "min_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    "wal_buffers": "16MB",
    "effective_cache_size": "8GB",
    "random_page_cost": "1.1",
}
# What must be reached, and from which side.
BARS = {
    "drain x1: ours / floor 2": (">=", 0.65),
    "drain x2: ours / floor 2": (">=", 0.6),
    "drain x1: WAL bytes per delivery": ("<=", 2100),
    "drain x1: memory MB": ("<=", 150),
    "publish one: ours / floor 1": (">=", 0.42),
    "publish many: ours / COPY": (">=", 0.4),
    "latency p50: ours / floor 2": ("<=", 3),
    "latency p99: ours / floor 2": ("<=", 3),
    "claim of 100: ratio behind / nothing": ("<=", 1.2),
    "claim of 100: ratio with an old snapshot / nothing": ("<=", 1.2),
    "claim of 100: ratio with parked / nothing": ("<=", 1.5),
    "SQLite: ours / bare script": (">=", 0.3),
    "webhooks x1: ours / client alone": (">=", 0.35),
    "webhooks x2: ours / client alone": (">=", 0.35),
    "mails: ours / client alone": (">=", 0.35),
    "fairness: behind dead / alone": ("<=", 2),
    "names: beside silent / alone": ("<=", 2),
    **{
        f"brokers: {kind}: ours / slower of client and null:": (">=", 0.5)
        for kind in ("nats", "amqp", "kafka", "redis")
    },
    "recovery after 30 s of outage: longest, s": ("<=", 15),
    **reads.BARS,
}
# Counted, or in virtual time: the same in every round.
ONCE = {"claims", "reads", "recovery"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deliveries", type=int, default=100_000)
    parser.add_argument("--behind", type=int, default=1_000_000)
    usual = "drain,publish,latency,claims,sqlite,webhooks,mails,fairness,fanout,names,inbox,brokers,reads,recovery"
    parser.add_argument("--only", default=usual)
    args = parser.parse_args()
    server = start(local_binaries() or packaged(16), durable=True, settings=SETTINGS)
    try:
        for name, measure in sections(server, args.deliveries, args.behind).items():
            if name in args.only.split(","):
                show(repeat(measure, 1 if name in ONCE else args.rounds))
    finally:
        server.stop()


def sections(server: Server, deliveries: int, behind: int) -> dict[str, Callable[[], Figures]]:
    singles, many, paced = max(100, deliveries // 50), max(1000, deliveries // 3), max(20, min(500, deliveries // 100))
    return {
        "drain": lambda: measures.drains(server, deliveries, 1) | measures.drains(server, deliveries, 2),
        "publish": lambda: measures.publishes(server, singles, many),
        "latency": lambda: measures.latencies(server, paced),
        "claims": lambda: claims.claims(server, behind),
        "reads": lambda: reads.reads(server, behind),
        "webhooks": lambda: outgoing.webhooks(server, deliveries // 5),
        "mails": lambda: outgoing.mails(server, deliveries // 20),
        "fairness": lambda: outgoing.fairness(server, deliveries // 10, deliveries // 100),
        "names": lambda: names.names(server, max(50, min(600, deliveries // 150))),
        "fanout": lambda: fanout.fanout(server, deliveries // 10),
        "inbox": lambda: inbox.inbox(server, max(100, deliveries // 50)),
        "brokers": lambda: brokers.brokers(server, max(1000, deliveries // 5000 * 1000)),
        "sqlite": lambda: embedded.embedded(deliveries // 2),
        "recovery": recovery.recoveries,
    }


def repeat(measure: Callable[[], Figures], rounds: int) -> dict[str, list[float]]:
    """Each figure's values over the rounds."""
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, value in measure().items():
            found[name].append(value)
    return found


def show(figures: dict[str, list[float]]) -> None:
    for name, values in figures.items():
        median = statistics.median(values)
        spread = "" if len(values) == 1 else f"  ({min(values):,.2f}–{max(values):,.2f})"
        print(f"{name:52} {median:12,.2f}{spread:24} {_judged(name, median)}", flush=True)


def _judged(name: str, value: float) -> str:
    if name not in BARS:
        return ""
    side, bar = BARS[name]
    reached = value >= bar if side == ">=" else value <= bar
    return f"{'reached' if reached else 'MISSED'}: {side} {bar:g}"


if __name__ == "__main__":
    main()
