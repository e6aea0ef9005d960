"""Shows the branch coverage of each package, the least covered files, and what the figures leave out.

python -m tests.coverage, after `make coverage` has measured.
"""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FEW = 15
LEFT_OUT = (
    "processes that a test kills (SIGKILL, a crash at a checkpoint): they have no time to write what they ran",
    "the SQL, the PL/pgSQL and the triggers: tests/store and tests/verify hold those on real databases",
    "blocks for a type checker only: `if TYPE_CHECKING`, `@overload`, bodies of protocols, `assert_never`",
    "what only `make test-more` and `make soak` run: failover, other Pythons, the lowest versions, long runs",
)


def told(files: Mapping[str, Any]) -> Iterable[str]:
    """The lines of the summary, from the files of coverage's JSON."""
    packages: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    shares = {}
    for name, file in files.items():
        path = name.rpartition("sendonce/")[2]
        counted = file["summary"]
        counts = [counted[each] for each in ("covered_lines", "num_statements", "covered_branches", "num_branches")]
        for package in (path.partition("/")[0] if "/" in path else "(top)", "all"):
            packages[package] = [had + has for had, has in zip(packages[package], counts, strict=True)]
        shares[path] = _share(*counts)
    yield f"{'package':16} {'lines':>7} {'branches':>9} {'both':>7}"
    for package in sorted(packages, key=lambda each: (each == "all", each)):
        lines, all_lines, branches, all_branches = packages[package]
        both = _share(lines, all_lines, branches, all_branches)
        yield f"{package:16} {_share(lines, all_lines):7.1%} {_share(branches, all_branches):9.1%} {both:7.1%}"
    yield "\nleast covered:"
    yield from (f"  {shares[path]:6.1%}  {path}" for path in sorted(shares, key=lambda each: shares[each])[:FEW])
    yield "\nleft out:"
    yield from (f"  {each}" for each in LEFT_OUT)


def _share(*counts: int) -> float:
    """The covered ones of pairs (covered, all)."""
    return sum(counts[::2]) / wanted if (wanted := sum(counts[1::2])) else 1.0


def main() -> int:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        subprocess.run([sys.executable, "-m", "coverage", "json", "--quiet", "-o", str(path)], check=True)
        print("\n".join(told(json.loads(path.read_text("utf-8"))["files"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
