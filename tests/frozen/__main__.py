"""`python -m tests.frozen [names help sql traces]`: keep what is there now as what must not change unnoticed."""

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.frozen import surface, traces

KEPT = Path(__file__).parent / "kept"


def all_traces() -> str:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        digests = pool.map(traces.digest, range(traces.SEEDS // traces.BATCH))
        return "".join(f"{digest}\n" for digest in digests)


FROZEN: dict[str, dict[str, Callable[[], str]]] = {
    "names": {"names.txt": surface.names},
    "help": {"help.txt": surface.helps},
    "sql": {f"{database}.sql.txt": partial(surface.sql, database) for database in ("postgres", "sqlite")},
    "traces": {"traces.txt": all_traces},
}


if __name__ == "__main__":
    KEPT.mkdir(exist_ok=True)
    for part in sys.argv[1:] or FROZEN:
        for name, make in FROZEN[part].items():
            (KEPT / name).write_text(make())
            print(f"froze {name}")
