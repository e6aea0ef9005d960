"""The metrics' names, their text in both formats, and the pages that speak of them."""

import re
from pathlib import Path

import pytest

from sendonce.observability.metrics import (
    OF_A_CONSUMER,
    OF_A_WORKER,
    OF_THE_DATABASE,
    Measured,
    Metric,
    alone,
    exposition,
)
from tests.scrapes import OPENMETRICS, samples_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "metrics.md").read_text("utf-8")
RULES = (DOCS / "reference" / "alert-rules.yml").read_text("utf-8")
ALL = (*OF_A_WORKER, *OF_A_CONSUMER, *OF_THE_DATABASE)
LABELS = {"version", "worker_id", "channel", "outcome", "answer", "result", "part", "way", "cause", "consumer", "mode"}


@pytest.mark.parametrize("metric", ALL, ids=lambda each: each.name)
def test_metric_is_named_as_prometheus_wants_it(metric: Metric) -> None:
    assert re.fullmatch(r"sendonce_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.name.endswith("_seconds") == (metric.kind == "histogram" or "seconds" in metric.name)
    assert metric.help.endswith(".")
    assert set(metric.labels) <= LABELS


def test_metric_names_are_unique() -> None:
    assert len({metric.name.removesuffix("_total") for metric in ALL}) == len(ALL)


def test_text_is_what_the_reader_accepts_best() -> None:
    measured: list[Measured] = [(ALL[0], {("1", "2"): 1.0}), (OF_THE_DATABASE[0], alone(2.5))]

    plain, plain_type = exposition(measured, "*/*")
    openmetrics, openmetrics_type = exposition(measured, OPENMETRICS)

    assert plain_type.startswith("text/plain; version=0.0.4")
    assert openmetrics_type.startswith("application/openmetrics-text; version=1.0.0")
    assert openmetrics.endswith(b"# EOF\n")
    expected = {'sendonce_worker_info{version="1",worker_id="2"}': 1.0, "sendonce_oldest_due_age_seconds": 2.5}
    assert samples_of(plain.decode()) == expected
    assert f"# HELP {ALL[0].name} {ALL[0].help}" in plain.decode()


def test_M12_page_lists_every_metric_with_its_kind_labels_and_help_and_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)

    listed = [(name, kind, tuple(re.findall(r"`(\w+)`", labels)), help) for name, kind, labels, help in rows]
    assert listed == [(metric.name, metric.kind, metric.labels, metric.help) for metric in ALL]


def test_M12_example_rules_speak_of_metrics_that_there_are() -> None:
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"sendonce_\w+", RULES)}

    assert names <= {metric.name for metric in ALL}
    assert {"sendonce_dead_letters_open", "sendonce_oldest_due_age_seconds"} <= names
    for label in re.findall(r'[{,](\w+)[=!~]+"', RULES) + re.findall(r"by \((\w+)\)", RULES):
        assert label in LABELS | {"job", "instance", "le"}
