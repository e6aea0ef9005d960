"""What is printed of everything that arrives: a line for a person, or a line of JSON. Pure."""

import json

from sendonce.devtools.receive.desk import MAIL
from sendonce.devtools.receive.memory import Arrival
from sendonce.domain.texts import clean

LONGEST = 200


def line(arrival: Arrival, said: str, *, is_verbose: bool) -> str:
    """For a person: when, what, which token and attempt, whether the signature holds, and what came of it."""
    parts = [f"{arrival.at.astimezone():%H:%M:%S}", _what(arrival)]
    if arrival.token and arrival.method != "GET":
        parts.append(f"token {_shown(arrival.token)}")
    if arrival.attempt is not None:
        parts.append(f"attempt {arrival.attempt}")
    if arrival.is_verified is not None:
        parts.append("signature verified" if arrival.is_verified else "signature wrong")
    parts.append(said)
    text = "  ".join(parts)
    return f"{text}\n{_body(arrival)}" if is_verbose and arrival.body else text


def json_line(arrival: Arrival, said: str, *, is_verbose: bool) -> str:
    """The same for a program."""
    document = {**as_json(arrival), "result": said}
    if not is_verbose:
        del document["headers"], document["body"]
    return json.dumps(document)


def as_json(arrival: Arrival) -> dict[str, object]:
    """An arrival whole, its body as text."""
    return {
        "at": arrival.at.isoformat(),
        "method": arrival.method,
        "path": arrival.path,
        "token": arrival.token,
        "attempt": arrival.attempt,
        "verified": arrival.is_verified,
        "subject": arrival.subject,
        "headers": arrival.headers,
        "body": arrival.body.decode("utf-8", "replace"),
    }


def _what(arrival: Arrival) -> str:
    if arrival.method != MAIL:
        return f"{arrival.method} {_shown(arrival.path)}"
    sender, recipients = arrival.headers.get("From", ""), arrival.path.removeprefix("mailto:")
    return f"MAIL from {_shown(sender) or '<>'} to {_shown(recipients)}: {_shown(arrival.subject or '')}"


def _body(arrival: Arrival) -> str:
    text = arrival.body.decode("utf-8", "replace")
    return "\n".join(f"    {_plain(each)}" for each in text.splitlines())


def _shown(text: str) -> str:
    return _plain(clean(text, LONGEST))


def _plain(text: str) -> str:
    """Nothing from outside moves the cursor of a terminal."""
    return "".join(each if each.isprintable() or each == "\t" else "\N{REPLACEMENT CHARACTER}" for each in text)
