"""Runs the long tests part by part on one commit; what was stopped goes on with the part that was not finished.

python -m tests.soak [--list] [--again] [PART ...]
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.guarantees.figures import WRITE, commit
from tests.processes import ROOT

DONE = ROOT / ".soak"
# What several processes can share comes with their number; the others have the machine for themselves.
PARTS: dict[str, tuple[str, ...]] = {
    "simulation": ("tests/simulation",),
    "model": ("-n", "2", "tests/model"),
    "twins": ("-n", "2", "tests/twins"),
    "fuzz": ("tests/attack",),
    "load": ("-n", "2", "tests/load"),
    "killed": ("-n", "2", "tests/crash/test_killed.py", "tests/crash/test_bulk.py"),
    "bench": ("tests/benchmarks",),
    "chaos-sqlite": ("tests/crash/test_chaos.py", "-k", "test_chaos_for_ten_minutes_on_sqlite"),
    "chaos-operators": ("tests/crash/test_chaos.py", "-k", "ten_minutes_with_operators"),
    "chaos-postgres": ("tests/crash/test_chaos.py", "-k", "test_chaos_for_an_hour_on_postgres"),
}
Runner = Callable[[Sequence[str]], int]


class Mixed(Exception):
    """The parts would not all be of one commit."""


def soak(parts: Sequence[str], *, head: str | None, folder: Path, runner: Runner, again: bool = False) -> list[str]:
    """Run the parts that this commit has not passed; return the names of those that failed."""
    if head is None or head.endswith("+"):
        raise Mixed("the package differs from what is checked in: commit first, so that the figures name what was run")
    passed = {} if again else passed_parts(folder, head)
    failed = []
    for part in parts:
        if part in passed:
            print(f"{part}: passed before at {head}")
        elif runner(PARTS[part]) == 0:
            passed[part] = "passed"
            folder.mkdir(exist_ok=True)
            (folder / f"{head}.json").write_text(json.dumps(passed), "utf-8")
        else:
            failed.append(part)
        if commit() not in (head, None):
            raise Mixed(f"{head} was being run, and something else is checked out now; check it out and go on")
    return failed


def passed_parts(folder: Path, head: str) -> dict[str, str]:
    """The parts that have passed at this commit."""
    path = folder / f"{head}.json"
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def run_pytest(arguments: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-m", "soak", "--timeout", "0", "--dist", "worksteal", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, WRITE: "1"}, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--list", action="store_true", help="say which parts this commit has passed, and stop")
    parser.add_argument("--again", action="store_true", help="run also what has passed")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    head = commit()
    if asked.list:
        passed = passed_parts(DONE, head or "")
        print("\n".join(f"{part:16} {passed.get(part, 'to be run')}" for part in PARTS))
        return 0
    try:
        failed = soak(asked.parts or list(PARTS), head=head, folder=DONE, runner=run_pytest, again=asked.again)
    except Mixed as mixed:
        print(mixed, file=sys.stderr)
        return 2
    print(f"at {head}: " + (f"failed: {', '.join(failed)}" if failed else "all parts that were asked for have passed"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
