"""sendonce doctor, as a person uses it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from sendonce.store.migrations import available
from tests.cli.workbench import Cli


def test_doctor_says_line_by_line_what_is_well(lite: Cli) -> None:
    ran = lite("doctor")

    lines = ran.out.splitlines()
    assert ran.code == 0
    assert lines[0] == lite.database
    assert f"  ok       schema: the schema is {len(available('sendonce.store.sqlite'))}, the newest" in lines
    assert all(line.startswith("  ok ") for line in lines[1:])


def test_doctor_says_what_is_wrong_and_what_to_do(lite: Cli) -> None:
    with closing(sqlite3.connect(lite.database.removeprefix("sqlite:///"))) as connection:
        connection.execute("drop index sendonce_deliveries_due")

    ran = lite("doctor")
    document = json.loads(lite("doctor", "--json").out)["rows"]

    assert ran.code == 1
    assert (
        "  problem  rules: index sendonce_deliveries_due on sendonce_deliveries is missing\n"
        "           to do: run its `create index sendonce_deliveries_due` as `sendonce migrate --sql` has it;"
        " then run: sendonce verify\n"
    ) in ran.out
    assert [each["name"] for each in document if each["level"] == "problem"] == ["rules"]


def test_lease_is_that_of_the_settings_file(lite: Cli, tmp_path: Path) -> None:
    settings = tmp_path / "own.toml"
    settings.write_text('[worker]\nlease = "tomorrow"\n')

    ran = lite("doctor", "--config", str(settings))

    assert ran.code == 2
    assert "lease" in ran.err
