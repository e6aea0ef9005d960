"""Programs from Debian are found, else unpacked without root, else asked for in one sentence."""

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.servers import debian
from tests.servers.os_users import server_account


@pytest.fixture
def anybodys() -> Iterator[Path]:
    """A folder that the user that servers run as can work in: pytest's own are ours alone, whoever runs meanwhile."""
    with TemporaryDirectory(prefix="sendonce-") as name:
        yield Path(name)


def unpack_as_a_server(cache: Path, answers: "SimpleQueue[tuple[Path, str]]") -> None:
    if account := server_account():
        os.setgroups([])
        os.setgid(account.gid)
        os.setuid(account.uid)
    found = debian.unpacked("pgbouncer", cache)
    answers.put((found.path, found.run("--version").stdout))


@pytest.mark.parametrize(("name", "says"), [("promtool", "promtool, version"), ("pgbouncer", "PgBouncer ")])
def test_program_from_debian_runs(name: str, says: str) -> None:
    answer = debian.program(name).run("--version")

    assert answer.returncode == 0, answer.stderr
    assert says in answer.stdout + answer.stderr


def test_program_that_was_unpacked_is_found_again() -> None:
    first = debian.program("pgbouncer")

    assert debian.program("pgbouncer") == first


def test_program_on_the_machine_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "promtool"
    own.write_text("#!/bin/sh\necho ours\n")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    found = debian.program("promtool")

    assert (found.path, found.root) == (own, None)
    assert found.run().stdout == "ours\n"


@pytest.mark.more
def test_program_is_unpacked_without_root_and_with_no_lists(anybodys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a user with no rights, whose machine never ran apt-get update, two at once: whole, and once."""
    cache, lists = anybodys / "cache", anybodys / "no-lists"
    for folder in (cache, lists / "partial"):
        folder.mkdir(parents=True)
    settings = anybodys / "apt.conf"
    settings.write_text(f'Dir::State::lists "{lists}";\nDir::Cache "{anybodys}";\n')
    monkeypatch.setenv("APT_CONFIG", str(settings))
    if account := server_account():
        account.owns(anybodys)
    processes = multiprocessing.get_context("fork")  # another user need not be able to read our Python
    answers = processes.SimpleQueue()

    both = [processes.Process(target=unpack_as_a_server, args=(cache, answers)) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()

    assert [each.exitcode for each in both] == [0, 0]
    said = [answers.get() for _ in both]
    assert said[0] == said[1]
    assert said[0][0].is_relative_to(cache)
    assert said[0][1].startswith("PgBouncer ")
    assert not list(cache.glob("*/pgbouncer-*")), "what it was made in is gone"


def test_program_that_cannot_be_had_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(LookupError) as error:
        debian.unpacked("promtool", tmp_path / "cache")

    assert str(error.value).startswith("This test needs promtool: install it (apt-get install prometheus), for ")
    assert str(error.value).count("\n") == 0
