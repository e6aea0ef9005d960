import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.processes import until
from tests.servers.binaries import local_binaries, packaged
from tests.servers.os_users import FOLDER
from tests.servers.postgres import EXTERNAL, Mode, Server, default_server, start
from tests.servers.runs import Run

pytestmark = pytest.mark.postgres


@pytest.fixture
def own_server() -> Iterator[Server]:
    server = start(local_binaries() or packaged(16), settings={"max_prepared_transactions": "7"})
    yield server
    server.stop()


def answer(dsn: str, question: str) -> object:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def is_listening(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.parametrize("version", [15, 16, 18])
def test_version_starts_and_answers(server_of: Callable[[int], Server], version: int) -> None:
    server = server_of(version)

    assert server.version == version
    assert str(answer(server.dsn(), "select version()")).startswith(f"PostgreSQL {version}.")


def test_server_of_one_version_is_found_again(server_of: Callable[[int], Server]) -> None:
    assert server_of(16).pid == server_of(16).pid


def test_test_gets_an_empty_database(pg_dsn: str, postgres_server: Server) -> None:
    count = "select count(*) from pg_class where relnamespace = 'public'::regnamespace"

    assert answer(pg_dsn, count) == 0
    assert answer(pg_dsn, "select current_database()") != answer(postgres_server.dsn(), "select current_database()")


def test_database_can_be_copied_and_dropped_while_in_use(postgres_server: Server) -> None:
    original = postgres_server.create_database()
    with psycopg.connect(postgres_server.dsn(original)) as connection:
        connection.execute("create table kept as select 41 as answer")

    copy = postgres_server.create_database(template=original)
    in_use = psycopg.connect(postgres_server.dsn(copy))

    assert answer(postgres_server.dsn(copy), "select answer from kept") == 41
    postgres_server.drop_database(copy)
    postgres_server.drop_database(original)
    in_use.close()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(postgres_server.dsn(copy))


def test_settings_are_taken(own_server: Server) -> None:
    assert answer(own_server.dsn(), "show max_prepared_transactions") == "7"
    assert answer(own_server.dsn(), "show fsync") == "off"


@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_commit_survives_a_restart_of_the_server(own_server: Server, mode: Mode) -> None:
    with psycopg.connect(own_server.dsn()) as connection:
        connection.execute("create table kept as select 41 as answer")
    before = own_server.pid

    own_server.restart(mode)

    assert own_server.pid != before
    assert answer(own_server.dsn(), "select answer from kept") == 41


def test_stopped_server_leaves_nothing(own_server: Server) -> None:
    own_server.stop()

    assert not is_listening(own_server.dsn())
    assert not Path(own_server.folder).exists()


def test_programs_in_a_private_folder_are_found_a_way(tmp_path: Path) -> None:
    original = packaged(16).parent.parent
    package = tmp_path / original.name
    shutil.copytree(original, package, ignore=shutil.ignore_patterns("include", "*.a"))
    shutil.copytree(original.with_name(f"{original.name}.libs"), package.with_name(f"{package.name}.libs"))
    tmp_path.chmod(0o700)

    server = start(package / "pginstall" / "bin")

    assert answer(server.dsn(), "select 1") == 1
    server.stop()


@pytest.mark.parametrize("suffix", ["", "?connect_timeout=5"])
def test_server_can_be_named(
    postgres_server: Server, pg_dsn: str, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setenv(EXTERNAL, pg_dsn + suffix)

    server = default_server()

    assert server.version == postgres_server.version
    assert answer(server.dsn(), "select current_database()") == "postgres"
    assert answer(server.dsn("template1"), "select current_database()") == "template1"
    with pytest.raises(RuntimeError, match="not ours"):
        server.halt()


def test_server_reached_through_a_socket_can_be_named(postgres_server: Server) -> None:
    server = Server(url="postgresql:///any?host=%2Fsome%2Ffolder&port=5433", version=postgres_server.version)

    assert server.dsn("other") == "postgresql:///other?host=%2Fsome%2Ffolder&port=5433"


def test_servers_of_a_killed_run_are_stopped(pytestconfig: pytest.Config) -> None:
    script = (
        "import os, signal, time; from pathlib import Path; from tests.servers import postgres, runs\n"
        f"run = runs.Run(Path.cwd()); os.environ[{FOLDER!r}] = str(run.folder)\n"
        "server = postgres.start(postgres.local_binaries() or postgres.packaged(16))\n"
        "print(server.dsn(), run.folder, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", script], cwd=pytestconfig.rootpath, capture_output=True, text=True, check=False
    )
    dsn, folder = killed.stdout.split()

    until(lambda: not is_listening(dsn) and not Path(folder).exists(), "the server and its folder to be gone")


def test_run_that_is_over_has_no_folder(pytestconfig: pytest.Config) -> None:
    run = Run(pytestconfig.rootpath)

    run.over()

    assert not run.folder.exists()
