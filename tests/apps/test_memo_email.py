"""The memo application, started as its README says."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from apps.memo_email import memos
from apps.memo_email.api import SETTINGS, build
from sendonce.config.channels import channels_of
from sendonce.config.load import load
from sendonce.contrib.sqlalchemy import async_engine
from tests.apps.service import Service, running
from tests.contrib.test_fastapi import ask
from tests.processes import ROOT, until

pytestmark = pytest.mark.slow

README = (ROOT / "apps/memo_email/README.md").read_text()
JSON = {
    "memo_number_prefix": "HR",
    "department_code": "FIN",
    "title": "Budget",
    "recipients": ["ada@example.com"],
    "email_body": "It is here.",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """On SQLite with a mailbox of its own, as it starts without any settings."""
    with running("memo_email", tmp_path_factory.mktemp("memos")) as service:
        yield service


def commands(readme: str) -> list[str]:
    """What the README tells people to type, but for the start and for what is in earnest."""
    typed: list[str] = re.findall(r"^\$ (.*)$", readme.partition("## In earnest")[0], re.MULTILINE)
    assert typed[0] == "make memos"
    return typed[1:]


def test_readmes_commands_work_in_their_order(tmp_path: Path) -> None:
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    said: list[str] = []

    def type_in(line: str) -> str:
        """Its answer. MAIL=$(…) is kept for the lines after it."""
        name, _, value = line.partition("=") if line.startswith("MAIL=") else ("", "", "")
        ran = subprocess.run(
            ["bash", "-c", f"echo {value}" if name else line],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=200,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        if name:
            environment[name] = ran.stdout.strip()
        said.append(ran.stdout.strip())
        return said[-1]

    with running("memo_email", tmp_path) as service:
        typed = [line.replace("localhost:8000", service.url) for line in commands(README)]
        for line in typed:
            until(lambda line=line: type_in(line) != "[]", f"an answer to: {line}")  # type: ignore[misc]
        until(lambda: '"status":"SENT"' in type_in(typed[-2]), "the corrected mail to be sent")

    assert not [each for each in said if each.startswith('{"error"')], said
    assert '"recipient":"nora@example.com"' in said[-1]
    assert '"history":[{' in said[-1]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"title": ""}, "title"),
        ({"title": "two\nlines"}, "title"),
        ({"title": "x" * 501}, "title"),
        ({"memo_number_prefix": " "}, "memo_number_prefix"),
        ({"recipients": []}, "recipients"),
        ({"recipients": ["no address"]}, "recipients.0"),
        ({"recipients": ["ada@-"]}, "e-mail address"),
        ({"recipients": ["ada@example.com"] * 101}, "recipients"),
        ({"email_body": "\0"}, "email_body"),
        ({"chat_room": "two rooms"}, "chat_room"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_memo_that_is_not_right_is_refused_with_a_sentence(
    service: Service, change: dict[str, object], named: str
) -> None:
    answer = service.post("/memos", {**JSON, **change, "department_code": "NONE"})

    assert answer.status == 422
    assert named in answer.body["error"]


def test_missing_memo_is_answered_with_404(service: Service) -> None:
    for path in ("/memos/", "/mails/"):
        answer = service.get(f"{path}{uuid4()}")
        assert (answer.status, answer.body["error"][:11]) == (404, "there is no")
    assert service.post(f"/mails/{uuid4()}/replay", {"operator": "ada", "reason": "x"}).status == 404
    assert service.get("/memos?prefix=NONE").body == []
    assert service.get("/mails?status=LOST").status == 422


@pytest.mark.parametrize("path", ["/memos/{}", "/mails/{}"])
def test_database_outage_is_answered_with_503(path: str) -> None:
    app = build("postgresql://memos@127.0.0.1:1/memos")
    app.state.engine = async_engine("postgresql://memos@127.0.0.1:1/memos")

    answer = ask(app, b"", method="GET", path=path.format(uuid4()))

    assert (answer.status, answer.headers["retry-after"]) == (503, "2")


def test_memo_that_is_written_but_cannot_be_shown_is_not_to_be_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def written(*_: object) -> tuple[UUID, bool]:
        return uuid4(), True

    app = build("postgresql://memos@127.0.0.1:1/memos")
    app.state.engine = async_engine("postgresql://memos@127.0.0.1:1/memos")
    monkeypatch.setattr(memos, "create", written)

    answer = ask(app, json.dumps(JSON).encode(), path="/memos")

    assert (answer.status, "retry-after" in answer.headers) == (503, False)


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_application_starts_with_the_commands_of_its_readme() -> None:
    earnest = README.partition("## In earnest")[2]
    exported = re.findall(r"^\$ export (.*)$", earnest, re.MULTILINE)
    environment = dict(word.split("=", 1) for line in exported for word in shlex.split(line))

    channels = channels_of(load(SETTINGS, environment))

    assert {"mailto", "chat"} <= set(channels.settings())


def test_page_of_memos_goes_on_where_the_last_one_ended(service: Service) -> None:
    for _ in range(3):
        service.post("/memos", {**JSON, "memo_number_prefix": "PAGE"})

    first = service.get("/memos?prefix=PAGE&limit=2").body
    second = service.get(f"/memos?prefix=PAGE&limit=2&below={first[-1]['memo_number_sequence']}").body

    assert [each["memo_number"] for each in first + second] == ["PAGE-3", "PAGE-2", "PAGE-1"]


@pytest.mark.more
@pytest.mark.timeout(180)
def test_api_never_fails_on_generated_requests(service: Service) -> None:
    answer = service.fuzz(examples=8)

    assert answer.returncode == 0, answer.stdout[-5000:]
