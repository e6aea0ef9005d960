"""The example rules for Prometheus are right, and each fires and is silent when it should: promtool says so."""

import re
from pathlib import Path

import pytest

from tests.servers import debian
from tests.servers.debian import Program

RULES = Path(__file__).parents[2] / "docs" / "reference" / "alert-rules.yml"
CASES = Path(__file__).with_name("alert-rules.test.yml")


@pytest.fixture(scope="module")
def promtool() -> Program:
    return debian.program("promtool")


def test_M12_rules_can_be_loaded(promtool: Program) -> None:
    answer = promtool.run("check", "rules", RULES)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"SUCCESS: {len(rules())} rules found" in answer.stdout


def test_M12_rule_fires_when_it_should_and_not_before(promtool: Program, tmp_path: Path) -> None:
    cases = tmp_path / CASES.name
    cases.write_text(CASES.read_text("utf-8").replace("RULES", str(RULES), 1), "utf-8")

    answer = promtool.run("test", "rules", cases)

    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_rule_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    text = CASES.read_text("utf-8")

    assert set(re.findall(r"eval_time: \w+, alertname: (\w+) \}", text)) == rules()
    assert set(re.findall(r"alertname: (\w+)\n\s+exp_alerts:", text)) == rules()


def rules() -> set[str]:
    return set(re.findall(r"alert: (\w+)", RULES.read_text("utf-8")))
