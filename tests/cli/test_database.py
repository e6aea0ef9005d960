"""Which database: found, named, missing, broken; and its password, which is never printed."""

import json
import sqlite3
from pathlib import Path

import pytest

from sendonce.cli import main
from sendonce.cli.parser import NOUNS
from sendonce.compose import check_url, display_url
from sendonce.errors import ConfigError
from sendonce.store.migrations import available
from tests.cli.workbench import Cli, Ran, run

SECRET = "hunter2-s3cret"
MIGRATIONS = [each.name for each in available("sendonce.store.sqlite")]
NEWEST = f"schema {len(MIGRATIONS)}"
NOBODY = f"postgresql://app:{SECRET}@127.0.0.1:1/db"
READING = [
    ["status"],
    ["verify"],
    ["doctor"],
    ["events", "list"],
    ["deliveries", "list", "--json"],
    ["explain", "1"],
    ["dead-letters", "list"],
    ["dead-letters", "requeue", "1", "--reason", "x"],
    ["replay", "1", "--reason", "x"],
    ["cancel", "1", "--reason", "x"],
    ["reconcile"],
    ["doubt", "--open", "--reason", "x"],
    ["restored", "--nothing-lost", "--reason", "x"],
    ["instance"],
    ["stop", "--all"],
    ["resume", "--all"],
    ["operations", "list"],
    ["requests", "list"],
    ["inbox", "list"],
    ["evidence", "add", "--token", "t", "--outcome", "Delivered", "--source", "bank"],
    ["prune", "--reason", "x", "--yes"],
    ["erase", "--subject", "x", "--reason", "x", "--yes"],
    ["subscriptions", "list"],
    ["subscriptions", "add", "--type", "*", "--to", "null:a"],
    ["publish", "memo.saved", "--key", "k", "--to", "null:a"],
    ["worker", "--until-idle"],
]


def ids(value: list[str]) -> str:
    return " ".join(value)


@pytest.mark.parametrize("arguments", READING, ids=ids)
def test_database_file_that_is_missing_is_named_and_not_made(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    code = main(arguments)

    assert code == (3 if arguments[0] in ("verify", "doctor") else 1)
    assert (
        capsys.readouterr().err.splitlines()[-1]
        == "sendonce: there is no sendonce database at sendonce.db; run: sendonce migrate"
    )
    assert list(tmp_path.iterdir()) == []


def test_hint_names_the_database_that_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/other.db"

    assert main(["--database", url, "status"]) == 1

    assert capsys.readouterr().err.endswith(f"other.db; run: sendonce migrate --database {url}\n")


def test_database_is_an_option_anywhere_else_a_setting_else_a_file_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENDONCE_DATABASE", "sqlite:///set.db")
    for arguments in (["migrate"], ["--database", "sqlite:///before.db", "migrate"]):
        assert main(arguments) == 0
    assert main(["migrate", "--database", "sqlite:///after.db"]) == 0
    monkeypatch.setenv("SENDONCE_DATABASE", "")
    assert main(["migrate"]) == 0

    made = {path.name for path in tmp_path.glob("*.db")}

    assert made == {"set.db", "before.db", "after.db", "sendonce.db"}
    capsys.readouterr()
    for arguments in (
        ["--database", "sqlite:///before.db", "deliveries", "list", "--json"],
        ["deliveries", "--database", "sqlite:///before.db", "list", "--json"],
        ["deliveries", "list", "--json", "--database=sqlite:///before.db"],
    ):
        assert main(arguments) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == []


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "has no scheme"),
        ("sendonce.db", "has no scheme"),
        ("mysql://u:hunter2-s3cret@h/db", "does not run on 'mysql'"),
        ("postgresql+psycopg://u:hunter2-s3cret@h/db", "names a driver (postgresql+psycopg)"),
        ("sqlite://file.db", "a SQLite database is sqlite:///file"),
        ("sqlite:///", "a SQLite database is sqlite:///file"),
        ("sqlite:///a.db?mode=ro", "without options"),
        ("postgresql://u:hunter2-s3cret@h/db?foo=bar", "has an option after its ? that PostgreSQL does not know"),
        ("postgresql://u:1/a?hunter2-s3cret@h/db", "special in a password as %40 (@)"),
        ("postgresql://u:hunter2-s3cret/x@h/db", "special in a password as %40 (@)"),
    ],
)
def test_address_that_cannot_be_is_wrong_use(url: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "worker"):
        assert main([command, "--database", url]) == 2

        err = capsys.readouterr().err
        assert sentence in err
        assert SECRET not in err


def test_addresses_have_one_spelling() -> None:
    assert check_url("postgres://u@h/db") == "postgresql://u@h/db"
    assert check_url(" sqlite:///a.db ") == "sqlite:///a.db"
    with pytest.raises(ConfigError):
        check_url("postgresql:/u@h/db")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("postgresql://u:pw@h:5/db", "postgresql://u@h:5/db"),
        ("postgresql://u:p@w/x:y@h/db?password=z&sslmode=require", "postgresql://u@h/db"),
        ("postgresql:///db?host=/run", "postgresql:///db"),
    ],
)
def test_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert display_url(url) == shown


