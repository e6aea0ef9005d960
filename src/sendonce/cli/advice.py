"""Advice, spelled as what a person types."""

from collections.abc import Iterable

from sendonce.admin.advice import Advice, Remark
from sendonce.admin.stops import quoted
from sendonce.admin.stops import spelled as spelled_scope
from sendonce.cli.output import fields_of

# The command that uses a verb of Admin, with the options that it never goes without.
COMMANDS = {
    "attest": "dead-letters attest",
    "cancel": "cancel",
    "cancel_operation": "operations cancel",
    "consume": "consume",
    "correct": "dead-letters correct",
    "doubt": "doubt --open",
    "event": "events show",
    "explain": "explain",
    "grants_sql": "grants --sql",
    "messages": "inbox list",
    "migrate": "migrate",
    "nothing_lost": "restored --nothing-lost",
    "prune": "prune",
    "replay": "replay",
    "requeue": "dead-letters requeue",
    "resume": "resume",
    "resume_operation": "operations resume",
    "resume_subscription": "subscriptions resume",
    "retry_messages": "inbox retry",
    "verify": "verify",
    "worker": "worker",
}
_PLACEHOLDERS = {"reason": "TEXT", "to": "URI"}


def command(advice: Advice) -> str:
    """Return the command line: sendonce dead-letters requeue 3 --reason TEXT."""
    words = ["sendonce", COMMANDS[advice.verb]]
    if advice.id is not None:
        words.append(quoted(f"{advice.of}:{advice.id}" if advice.verb == "explain" else str(advice.id)))
    words += [f"--{each} {_PLACEHOLDERS[each]}" for each in advice.needs]
    given = dict(advice.given)
    if (scope := given.pop("scope", None)) is not None:
        words.append(spelled_scope(str(scope), str(given.pop("value", ""))))
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        words.append(option if value is True else f"{option} {quoted(str(value))}")
    return " ".join(words)


def spelled(advice: Advice) -> str:
    """requeue with: sendonce dead-letters requeue 3 --reason TEXT."""
    return f"{advice.why}: {command(advice)}"


def with_advice(sentence: str, advice: Iterable[Advice]) -> str:
    """Return a sentence, which may be empty, and after it what can be done."""
    return "; ".join([*([sentence] if sentence else []), *(spelled(each) for each in advice)])


def remark_line(remark: Remark) -> str:
    return with_advice(remark.sentence, remark.advice)


def document(advice: Advice) -> dict[str, object]:
    """Return advice for JSON: its fields, and the command."""
    return {**fields_of(advice), "command": command(advice)}
