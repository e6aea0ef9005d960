"""python -m tests.simulation 4711 replays one seed step by step; --seeds 1000 [--from N] [--processes 2] runs many."""

import argparse
import sys

from tests.simulation.many import play_many
from tests.simulation.run import run
from tests.simulation.scene import PROFILES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="replay this one, step by step")
    parser.add_argument("--seeds", type=at_least_one, default=1000, help="how many to run")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--processes", type=at_least_one, default=1)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="small", help="how much happens in each")
    asked = parser.parse_args()
    if asked.seed is not None:
        return replay(asked.seed, asked.profile)
    total = play_many(asked.first, asked.seeds, profile=asked.profile, processes=asked.processes)
    print("\n".join([*total.failures, total.line()]))
    return 1 if total.failures else 0


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def replay(seed: int, profile: str) -> int:
    """Every step with its virtual time and its process, then the broken rules and the figures."""
    outcome = run(seed, PROFILES[profile], print)
    for rule, message in outcome.violations:
        print(f"BROKEN {rule}: {message}")
    print(outcome.counts, outcome.figures)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