@pytest.mark.parametrize("debug", ["", "1"])
# Without a worker: that one waits for its database.
@pytest.mark.parametrize("arguments", [["migrate"], *READING[:-1]], ids=ids)
def test_password_is_never_printed_when_the_database_cannot_be_reached(
    arguments: list[str], debug: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SENDONCE_DEBUG", debug)

    code = main([*arguments, "--database", NOBODY])

    out, err = capsys.readouterr()
    assert code == (3 if arguments[0] in ("verify", "doctor") else 1)
    assert "PostgreSQL cannot answer now" in err
    assert SECRET not in out + err
    if not debug:
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://app:{SECRET}@[::1/db",
        f"postgresql://app:{SECRET}@h:port/db",
        f"postgresql://app:{SECRET}%zz@h/db",
        f"postgresql://app:x{SECRET}/@y@127.0.0.1:1/db",
        f"postgresql://127.0.0.1:1/db?password={SECRET}",
        f"postgresql://127.0.0.1:1/db?nonsense={SECRET}&password={SECRET}",
        "postgresql://app:hunter2%2Ds3cret@[::1/db",
    ],
)
def test_password_is_never_printed_when_the_address_is_broken(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SENDONCE_DEBUG", "1")
    for arguments in (["status", "--database", url], ["migrate", "--database", url], ["status", url]):
        assert main(arguments) in (1, 2)
        out, err = capsys.readouterr()
        assert SECRET not in out + err, arguments
        assert "hunter2%2D" not in out + err, arguments


def test_password_in_the_environment_is_never_printed(pg_dsn: str) -> None:
    url = pg_dsn.replace("postgres@", f"postgres:{SECRET}@")
    env = {"SENDONCE_DATABASE": url, "SENDONCE_DEBUG": "1"}
    ran: list[Ran] = [run("status", env=env), run("migrate", env=env), run("status", env=env)]

    assert [each.code for each in ran] == [1, 0, 0]
    assert "this database has no sendonce tables yet; run: sendonce migrate" in ran[0].err
    assert SECRET not in "".join(each.out + each.err for each in ran)
    assert "postgresql://postgres@127.0.0.1" in ran[2].out


def test_driver_that_is_missing_is_named_with_what_to_install() -> None:
    program = "import sys; sys.modules['psycopg'] = None; from sendonce.cli import main; sys.exit(main(sys.argv[1:]))"

    ran = run("status", "--database", "postgresql://h/db", program=("-c", program))

    assert (ran.code, ran.err) == (1, "sendonce: PostgreSQL needs: pip install 'sendonce[postgres]'\n")


def test_database_without_tables_says_what_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "empty.db").touch()

    assert main(["status", "--database", f"sqlite:///{tmp_path}/empty.db"]) == 1

    assert "no sendonce tables yet; run: sendonce migrate" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "migrate"])
def test_file_that_is_no_database_is_refused_in_one_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.db").write_text("This is not a database. " * 100)
    (tmp_path / "folder").mkdir()

    for name, sentence in (("text.db", "is not a SQLite database"), ("folder", "is a folder, not a database")):
        assert main([command, "--database", f"sqlite:///{tmp_path}/{name}"]) == 1
        err = capsys.readouterr().err
        assert sentence in err
        assert err.count("\n") == 1


def test_migrate_needs_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "--database", f"sqlite:///{tmp_path}/no/such.db"]) == 1

    assert f"there is no folder {tmp_path}/no to make the database in" in capsys.readouterr().err


def test_migrate_says_what_it_applied_and_then_that_nothing_is_left(
    sqlite_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", "--database", sqlite_url]) == 0
    first = capsys.readouterr().out
    assert main(["migrate", "--database", sqlite_url]) == 0
    second = capsys.readouterr().out

    applied = "".join(f"applied {name}\n" for name in MIGRATIONS)
    assert first == f"{applied}{sqlite_url} is now at {NEWEST}\n"
    assert second == f"already at {NEWEST}\n"


def test_migrate_can_print_a_script_that_touches_nothing_and_is_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/made.db"
    assert main(["migrate", "--sql", "--database", url]) == 0
    script = capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []

    with sqlite3.connect(tmp_path / "made.db") as connection:
        connection.executescript(script)
    connection.close()

    made = Cli(url, capsys)
    assert made("migrate").out == f"already at {NEWEST}\n"
    assert made.publish("k", "--to", "null:a")["new"]


def test_migrate_prints_the_script_of_postgres_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate", "--sql", "--database", NOBODY]) == 0

    assert "create table sendonce_deliveries" in capsys.readouterr().out


def test_grants_are_printed_without_a_database(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grants", "--sql"]) == 0

    assert "grant" in capsys.readouterr().out


def test_command_but_a_few_is_tried_without_a_file() -> None:
    tried = {arguments[0] for arguments in READING}

    needing_more = {"migrate", "grants", "new-key", "config", "receive", "demo", "completion", "consume"}
    assert set(NOUNS) - tried == needing_more
