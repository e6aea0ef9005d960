"""sendonce config, and where commands find their database."""

import tomllib
from pathlib import Path

import pytest

from sendonce.cli import main
from tests.cli.workbench import Ran, run

HIDDEN = "hunter2-4111"
FILE = f"""\
[database]
url = "postgresql://app:{HIDDEN}@db.example/shop"
[worker]
lease = "1m"
[http.shop]
url = "https://shop.example/"
bearer = {{ env = "SHOP_TOKEN" }}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SENDONCE_ALLOW_NETWORKS")


@pytest.fixture
def config(capsys: pytest.CaptureFixture[str]) -> "Command":
    return Command(capsys)


class Command:
    """The command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str, command: str = "config") -> Ran:
        self._capsys.readouterr()
        code = main([command, *arguments])
        out, err = self._capsys.readouterr()
        return Ran(code, out, err)


def test_config_shows_what_was_set_and_where(config: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sendonce.toml").write_text(FILE)
    monkeypatch.setenv("SHOP_TOKEN", HIDDEN)
    monkeypatch.setenv("SENDONCE_WORKER_POLL", "2s")

    ran = config()

    assert ran.code == 0, ran.err
    assert ran.out.splitlines() == [
        "settings file: sendonce.toml",
        "SETTING           VALUE                             FROM",
        "database.url      postgresql://app@db.example/shop  sendonce.toml line 2",
        "worker.lease      1m                                sendonce.toml line 4",
        "worker.poll       2s                                SENDONCE_WORKER_POLL",
        "http.shop.url     https://shop.example/             sendonce.toml line 6",
        "http.shop.bearer  set                               sendonce.toml line 7, from SHOP_TOKEN",
        "everything else has its default; see: sendonce config --defaults",
    ]


def test_config_without_settings_shows_the_database(config: Command) -> None:
    ran = config()

    assert "settings file: none" in ran.out
    assert "database.url  sqlite:///sendonce.db  default" in ran.out
    assert "worker.lease" not in ran.out
    assert "worker.lease            30s  " in config("--defaults").out


def test_config_is_shown_as_json(config: Command) -> None:
    Path("other.toml").write_text("[policy.https]\nmax_attempts = 3\n")

    found = config("--config", "other.toml", "--database", "sqlite:///shop.db", "--json").json

    assert found == {
        "file": "other.toml",
        "settings": [
            {"setting": "database.url", "value": "sqlite:///shop.db", "from": "--database"},
            {"setting": "policy.https.max_attempts", "value": 3, "from": "other.toml line 2"},
        ],
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[worker]\nleese = 1\n", "sendonce.toml: there is no key 'leese' in [worker]; do you mean lease?"),
        ("[policy.sms]\njitter = 0\n", "[policy.sms]: no channel here sends to sms:; there are: http, https, null"),
        ('[worker]\napp = "nowhere:x"\n', "the app nowhere:x cannot be used: No module named 'nowhere'"),
        ("[worker]\nnotify = true\n", "SQLite cannot announce new work; leave --notify out, the worker polls"),
        ('[alerts]\nmail = "a@example.com"\n', "[alerts] mail: this worker has no channel for mailto:; describe one"),
        ('[policy]\ntimeout = "40s"\n', "a send may take 40 s but the lease is only 30 s; make the lease longer"),
    ],
)
def test_check_says_what_would_keep_a_worker_from_starting(config: Command, text: str, sentence: str) -> None:
    assert config("--check").out == "the settings are in order\n"
    Path("sendonce.toml").write_text(text)

    ran = config("--check")
    worker = config("--until-idle", "--database", "sqlite:///nowhere.db", command="worker")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"sendonce: {sentence}")
    assert worker.code != 0
    assert worker.err.startswith(("sendonce: there is no sendonce database", f"sendonce: {sentence}"))


def test_check_says_what_would_keep_consumers_from_starting(config: Command) -> None:
    Path("sendonce.toml").write_text('[consume]\napp = "nowhere:x"\n')

    ran = config("--check")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "sendonce: the app nowhere:x cannot be used: No module named 'nowhere'\n"


def test_example_is_a_file_that_changes_nothing(config: Command) -> None:
    example = config("--example").out
    Path("sendonce.toml").write_text(example)

    assert not any(tomllib.loads(example).values())
    assert config("--check").out == "the settings are in order\n"
    assert [each["setting"] for each in config("--json").json["settings"]] == ["database.url"]


def test_command_finds_the_database_in_the_same_way(config: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("sendonce.toml").write_text('[database]\nurl = "sqlite:///file.db"\n')
    assert "sqlite:///file.db is now at schema " in config(command="migrate").out

    assert config("memo.saved", "--key", "1", "--to", "null:a", command="publish").code == 0
    assert config("--until-idle", command="worker").code == 0
    assert config(command="reconcile").code == 0
    assert config("list", "--json", command="deliveries").rows[0]["status"] == "Completed"

    monkeypatch.setenv("SENDONCE_DATABASE", "sqlite:///variable.db")
    assert "variable.db" in config(command="migrate").out
    assert "option.db" in config("--database", "sqlite:///option.db", command="migrate").out


def test_mistake_in_the_file_keeps_nobody_from_a_database_that_is_named(config: Command) -> None:
    Path("sendonce.toml").write_text("[nonsense]\n")

    assert config("--database", "sqlite:///a.db", command="migrate").code == 0
    assert config(command="migrate").err == (
        "sendonce: sendonce.toml: there is no table [nonsense]; " + config(command="status").err.partition("; ")[2]
    )


def test_mistyped_variable_is_not_passed_over(config: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENDONCE_DATABSE", "sqlite:///a.db")

    ran = config(command="migrate")

    assert (ran.code, ran.err) == (
        2,
        "sendonce: there is no variable SENDONCE_DATABSE; do you mean SENDONCE_DATABASE?\n",
    )
    assert not Path("sendonce.db").exists()


def test_options_of_a_worker_go_before_the_file(config: Command) -> None:
    Path("sendonce.toml").write_text('[worker]\nlease = "1ms"\nnotify = true\n[policy]\nmax_attempts = 0\n')
    config("--database", "sqlite:///sendonce.db", command="migrate")

    assert config("--until-idle", command="worker").err.startswith("sendonce: sendonce.toml: [worker] lease must be")
    options = ["--until-idle", "--lease", "30s", "--no-notify", "--policy", '{"max_attempts": 1}']
    assert config(*options, command="worker").code == 0


def test_password_in_the_file_is_not_in_what_is_said(config: Command, tmp_path: Path) -> None:
    Path("sendonce.toml").write_text(f'[database]\nurl = "postgresql://app:{HIDDEN}@127.0.0.1:1/x"\n')
    script = f"from sendonce.cli.output import scrub; print(scrub('it is {HIDDEN}', []))"

    assert run(cwd=tmp_path, program=("-c", script)).out == "it is ***\n"
    assert HIDDEN not in config(command="status").err


def test_config_shows_one_thing_at_a_time(config: Command) -> None:
    assert config("--check", "--example").code == 2
