"""`sendonce receive` as a command: its options, what it prints, and how it ends."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sendonce.signing import key_of, new_secret, sign
from tests.cli.workbench import run
from tests.processes import until
from tests.provider import Provider
from tests.receive.sending import CUT, REFUSED, Answered, ask, found, post, statuses


class Printing:
    """The command with its standard output and its standard error in files."""

    def __init__(self, folder: Path, options: tuple[str, ...]) -> None:
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            command = [sys.executable, "-m", "sendonce", "receive", "--port", "0", *options]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    @property
    def out(self) -> str:
        return self._out.read_text("utf-8")

    @property
    def err(self) -> str:
        return self._err.read_text("utf-8")

    @property
    def url(self) -> str:
        until(lambda: "\n" in self.err, "its first line")
        return str(re.findall(r"http://[^\s,]+", self.err)[0])


@contextmanager
def printing(folder: Path, *options: str) -> Iterator[Printing]:
    made = Printing(folder, options)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


def test_receiver_prints_a_line_for_everything_that_arrives(tmp_path: Path) -> None:
    with printing(tmp_path) as receive:
        post(f"{receive.url}/orders", "t1", b'{"secret": 1}')
        post(f"{receive.url}/orders", "t1")
        for token in ("t1", "t2"):
            found(f"{receive.url}/deliveries/{{token}}", token)
        until(lambda: receive.out.count("\n") == 4, "all lines")

    first, second, *asked = receive.out.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  POST /orders  token t1  attempt 1  accepted", first)
    assert second.endswith("accepted, 2 times by now")
    assert [line[10:] for line in asked] == ["GET /deliveries/t1  found", "GET /deliveries/t2  not found"]


def test_receiver_shows_bodies_with_verbose_and_no_control_characters(tmp_path: Path) -> None:
    with printing(tmp_path, "--verbose") as receive:
        post(f"{receive.url}/a%1B%C2%9B%E2%80%AE%0Aforged", "t1", '{"a": 1}\n\x1b[2J\x9b\u202e\u2066'.encode())
        until(lambda: "[2J" in receive.out, "the body")

    assert '\n    {"a": 1}\n' in receive.out
    assert not set("\x1b\x9b\u202e\u2066") & set(receive.out)
    assert "\nforged" not in receive.out


def test_receiver_prints_one_json_document_for_each(tmp_path: Path) -> None:
    with printing(tmp_path, "--json") as receive:
        post(f"{receive.url}/orders", "t1")
        until(lambda: "\n" in receive.out, "the line")

    document = json.loads(receive.out)
    assert (document["path"], document["token"], document["result"]) == ("/orders", "t1", "accepted")
    assert "body" not in document


def test_receiver_goes_on_when_nobody_reads_its_output() -> None:
    command = [sys.executable, "-m", "sendonce", "receive", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdout.close()
        url = process.stderr.readline().split()[-1]
        assert statuses(url, "t1", "t2") == [200, 200]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_receiver_sums_up_in_one_line_at_its_end(tmp_path: Path, number: signal.Signals) -> None:
    with printing(tmp_path, "--quiet") as receive:
        statuses(receive.url, "t1", "t1", "t2")
        receive.process.send_signal(number)
        assert receive.process.wait(20) == 0

    assert receive.out == ""
    assert receive.err.splitlines()[1:] == ["3 arrived, 3 accepted; 1 of the messages more than once"]


def test_options_set_the_same_behaviour() -> None:
    options = [
        "--fail",
        "503:each:1",
        "--retry-after",
        "3s",
        "--deduplicate",
        "--no-ids",
        "--drop-after-accept",
        "first:1",
    ]
    with Provider(*options) as provider:
        assert statuses(provider.url, "t1", "t1", "t1") == [503, CUT, 200]
        assert provider.received() == {"t1": 1}
    with Provider(
        "--closed", "--forget", "--look-up-fail", "500:first:1", "--drop", "first:1", "--keep", "1"
    ) as provider:
        assert statuses(provider.url, "t1") == [REFUSED]
        provider.control(closed=False)
        assert statuses(provider.url, "t1", "t2") == [CUT, 200]
        assert [found(provider.look_up, "t2").status for _ in range(2)] == [500, 404]
        assert [arrival["token"] for arrival in provider.last()] == ["t2"]


def test_options_for_time() -> None:
    with Provider("--slow", "200ms", "--late", "200ms", "--look-up-slow", "200ms", "--twice", "0.5") as provider:
        begun = time.monotonic()
        statuses(provider.url, "t1")
        sent = time.monotonic()
        found(provider.look_up, "t1")

        assert sent - begun >= 0.4
        assert time.monotonic() - sent >= 0.2


def _signed(url: str, secret: str, body: bytes, *, at: float | None = None, **more: str) -> int:
    stamp = int(time.time() if at is None else at)
    headers = {
        **{name.replace("_", "-"): value for name, value in more.items()},
        "webhook-id": "t1",
        "webhook-timestamp": str(stamp),
        "webhook-signature": sign([key_of(secret)], "t1", stamp, b"{}"),
    }
    answer = ask("POST", url, body, headers=headers)
    assert isinstance(answer, Answered)
    return answer.status


def test_receiver_keeps_nothing_that_is_unsigned(tmp_path: Path) -> None:
    secret = new_secret()
    file = tmp_path / "secrets"
    file.write_text(secret)
    with Provider("--secret-file", str(file), "--deduplicate") as provider:
        forged = _signed(provider.url, new_secret(), b"{}", idempotency_key="victim", sendonce_attempt="9")
        refused = (provider.messages(), provider.last())
        # An unsigned header neither makes two of one message, nor hides another one behind a token that is known.
        signed = [_signed(provider.url, secret, b"{}", idempotency_key=token) for token in ("one", "another")]
        kept, known = provider.received(), found(provider.look_up, "t1").status
        unknown = found(provider.look_up, "one").status

    assert (forged, refused) == (401, ({}, []))
    assert (signed, kept, known, unknown) == ([200, 200], {"t1": 1}, 200, 404)


def test_receiver_verifies_signatures_by_any_of_its_secrets(tmp_path: Path) -> None:
    old, new = new_secret(), new_secret()
    file = tmp_path / "secrets"
    file.write_text(f"{new}\n{old}\n")
    with printing(tmp_path, "--secret-file", str(file)) as receive:
        good = [_signed(receive.url, secret, b"{}") for secret in (old, new)]
        bad = [
            _signed(receive.url, new_secret(), b"{}"),
            _signed(receive.url, new, b'{"changed": 1}'),
            _signed(receive.url, new, b"{}", at=time.time() - 3600),
            *statuses(receive.url, "unsigned"),
        ]
        until(lambda: receive.out.count("\n") == 6, "six lines")

    assert good == [200, 200]
    assert bad == [401, 401, 401, 401]
    assert receive.out.count("signature verified") == 2
    assert receive.out.count("signature wrong  not accepted: bad signature") == 4
    assert old not in receive.out + receive.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--port", "99999"], "is not a port"),
        (["--fail", "200"], "fail cannot be '200': say a status from 300 to 599"),
        (["--slow", "soon"], "slow cannot be 'soon': say how long"),
        (["--secret-file", "nowhere"], "--secret-file nowhere cannot be read"),
        (["--secret-file", "empty"], "--secret-file empty is empty"),
        (["--secret-file", "bad"], "a signing secret is whsec_"),
    ],
)
def test_command_used_wrongly_answers_with_one_sentence(tmp_path: Path, options: list[str], sentence: str) -> None:
    tmp_path.joinpath("empty").touch()
    tmp_path.joinpath("bad").write_text("hunter2")

    ended = run("receive", "--port", "0", *options, cwd=tmp_path)

    assert ended.code == 2
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert "hunter2" not in ended.err


def test_port_that_is_taken_is_said_to_be() -> None:
    with Provider() as provider:
        port = provider.url.rpartition(":")[2]
        ended = run("receive", "--port", port)

    assert ended.code == 1
    assert ended.err == f"sendonce: port {port} of 127.0.0.1 cannot be had; name another port, or 0 for a free one\n"
