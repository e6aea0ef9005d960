"""Marked secrets everywhere, every error provoked: no mark in what is printed, logged, stored, measured or listed."""

import argparse
import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sendonce.cli import main
from sendonce.cli.parser import build
from sendonce.config.catalogue import SETTINGS
from sendonce.signing import new_secret
from tests.channels.troubles import free_port
from tests.given import given_due_delivery, given_event
from tests.processes import sendonce, until
from tests.store.databases import SqliteDatabase

MARK = "s3cretmark"
SECRET_SETTINGS = [f"{each.table}.{each.key}" for each in SETTINGS if each.kind.is_secret]
SPELLINGS = {
    "a text": f'"{MARK}"',
    "an address": f'"postgresql://app:{MARK}@127.0.0.1:1/shop"',
    "an address with a strange port": f'"smtp://app:{MARK}@127.0.0.1:{MARK}"',
    "a list": f'["{MARK}", 7]',
    "a table": f'{{ X-Token = "{MARK}\\n{MARK}" }}',
    "a number": f'7 # {MARK}',
    "a broken line": f'"{MARK}',
    "a file that is not there": '{ file = "nowhere.pem" }',
}  # fmt: skip
ADDRESSES = [
    "postgresql://app:{}@127.0.0.1:1/x", "postgresql://app:{}/pw@127.0.0.1:1/x", "postgresql://app:{}%zz@127.0.0.1:1/x",
    "postgresql://app:{} pw@127.0.0.1:1/x", "postgresql://127.0.0.1:1/x?password={}", "postgres:app:{}@127.0.0.1/x",
    "mysql://app:{}@127.0.0.1/x", "host=127.0.0.1 port=1 password={}", "postgresql://app:{}@127.0.0.1:port/x",
]  # fmt: skip

TELLING = (["config"], ["config", "--json", "--defaults"], ["config", "--check"], ["worker", "--until-idle"])
SHOWING = (
    "explain 1", "explain 2 --json", "dead-letters list --json", "status --json", "deliveries list --json",
    "subscriptions list --json", "operations list",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SENDONCE_DEBUG", "1")


@pytest.mark.parametrize("setting", SECRET_SETTINGS)
def test_secret_settings_are_never_shown(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    table, _, key = setting.partition(".")
    name = f"{table}.shop" if table in ("http", "apprise") else table
    said = ""
    for value in SPELLINGS.values():
        Path("sendonce.toml").write_text(f"[{name}]\n{key} = {value}\n")
        for words in (
            ["config"],
            ["config", "--json", "--defaults"],
            ["config", "--check"],
            ["worker", "--until-idle"],
        ):
            main([*words, "--config=sendonce.toml", *([] if table == "database" else ["--database=sqlite:///x.db"])])
            said += "".join(capsys.readouterr())

    assert said
    assert MARK not in said


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("way", ["option", "variable", "file"])
def test_database_password_is_never_shown(
    address: str, way: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, options = address.format(MARK), []
    if way == "option":
        options = [f"--database={database}"]
    elif way == "variable":
        monkeypatch.setenv("SENDONCE_DATABASE", database)
    else:
        Path("sendonce.toml").write_text(f"[database]\nurl = {json.dumps(database)}\n")

    for words in (["status"], ["config"], ["publish", "a.b", "--key=k", "--to=null:a"]):
        main([*words, *options])

    assert MARK not in "".join(capsys.readouterr())


def test_options_take_no_secret_as_a_word() -> None:
    """What stands in a command line stands in the process list. --header says where a secret one belongs."""
    wanting = {
        option: action
        for action in _actions(build(everything=True))
        for option in action.option_strings
        if re.search("secret|bearer|password|token|certificate|private", option) and action.nargs != 0
    }

    assert {option for option, action in wanting.items() if action.metavar != "FILE"} == {
        "--token"
    }  # every list shows it
    assert {"--secret-file", "--bearer-file", "--client-certificate"} <= wanting.keys()
    [header] = {action.help for action in _actions(build(everything=True)) if "--header" in action.option_strings}
    assert "--header-file" in (header or "")


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


class Echo(BaseHTTPRequestHandler):
    """Refuses with everything it was told in confidence."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        said = str(self.headers).encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def echo() -> Iterator[str]:
    """Where it listens."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(50)


@pytest.mark.slow
def test_worker_in_every_trouble_tells_no_secret(
    sqlite: SqliteDatabase, echo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listen, signing = f"127.0.0.1:{free_port()}", new_secret()
    Path("bearer").write_text(f"{MARK}-bearer")
    Path("signing").write_text(signing)
    Path("headers").write_text(f"X-Secret: {MARK}-header")
    Path("sendonce.toml").write_text(
        f'[smtp]\nurl = "smtp://app:{MARK}-smtp@127.0.0.1:{free_port()}"\n[mail]\nsender = "a@b.example"\n'
        f'[http.shop]\nurl = "{echo}/shop/"\nbearer = "{MARK}-profile"\n'
    )
    files = ["--bearer-file=bearer", "--secret-file=signing", "--header-file=headers"]
    assert main(["subscriptions", "add", "--type=a.b", f"--to={echo}/sub", *files, f"--database={sqlite.url}"]) == 0
    payload = {"a": f"{MARK}-payload"}
    for to in (f"{echo}/shop/1", "mailto:ada@example.com", "nobody:serves", "https://127.0.0.1:1/"):
        given_due_delivery(sqlite, to=to, type="c.d", payload=payload)
    given_event(sqlite, type="a.b", payload=payload)
    words = ["worker", "--config", f"{tmp_path}/sendonce.toml", "--verbose", "--metrics", listen]
    with sendonce(*words, database=sqlite.url, environment={"SENDONCE_DEBUG": "1"}) as process:
        tried = "select count(distinct delivery_id) from sendonce_attempts where outcome is not null"
        until(lambda: sqlite.one(tried) >= 4, "an attempt of each that somebody serves")
        listed = Path(f"/proc/{process.pid}/cmdline").read_text()
        page = _read(f"http://{listen}/metrics")
        said = process.said

    capsys.readouterr()
    for line in SHOWING:
        assert main([*line.split(), f"--database={sqlite.url}"]) == 0
    printed = "".join(capsys.readouterr())
    stored = str([sqlite.rows(table) for table in ("attempts", "dead_letters", "deliveries", "operations", "findings")])
    places = {"list": listed, "page": page, "log": said, "printed": printed, "stored": stored}
    assert all(places.values())
    found = {place for place, text in places.items() if MARK in text or signing.removeprefix("whsec_") in text}
    assert found == set()
    assert stored.count("•••") >= 4


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=50) as answer:  # noqa: S310 — our own address
        return str(answer.read().decode())
