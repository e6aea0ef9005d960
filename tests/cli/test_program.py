"""Exit codes, and one sentence for whatever goes wrong."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sendonce import __version__
from sendonce.cli import database, main
from tests.cli.workbench import LONGEST_RUN, Cli, clean_environment, run

DELIVERY = "0123456789abcdef" * 50


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say what to do: sendonce COMMAND"),
        (["deliverys"], "do you mean deliveries?"),
        (["zzz"], "commands are: migrate, grants, publish"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["--data", "x", "status"], "there is no command 'x'"),
        (["--database"], "expected one argument"),
        (["deliveries"], "required: list|show"),
        (["deliveries", "burn"], "choose from 'list', 'show'"),
        (["deliveries", "list", "--status", "done"], "pending, in-progress, pending-retry, completed, dead-lettered"),
        (["deliveries", "list", "--since", "yesterday"], "is not a time; write 30m, 2h or 3d"),
        (["deliveries", "list", "--since", "99999999999999d"], "is not a time"),
        (["deliveries", "list", "--since", "0001-01-01T00:00:00+14:00"], "is not a time"),
        (["deliveries", "list", "--limit", "0"], "between 1 and 10000"),
        (["deliveries", "list", "--limit", "10001"], "between 1 and 10000"),
        (["deliveries", "list", "--limit", "ten"], "between 1 and 10000"),
        (["deliveries", "list", "--type", "not a type"], "an event type is"),
        (["deliveries", "list", "--destination", "nowhere"], "has no channel"),
        (["deliveries", "list", "--tenant", "t" * 201], "at most 200 bytes"),
        (["deliveries", "show"], "required: ID"),
        (["deliveries", "show", "0"], "ids are whole numbers"),
        (["deliveries", "show", "-1"], "ids are whole numbers"),
        (["deliveries", "show", "1.5"], "ids are whole numbers"),
        (["deliveries", "show", "9" * 30], "ids are whole numbers"),
        (["deliveries", "show", "²"], "ids are whole numbers"),
        (
            ["dead-letters", "list", "--reason", "refused"],
            "there is no option --reason; it is called --given-up-as now",
        ),
        (
            ["dead-letters", "list", "--given-up-as", "bored"],
            "refused, exhausted, expired, in_doubt, cancelled, system",
        ),
        (["dead-letters", "requeue", "1"], "required: --reason"),
        (["dead-letters", "requeue", "--reason", "x"], "say which ones: ids, or a filter"),
        (["dead-letters", "discard", "1", "--reason", "  "], "say why"),
        (["replay", "1"], "required: --reason"),
        (["cancel", "1", "--reason", "x" * 501], "say why, in 1 to 500 characters"),
        (["cancel", "1", "--reason", "x", "--operator", ""], "say who is acting"),
        (["stop"], "one of the arguments --all --channel --destination --tenant is required"),
        (["stop", "--all", "--tenant", "a"], "not allowed with"),
        (["stop", "--channel", "not a channel"], "a channel is the scheme of a destination"),
        (["stop", "--destination", "nowhere"], "has no channel"),
        (["resume", "--channel", ""], "a channel is the scheme of a destination"),
        (["grants"], "sendonce grants --sql"),
        (["publish", "memo.saved"], "required: --key"),
        (["publish", "not a type", "--key", "k"], "an event type is"),
        (["publish", "memo.saved", "--key", "k", "--to", "nowhere"], "has no channel"),
        (["publish", "memo.saved", "--key", "k", "--to", "subscription:1"], "name a URI instead"),
        (["publish", "memo.saved", "--key", "k", "--payload", "{'a'}"], "is not JSON (line 1, column 2)"),
        (["publish", "memo.saved", "--key", "k", "--payload", "[" * 100_000], "is nested too deeply"),
        (["publish", "memo.saved", "--key", "k", "--payload", "1", "--payload-file", "x"], "not allowed with"),
        (["publish", "memo.saved", "--key", "k", "--payload-file", "no/such"], "No such file or directory"),
        (["publish", "memo.saved", "--key", "k", "--version", "-1"], "versions are whole numbers"),
        (["publish", "memo.saved", "--key", "k", "--if-unsure", "pray"], "choose from 'resend', 'hold'"),
        (["publish", "memo.saved", "--key", "k", "--deliver-at", "soon"], "is not a time"),
        (["subscriptions", "add", "--type", "a"], "required: --to"),
        (["subscriptions", "add", "--to", "null:a"], "required: --type"),
        (["subscriptions", "add", "--type", "a b", "--to", "null:a"], "a subscription listens to"),
        (["subscriptions", "add", "--type", "a", "--to", "nowhere"], "has no channel"),
        (["subscriptions", "add", "--type", "a", "--to", "null:a", "--policy", "3"], "must be a JSON object"),
        (
            ["subscriptions", "add", "--type", "a", "--to", "null:a", "--policy", '{"x":1}'],
            "unknown policy setting 'x'",
        ),
        (["subscriptions", "pause", "x"], "ids are whole numbers"),
        (["worker", "--listen", "127.0.0.1:0"], "there is no option --listen; it is called --metrics now"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_usage_that_is_wrong_is_one_sentence_and_exit_code_2(
    lite: Cli, arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SENDONCE_DATABASE", lite.database)

    code = main(arguments)

    out, err = lite.capsys.readouterr()
    assert code == 2
    assert out == ""
    assert sentence in err
    assert err.startswith("sendonce: ")
    assert err.count("\n") == 1
    assert lite("events", "list", "--json").rows == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["events", "show", "7"], "there is no event 7"),
        (["deliveries", "show", "7"], "there is no delivery 7"),
        (["dead-letters", "show", "7"], "there is no dead letter 7"),
        (["dead-letters", "requeue", "7", "--reason", "x"], "there is no dead letter 7"),
        (["dead-letters", "discard", "7", "--reason", "x"], "there is no dead letter 7"),
        (["replay", "7", "--reason", "x"], "there is no delivery 7"),
        (["cancel", "7", "--reason", "x"], "there is no delivery 7"),
        (["resume", "--all"], "--all is not stopped; stopped are: none"),
        (["subscriptions", "pause", "7"], "there is no subscription 7"),
        (["subscriptions", "resume", "7"], "there is no subscription 7"),
        (["subscriptions", "remove", "7"], "there is no subscription 7"),
        (["explain", "7"], "nothing has the id, key or token '7'"),
        (["explain", "event:7"], "nothing has the id, key or token 'event:7'"),
        (["explain", "9" * 40], "nothing has the id, key or token"),
        (["explain", "a" * 40], "nothing has the id, key or token"),
        (["explain", "no such key"], "nothing has the id, key or token 'no such key'"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_row_that_is_missing_is_one_sentence_and_exit_code_1(cli: Cli, arguments: list[str], sentence: str) -> None:
    ran = cli(*arguments)

    assert ran.code == 1
    assert ran.out == ""
    assert sentence in ran.err
    assert ran.err.startswith("sendonce: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (["deliveries", "show", "9"], 1, "not_found"),
        (["dead-letters", "requeue", "9", "--reason", "x"], 1, "not_found"),
        (["explain", "nothing-like-it"], 1, "not_found"),
        (["resume", "--all"], 1, "not_found"),
        (["dead-letters", "list", "--limit", "0"], 2, "wrong_use"),
        (["subscriptions", "pause"], 2, "wrong_use"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_error_in_json_is_a_document(lite: Cli, arguments: list[str], exit_code: int, code: str) -> None:
    ran = lite(*arguments, "--json")

    error = json.loads(ran.out)["error"]
    assert (ran.code, error["code"]) == (exit_code, code)
    assert ran.err == f"sendonce: {error['message']}\n"


@pytest.mark.parametrize("command", ["worker", "consume", "demo"])
def test_json_is_refused_in_a_sentence_where_there_is_no_document(lite: Cli, command: str) -> None:
    ran = lite(command, "--json")

    assert ran.code == 2
    assert json.loads(ran.out)["error"]["code"] == "wrong_use"
    assert ran.err.startswith("sendonce: --json is for verbs that end with an answer; this one tells what it does")


def test_lines_are_wrapped_at_the_width_but_when_they_are_to_be_wide(
    lite: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lite.publish("k", "--to", f"null:{'a' * 60}")

    narrow, wide = lite("verify").out, lite("verify", "--wide").out

    assert " ".join(narrow.split()) == " ".join(wide.split())
    assert len(narrow.splitlines()) > len(wide.splitlines())
    listed, wide_list = lite("deliveries", "list").out, lite("deliveries", "list", "--wide").out
    assert "a" * 60 in wide_list
    assert "a" * 60 not in listed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_command_completion_is_a_script_that_its_shell_reads(lite: Cli, shell: str) -> None:
    ran = lite("completion", shell)

    assert ran.code == 0
    assert "dead-letters" in ran.out
    assert "given-up-as" in ran.out
    if program := shutil.which(shell):
        read = subprocess.run([program, "-n"], input=ran.out, capture_output=True, text=True, check=False, timeout=60)
        assert (read.returncode, read.stderr) == (0, "")


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"sendonce {__version__}\n"


def test_unexpected_error_is_one_line_and_its_trace_is_for_those_who_ask(
    lite: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(database.migrate_database, "work", broken)
    ran = lite("migrate")
    monkeypatch.setenv("SENDONCE_DEBUG", "1")
    debugged = lite("migrate")

    assert ran.code == debugged.code == 1
    assert ran.err == (
        "sendonce: unexpected error: RuntimeError: first line; run with SENDONCE_DEBUG=1 for the trace\n"
    )
    assert "Traceback" in debugged.err


def test_arguments_that_are_no_text_are_wrong_use(tmp_path: Path) -> None:
    ran = run("explain", b"\xff\xfe", cwd=tmp_path)

    assert (ran.code, ran.err) == (2, "sendonce: argument 2 is not valid UTF-8 text\n")


def test_installed_command_is_the_same(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("sendonce")
    done = subprocess.run(
        [script, "status"], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr == "sendonce: there is no sendonce database at sendonce.db; run: sendonce migrate\n"


def test_interrupt_is_quiet(lite: Cli, tmp_path: Path) -> None:
    fifo = tmp_path / "payload"
    os.mkfifo(fifo)
    command = [
        "publish",
        "memo.saved",
        "--key",
        "k",
        "--subscriptions-only",
        "--payload-file",
        str(fifo),
        "--database",
        lite.database,
    ]
    with (
        subprocess.Popen(
            [sys.executable, "-m", "sendonce", *command], env=clean_environment(), stdout=-1, stderr=-1
        ) as process,
        fifo.open("wb"),
    ):  # opens when the command reads
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LONGEST_RUN)

    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [["deliveries", "list"], ["deliveries", "list", "--json"], ["--help"], ["migrate", "--sql"]]
)
def test_reader_that_has_enough_is_no_error(lite: Cli, arguments: list[str], unbuffered: str) -> None:
    for number in range(3):
        lite.publish(f"k{number}", "--to", f"null:{DELIVERY}")
    with subprocess.Popen(
        [sys.executable, "-m", "sendonce", "--database", lite.database, *arguments],
        env=clean_environment({"PYTHONUNBUFFERED": unbuffered}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
        code = process.wait(LONGEST_RUN)

    assert (code, err) == (0, b"")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_disk_is_one_sentence(lite: Cli, unbuffered: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sendonce", "status", "--database", lite.database],
            env=clean_environment({"PYTHONUNBUFFERED": unbuffered}),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == "sendonce: the output could not be written: No space left on device\n"


def test_terminal_without_the_characters_shows_question_marks(lite: Cli) -> None:
    lite.publish("schlüssel-日本", "--to", "null:a")

    ran = run("explain", "1", "--database", lite.database, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})

    assert ran.code == 0
    assert "schl?ssel-??" in ran.out
