"""SQL in every text that somebody else controls: stored as it is or refused in a sentence, and the tables stay."""

import io
from pathlib import Path
from typing import Any

import pytest

from sendonce.cli import main
from sendonce.errors import SendonceError
from sendonce.outbox.outbox import Outbox
from tests.attack.entry_points import cli_entries, publish_parameters
from tests.crash.accounts import url_of
from tests.store.databases import Database, SqliteDatabase

TEXTS = {
    "a quote": "'; drop table sendonce_events; --",
    "two quotes": '"; drop table "sendonce_events',
    "a quote and a dollar": "$$; drop table sendonce_events; $$",
    "a comment": "/* -- */ or 1=1 --",
    "a backslash": "\\'; drop table sendonce_events; --",
    "placeholders": "%s %(tenant)s :tenant ? $1 {tenant} {0} %% %",
    "wildcards": "%_*?[a-z]%",
    "NUL": "a\0'; drop table sendonce_events",
    "a surrogate": "a\udcff'",
    "a cast": "1::text); delete from sendonce_events; select (1",
    "JSON": '{"a": "\\u0000"}',
    "an array": '{a,"b\\",NULL}',
    "very long": "'" * 100_000,
    "a wide quote": "\u02bc\uff07; drop table sendonce_events; --",
}
ALL_IN_ONE = "'\"; drop table sendonce_events; -- $$ /* \\' %s %(tenant)s :tenant ? $1 {tenant} %_ */"


def tables_of(database: Database) -> list[Any]:
    sql = (
        "select name, sql from sqlite_master order by name, sql"
        if isinstance(database, SqliteDatabase)
        else "select table_name, column_name from information_schema.columns"
        " where table_schema = current_schema() order by 1, 2"
    )
    return database.execute(sql)


@pytest.mark.parametrize("parameter", publish_parameters())
def test_text_that_is_published_is_stored_as_it_is_or_refused(database: Database, parameter: str) -> None:
    before = tables_of(database)
    for kind, text in TEXTS.items():
        given: dict[str, Any] = {"type": "a.b", "payload": {"a": 1}, "key": kind, "to": "null:a", parameter: text}
        if parameter == "headers":
            given["headers"] = {"X-Text": text}
        count = database.one("select count(*) from sendonce_events")
        with database.connection() as connection:
            said = _refused(connection, given)
            connection.execute("select 1")

        added = database.one("select count(*) from sendonce_events") - count
        assert (added, len(said.splitlines())) == ((0, 1) if said else (1, 0)), kind
        if not said and parameter in ("tenant", "subject", "key"):
            newest = f"select {parameter} from sendonce_events where id = (select max(id) from sendonce_events)"
            assert database.one(newest) == text

    assert tables_of(database) == before


def _refused(connection: Any, given: dict[str, Any]) -> str:
    try:
        Outbox().publish(connection, **given)
    except SendonceError as error:
        return str(error)
    return ""


ENTRIES = list(cli_entries())


def test_entry_points_are_found() -> None:
    found = {(*entry.command, entry.name) for entry in ENTRIES}

    assert found >= {
        ("publish", "--subject"),
        ("stop", "--reason"),
        ("deliveries", "list", "--tenant"),
        ("replay", "ids"),
    }
    assert len(ENTRIES) > 150
    assert {"type", "payload", "key", "to", "tenant", "subject", "headers"} == set(publish_parameters())


@pytest.mark.slow
@pytest.mark.parametrize("text", [ALL_IN_ONE, TEXTS["NUL"]], ids=["all in one", "NUL"])
def test_options_of_the_command_line_are_never_taken_for_sql(
    database: Database, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    with database.connection() as connection:
        Outbox().publish(connection, "a.b", {}, key="k", to="null:a")
    before, wrong = tables_of(database), []
    for entry in ENTRIES:
        code = main([f"--database={url_of(database)}", *entry.words(text)])
        said = capsys.readouterr().err
        if code not in (0, 1, 2) or "unexpected error" in said or "Traceback" in said:
            wrong.append((entry, code, said[:200]))

    assert wrong == []
    assert tables_of(database) == before
    assert database.one("select count(*) from sendonce_events where type = 'a.b' and key = 'k'") == 1
