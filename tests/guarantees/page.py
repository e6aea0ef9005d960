"""Writes docs/reference/guarantees.md from the promises, the tests that hold them and the figures of the latest runs.

python -m tests.guarantees.page
"""

from collections.abc import Mapping, Sequence

from tests.guarantees.figures import latest
from tests.guarantees.promises import NOT_PROMISED, PROMISED, Promise
from tests.processes import ROOT

PAGE = ROOT / "docs/reference/guarantees.md"
Figures = Mapping[str, int | float | str | None]
TRIED = ("seeds", "events", "deliveries", "requests", "verified_rows", "minutes")
FAULTS = (
    "crashes", "worker_kills", "publisher_kills", "freezes", "database_faults", "server_stops", "connections_cut",
    "receiver_faults", "clock_jumps", "acts_of_operators", "restores",
)  # fmt: skip

_HEADER = """# Guarantees

What sendonce promises and what it does not, under which conditions, and what holds each line: tests that run with
every change (`make test`), and long runs (`make soak`) whose latest figures are here with their date. Written by
`python -m tests.guarantees.page` from [the promises](../../tests/guarantees/promises.py) and [the figures](../figures);
a test fails when this page is not what that would write, or when a test that it names does not exist.

*Lost*: recorded by a committed transaction, and neither delivered nor open nor given up with a reason. *Doubled*:
taken twice by a receiver that knows our token or could have been asked. *Repeated*: taken twice where nobody can
prevent it, each with its cause. *Held*: given up to a person because it may have arrived and nobody can be asked.
"""


def page() -> str:
    """The whole page."""
    figures = latest()
    parts = [_HEADER, "## The latest long runs\n", _runs(figures)]
    parts += ["## Promised\n", _table("promise", PROMISED, figures)]
    parts += ["## Not promised\n", _table("not promised; instead", NOT_PROMISED, figures)]
    return "\n".join(parts)


def _runs(figures: Mapping[str, Figures]) -> str:
    lines = [
        "| run | date | commit | tried | crashes and faults | lost | doubled | repeated | held | longest recovery, s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join(
        [*lines, *(_run(name, each) for name, each in figures.items() if "lost" in each), "", *_notes(figures)]
    )


def _notes(figures: Mapping[str, Figures]) -> list[str]:
    """Under which conditions a run was made, where they were not the usual ones."""
    return [f"- {name}: {each['note']}.\n" for name, each in figures.items() if each.get("note")]


def _run(name: str, run: Figures) -> str:
    cells = [
        name,
        run["date"],
        run.get("commit"),
        _tried(run),
        _listed(run, FAULTS),
        run["lost"],
        run["doubled"],
        _repeated(run),
        run.get("held"),
        run.get("longest_recovery_seconds"),
    ]
    return "| " + " | ".join(_cell(each) for each in cells) + " |"


def _tried(run: Figures) -> str:
    rate = run.get("rate_reached")
    return _listed(run, TRIED) + (f", {_cell(rate)} events a second" if rate else "")


def _repeated(run: Figures) -> str:
    """How often, or how often for each cause where the run has counted them."""
    causes = [name for name in run if name.startswith("repeated_")]
    return "; ".join(f"{_cell(run[name])} {name[9:].replace('_', ' ')}" for name in causes) or _cell(
        run.get("repeated")
    )


def _listed(run: Figures, names: Sequence[str]) -> str:
    return ", ".join(f"{_cell(run[name])} {name.replace('_', ' ')}" for name in names if run.get(name))


def _table(first: str, promises: Sequence[Promise], figures: Mapping[str, Figures]) -> str:
    lines = [f"| {first} | when | held by | latest figures |", "|---|---|---|---|"]
    for each in promises:
        lines.append(f"| {each.words} | {each.conditions} | {_tests(each)} | {_latest(each, figures)} |")
    return "\n".join([*lines, ""])


def _tests(promise: Promise) -> str:
    named = (test.partition("::") for test in promise.tests)
    return "<br>".join(f"[{file}](../../tests/{file}) `{function}`" for file, _, function in named)


def _latest(promise: Promise, figures: Mapping[str, Figures]) -> str:
    return "<br>".join(_summary(name, figures[name]) for name in promise.runs if name in figures)


def _summary(name: str, run: Figures) -> str:
    counted = _listed(run, ("events", "examples", "crashes", "worker_kills"))
    ended = f"; lost {_cell(run['lost'])}, doubled {_cell(run['doubled'])}" if "lost" in run else ""
    back = run.get("after_30_s_longest")
    recovered = f"after 30 s of outage at most {_cell(back)} s" if back is not None else ""
    return f"{name}, {run['date']}: {counted}{ended}{recovered}"


def _cell(value: int | float | str | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" if isinstance(value, float) else value


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
