"""Run one command: parse, do, and turn whatever goes wrong into one sentence and an exit code."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress

from sendonce import __version__
from sendonce.cli.output import CouldNotLook, OutputFailed, say_json, scrub
from sendonce.cli.parser import WrongUse, build, wanted_command
from sendonce.domain.texts import harmless
from sendonce.errors import SendonceError

DONE, FAILED, WRONG_USE, COULD_NOT_LOOK, INTERRUPTED = 0, 1, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; the exit code: 0 done, 1 failed, 2 wrong use, 3 could not look, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _show_what_can_be_shown()
    try:
        code = _ended(arguments)
        _flush()
    except KeyboardInterrupt:
        _document(arguments, "interrupted", "interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_output()
        return DONE  # the reader had enough, as in `| head`
    except Exception as error:  # the edge of the program: a person gets a sentence, never a trace
        return _failed(error, arguments)
    return code


def _ended(arguments: list[str]) -> int:
    try:
        return _run(arguments)
    except SystemExit as end:  # argparse's way out of --help
        return end.code if isinstance(end.code, int) else DONE


def _run(arguments: list[str]) -> int:
    for position, word in enumerate(arguments, 1):
        if not _is_text(word):
            raise WrongUse(f"argument {position} is not valid UTF-8 text")
    wanted = wanted_command(arguments)
    args = build(wanted).parse_args(arguments)
    if args.version:
        print(f"sendonce {__version__}")
        return DONE
    if wanted is None:
        raise WrongUse("say what to do: sendonce COMMAND; see: sendonce --help")
    code: int = args.run(args)
    return code


def _failed(error: Exception, arguments: list[str]) -> int:
    """Say what went wrong on standard error, and with --json as a document on standard output too."""
    sentence, code = str(error), _code_of(error)
    if code == "unexpected":
        first_line = (sentence.splitlines() or [""])[0][:300]
        sentence = f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
        sentence = f"unexpected error: {sentence}; run with SENDONCE_DEBUG=1 for the trace"
    sentence = sentence.replace("\n", " ")
    if os.environ.get("SENDONCE_DEBUG") and code != "wrong_use":
        import traceback

        _write("".join(traceback.format_exception(error)), arguments)
    if isinstance(error, OutputFailed):
        _abandon_output()
    else:
        _document(arguments, code, sentence)
    _write(f"sendonce: {sentence}\n", arguments)
    return {"wrong_use": WRONG_USE, "could_not_look": COULD_NOT_LOOK}.get(code, FAILED)


def _code_of(error: Exception) -> str:
    """not_found: the error's own name, for programs."""
    if not isinstance(error, SendonceError | WrongUse | CouldNotLook | OutputFailed):
        return "unexpected"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()


def _document(arguments: list[str], code: str, sentence: str) -> None:
    if "--json" in arguments:
        with suppress(OSError, OutputFailed):  # nobody reads it
            say_json({"error": {"code": code, "message": scrub(sentence, arguments)}})
            sys.stdout.flush()


def _write(text: str, arguments: list[str]) -> None:
    with suppress(OSError):  # nobody reads it
        sys.stderr.write(harmless(scrub(text, arguments)))
        sys.stderr.flush()


def _show_what_can_be_shown() -> None:
    """Let a terminal that cannot show a character show a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error) from None


def _abandon_output() -> None:
    """Point standard output to nowhere, so that the interpreter's own last flush does not fail again."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _is_text(word: str) -> bool:
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
