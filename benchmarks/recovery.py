"""How soon a receiver that was away for half a minute gets its messages again, in virtual seconds."""

import statistics

from benchmarks.measures import Figures
from tests.simulation.outages import recovery

# They end just before a probe, just after one, and in between.
OUTAGES = (28.0, 30.0, 31.5, 33.0, 36.0)


def recoveries() -> Figures:
    took = [recovery(seed, outage) for seed, outage in enumerate(OUTAGES)]
    return {
        "recovery after 30 s of outage: median, s": statistics.median(took),
        "recovery after 30 s of outage: longest, s": max(took),
    }
