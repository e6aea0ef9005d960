"""--help is quick because it imports nothing that does the work; docs/reference/cli.md names everything there is."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sendonce.cli import main
from sendonce.cli.parser import NOUNS, build
from tests.cli.workbench import run

HEAVY = {
    "aiohttp",
    "asyncio",
    "asyncpg",
    "concurrent",
    "email",
    "http",
    "logging",
    "multiprocessing",
    "orjson",
    "psycopg",
    "psycopg2",
    "socket",
    "sqlalchemy",
    "sqlite3",
    "ssl",
    "subprocess",
    "uvloop",
}
IMPORTED = (
    "import io, json, sys; from contextlib import redirect_stdout; from sendonce.cli import main\n"
    "with redirect_stdout(io.StringIO()) as out: code = main(sys.argv[1:])\n"
    "print(json.dumps([code, out.getvalue(), sorted(sys.modules)]))"
)
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def parsers(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from parsers(inner, (*words, name))


EVERY = list(parsers(build(everything=True)))


def imported_for(*arguments: str) -> tuple[int, str, set[str]]:
    code, out, modules = json.loads(run(*arguments, program=("-c", IMPORTED)).out)
    return code, out, set(modules)


def test_help_imports_no_commands_and_nothing_heavy() -> None:
    code, out, modules = imported_for("--help")

    assert code == 0
    assert all(name in out for name in NOUNS)
    assert not {name.partition(".")[0] for name in modules} & HEAVY
    assert not {f"sendonce.cli.{noun.module}" for noun in NOUNS.values()} & modules


@pytest.mark.parametrize("command", NOUNS)
def test_help_of_a_command_imports_that_command_only_and_nothing_heavy(command: str) -> None:
    code, out, modules = imported_for(command, "--help")

    assert code == 0
    assert out.startswith(f"usage: sendonce {command}")
    assert not {name.partition(".")[0] for name in modules} & HEAVY
    others = {f"sendonce.cli.{noun.module}" for noun in NOUNS.values()} - {f"sendonce.cli.{NOUNS[command].module}"}
    assert not others & modules


@pytest.mark.parametrize("words", [words for words, _ in EVERY], ids=" ".join)
def test_level_has_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0

    assert capsys.readouterr().out.startswith(f"usage: sendonce {' '.join(words)}".rstrip())


@pytest.mark.parametrize(("words", "parser"), EVERY, ids=[" ".join(words) for words, _ in EVERY])
def test_reference_names_every_command_and_option(words: tuple[str, ...], parser: argparse.ArgumentParser) -> None:
    section = section_of(" ".join(words))

    for action in parser._actions:
        for option in () if action.help == argparse.SUPPRESS else action.option_strings:
            if option not in ("-h", "--help", "--database", "--version", "--wide") or not words:
                assert f"`{option}" in section or f" {option}" in section, (words, option)


def section_of(command: str) -> str:
    """The part of the reference under the heading of a command; of the whole program, all of it."""
    text = DOCS.read_text("utf-8")
    if not command:
        return text
    parts = [part for part in text.split("\n#") if part.partition("\n")[0].strip("# `") == f"sendonce {command}"]
    assert len(parts) == 1, f"docs/reference/cli.md has no section `sendonce {command}`"
    return parts[0]
