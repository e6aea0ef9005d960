import pytest

from sendonce.cli import main
from tests.cli.workbench import Cli


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SENDONCE_DATABASE", "SENDONCE_OPERATOR", "SENDONCE_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def sqlite_url(tmp_path: object) -> str:
    """The address of a SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path}/sendonce.db"


@pytest.fixture(params=["sqlite", "postgres"])
def cli(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line on a new database with its tables, on each kind of database."""
    fixture = {"sqlite": "sqlite_url", "postgres": "pg_dsn"}[request.param]
    return _migrated(request.getfixturevalue(fixture), capsys)


@pytest.fixture
def lite(sqlite_url: str, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The same on SQLite only."""
    return _migrated(sqlite_url, capsys)


def _migrated(url: str, capsys: pytest.CaptureFixture[str]) -> Cli:
    assert main(["migrate", "--database", url]) == 0
    capsys.readouterr()
    return Cli(url, capsys)
