"""Reading a worker's metrics and health over HTTP, as Prometheus and Kubernetes do."""

import re
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from tests.processes import Process

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
LONGEST_ANSWER = 30.0


class Answer(NamedTuple):
    status: int
    type: str
    text: str


def get(url: str, *, method: str = "GET", accept: str = "*/*") -> Answer:
    """The answer, whatever it is; OSError when there is none."""
    request = urllib.request.Request(url, method=method, headers={"Accept": accept})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=LONGEST_ANSWER) as answer:  # noqa: S310
            return Answer(answer.status, answer.headers["Content-Type"], answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers["Content-Type"], error.read().decode())


def address_of(worker: Process) -> str:
    """Where it listens, when it says so."""
    worker.says("serving metrics on")
    [found] = re.findall(r"serving metrics on (http://\S+)", worker.said)
    return str(found)


def samples_of(text: str) -> dict[str, float]:
    """Each series, its labels in the order of their names: `name{a="b"}`."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def scrape(address: str) -> dict[str, float]:
    answer = get(f"{address}/metrics")
    assert answer.status == 200
    return samples_of(answer.text)


def together(addresses: Iterable[str]) -> dict[str, float]:
    """The sum over several workers, as a query without labels has it."""
    found: dict[str, float] = defaultdict(float)
    for address in addresses:
        for name, value in scrape(address).items():
            found[name] += value
    return dict(found)
