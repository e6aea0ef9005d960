"""What the receiver does with what arrives: as its rules say, noted, and shown as a line."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sendonce.devtools.receive.behaviour import Rule, Rules
from sendonce.devtools.receive.memory import Arrival, Memory, Message, Totals
from sendonce.domain.texts import clean

MAIL = "MAIL"
Tell: TypeAlias = Callable[[Arrival, str], None]
_COME_BACK = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What to say: a status, with an id for what was accepted. No status: hang up without a word."""

    status: int | None
    id: str | None = None
    retry_after: float | None = None
    is_twice: bool = False


HANG_UP = Reply(status=None)


class Handler:
    """Knows nothing of HTTP or SMTP. `tell` is told of everything that arrives, and what came of it."""

    def __init__(self, rules: Rules, memory: Memory, tell: Tell) -> None:
        self.rules = rules
        self.memory = memory
        self._tell = tell

    async def take(self, arrival: Arrival, is_gone: Callable[[], bool]) -> Reply:
        """What becomes of it. `is_gone` says whether the sender has hung up."""
        totals = self.memory.arrived(arrival)
        rule = self.rules.of(arrival.path)
        try:
            await _wait(rule.seconds("slow", arrival.token))
            if is_gone():
                totals.unheard += 1
                return self._end(arrival, HANG_UP, "not accepted: the sender has hung up")
            status = self._status(arrival, rule)
            if status is not None:
                return self._turn_away(arrival, status, rule, totals)
            if rule.meets("drop", rule.behaviour.drop, arrival.token):
                totals.dropped += 1
                return self._end(arrival, HANG_UP, "not accepted: dropped")
            return await self._keep(arrival, rule, totals, is_gone)
        finally:
            totals.in_flight -= 1

    async def look_up(self, asking: Arrival) -> tuple[int, Message | None]:
        """A status, and the message of the token that is asked about, if it is remembered."""
        token = asking.token
        rule = self.rules.of(asking.path)
        await _wait(rule.seconds("look_up_slow", token))
        status = rule.status("look_up_fail", token)
        if status is not None:
            self._tell(asking, f"not answered: turned away with {status}")
            return status, None
        known = self.memory.known(token)
        asked = self.memory.message(token, asking.path)
        asked.asked += 1
        asked.found += known is not None
        self._tell(asking, "not found" if known is None else "found")
        return (404, None) if known is None else (200, known)

    def _status(self, arrival: Arrival, rule: Rule) -> int | None:
        if arrival.is_verified is False:
            return 401
        return rule.status("mail_fail" if arrival.method == MAIL else "fail", arrival.token)

    def _turn_away(self, arrival: Arrival, status: int, rule: Rule, totals: Totals) -> Reply:
        is_refusal = _is_refusal(arrival, status)
        counted: list[Message | Totals] = [totals]
        if arrival.is_verified is not False:  # else anybody could write to what is known of others' messages
            message = self.memory.message(arrival.key, arrival.path)
            message.path, message.digest, message.attempt = arrival.path, arrival.digest, arrival.attempt
            counted.append(message)
        for counts in counted:
            counts.refused += is_refusal
            counts.failed += not is_refusal
        totals.heard += 1
        answer = Reply(status=status, retry_after=rule.behaviour.retry_after)
        why = "bad signature" if arrival.is_verified is False else f"turned away with {status}"
        return self._end(arrival, answer, f"not accepted: {why}")

    async def _keep(self, arrival: Arrival, rule: Rule, totals: Totals, is_gone: Callable[[], bool]) -> Reply:
        """Accept it, and perhaps answer."""
        message, said = self._accept(arrival, rule, totals)
        if rule.meets("drop_after_accept", rule.behaviour.drop_after_accept, arrival.token):
            totals.dropped += 1
            return self._end(arrival, HANG_UP, f"{said}; dropped without an answer")
        totals.unanswered += 1
        try:
            await _wait(rule.seconds("late", arrival.token))
        finally:
            totals.unanswered -= 1
        if is_gone():
            totals.unheard += 1
            return self._end(arrival, HANG_UP, f"{said}; the sender has hung up")
        totals.heard += 1
        is_twice = rule.meets("twice", rule.behaviour.twice, arrival.token)
        return self._end(
            arrival, Reply(status=200, id=message.id if rule.behaviour.ids else None, is_twice=is_twice), said
        )

    def _accept(self, arrival: Arrival, rule: Rule, totals: Totals) -> tuple[Message, str]:
        known = self.memory.known(arrival.key)
        if known is not None and rule.behaviour.deduplicate:
            known.recognised += 1
            totals.recognised += 1
            return known, "recognised"
        message = self.memory.accept(arrival)
        totals.accepted += 1
        return message, "accepted" if message.count == 1 else f"accepted, {message.count} times by now"

    def _end(self, arrival: Arrival, answer: Reply, said: str) -> Reply:
        self._tell(arrival, said)
        return answer


def _is_refusal(arrival: Arrival, status: int) -> bool:
    """Whether it means never: in HTTP most of 4xx, in mail 5xx."""
    return status >= 500 if arrival.method == MAIL else 400 <= status < 500 and status not in _COME_BACK


async def _wait(seconds: float) -> None:
    if seconds:
        await asyncio.sleep(seconds)


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
    """Return the arrival as a line of JSON."""
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
