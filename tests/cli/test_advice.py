"""Whatever is advised can be typed, or used as a verb of the API."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sendonce
from sendonce import Admin, Advice, TenantAdmin
from sendonce.admin.advice import Remark
from sendonce.cli.advice import COMMANDS, command, document, remark_line
from sendonce.cli.parser import WrongUse, build
from sendonce.domain.outcomes import Refused
from tests.cli.test_explain import park
from tests.cli.workbench import Cli

SOURCES = sorted(Path(sendonce.__file__).parent.rglob("*.py"))
# What runs for itself, or before there is a database that an Admin could be of.
NO_METHODS = {"migrate", "worker", "consume"}
# What stands for the parts of advice that only a row knows.
SOME = {"id": 1, "of": "delivery", "scope": "channel", "value": "mailto"}
LEADS_UP = re.compile(r"(?:with|run|see|say|ask|by|use|again|more|date|known|lost|arrived): (sendonce [a-z][^;,)\n]*)")

# Said of a command whose values are left out.
MISSING = re.compile(r"arguments are required: |expected one argument")


def advised() -> Iterator[Advice]:
    """Yield the advice of every place in the sources that makes one."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Advice":
                yield Advice(**{str(each.arg): _value(str(each.arg), each.value) for each in node.keywords})


def _value(name: str, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(_value(name, each) for each in node.elts)
    if isinstance(node, ast.Dict):
        keys = [str(_value(name, each)) for each in node.keys if each is not None]
        return {key: _value(key, each) for key, each in zip(keys, node.values, strict=True)}
    return SOME.get(name, "some words")


def sentences() -> Iterator[str]:
    """Yield every text of the sources, without what is filled in."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(str(each.value) for each in node.values if isinstance(each, ast.Constant))


ALL = list(advised())


@pytest.mark.parametrize("advice", ALL, ids=lambda advice: f"{advice.verb}, {advice.why}")
def test_advice_can_be_typed_and_is_a_verb_of_the_api(advice: Advice) -> None:
    words = shlex.split(command(advice).replace("URI", "null:a"))

    build(words[1]).parse_args(words[1:])

    assert hasattr(Admin, advice.verb) or advice.verb in NO_METHODS


def test_commands_are_those_that_are_advised() -> None:
    assert {each.verb for each in ALL} == set(COMMANDS)


def test_commands_inside_sentences_can_be_typed() -> None:
    found = sorted({each.strip() for text in sentences() for each in LEADS_UP.findall(text)})

    assert len(found) > 10
    for each in found:
        words = shlex.split(each.rstrip("."))
        assert not _refused(words), each


def _refused(words: list[str]) -> str | None:
    """Why the command line refuses it; missing values are no reason."""
    try:
        build(words[1]).parse_args(words[1:])
    except WrongUse as error:
        return None if MISSING.search(str(error)) else str(error)
    return None


def test_advice_quotes_values_from_outside_for_the_shell() -> None:
    advice = Advice(verb="consume", why="start it with", id="a; rm -rf /", of="consumer")

    assert command(advice) == "sendonce consume 'a; rm -rf /'"
    assert remark_line(Remark("nobody runs it", (advice,))) == f"nobody runs it; start it with: {command(advice)}"


def test_advice_in_json_has_the_verb_and_the_command(cli: Cli) -> None:
    cli.delivery("k")
    cli.attempt(Refused("http_410"))

    correct, requeue = cli("explain", "1", "--json").json["advice"]

    assert correct["needs"] == ["to", "reason"]
    assert requeue == {
        "verb": "requeue",
        "why": "requeue with",
        "id": 1,
        "of": "dead letter",
        "given": {},
        "needs": ["reason"],
        "command": "sendonce dead-letters requeue 1 --reason TEXT",
    }
    assert document(Advice(verb="migrate", why="run"))["command"] == "sendonce migrate"


def test_status_and_doctor_carry_advice_in_json(lite: Cli) -> None:
    lite("subscriptions", "add", "--type", "*", "--to", "null:hook")
    lite("subscriptions", "pause", "1")
    lite.publish("k")
    park(lite)

    assert [each["command"] for each in lite("status", "--json").json["advice"]] == ["sendonce subscriptions resume 1"]
    assert all(isinstance(each["advice"], list) for each in lite("doctor", "--json").json["rows"])


def test_tenant_is_advised_what_its_own_admin_can_do(cli: Cli) -> None:
    cli.delivery("k", "null:a", "--tenant", "acme")
    cli.attempt(Refused("http_410"))

    with Admin.open(cli.database, operator="ada") as admin:
        told = admin.for_tenant("acme").explain(1)

    assert [each.verb for each in told.advice] == ["correct", "requeue"]
    assert all(hasattr(TenantAdmin, each.verb) for each in told.advice)
