"""Deliveries that failed, were put off, given up or are in doubt: one line each, and no flood.

Of the same kind, code and host five are told within ten seconds, of one kind twenty; how many more there were is told
in one line when the ten seconds are over. The database has them all.
"""

import asyncio
import json
import re
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from sendonce.domain.attempts import Claim, Result
from sendonce.domain.deliveries import DeliveryState
from sendonce.domain.destinations import scheme_of
from sendonce.domain.limits import has_host
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Unknown
from sendonce.domain.texts import CODE_LENGTH, clean
from sendonce.observability.facts import ChannelRaised, Emit, Incident, MoreIncidents

MOST_FRAMES = 20
MOST_ERRORS = 5


def frames_of(error: BaseException) -> tuple[str, ...]:
    """The exception with what it was raised from, the first cause first; the innermost place of each last."""
    chain: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in chain and len(chain) < MOST_ERRORS:
        chain.append(each)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return tuple(line for one in reversed(chain) for line in _frames(one))


def _frames(error: BaseException) -> list[str]:
    places = list(traceback.walk_tb(error.__traceback__))[-MOST_FRAMES:]
    codes = [(frame.f_code, line) for frame, line in places]
    return [type(error).__name__, *(f"{code.co_filename}:{line} {code.co_name}" for code, line in codes)]


WINDOW_SECONDS = 10.0
OF_THE_SAME = 5
OF_ONE_KIND = 20
FAILED, PUT_OFF, GIVEN_UP, IN_DOUBT, RAISED = "failed", "put off", "given up", "in doubt", "raised"
# The worker's own way of working: it goes on by itself, and nobody has to know.
_OUR_OWN_WAY = frozenset({"handed_back", "lease_too_short", "connections_busy"})
# What the engine itself says of an exception: its type and the place, never its text.
_NAMED = re.compile(r"\w+( in [\w.-]+, line \d+)?", re.ASCII)
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


class Incidents:
    """Tells of them through `emit`; called from either thread. With `tracebacks` also where own channels raise."""

    def __init__(
        self, worker_id: int, emit: Emit, *, tracebacks: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._worker_id = worker_id
        self._emit = emit
        self._clock = clock
        self._lock = threading.Lock()
        self._begun = clock()
        self._told: Counter[tuple[str, ...]] = Counter()
        self._more: Counter[tuple[str, str, str | None]] = Counter()
        self.raised = self._raised if tracebacks else None

    def note(self, results: Sequence[Result]) -> None:
        """Look for what did not get through. What did costs no more than a look at its type."""
        for result in results:
            outcome = result.report.outcome
            if isinstance(outcome, Delivered | Accepted):
                continue
            kind = _kind_of(result)
            if kind is not None and self._is_told(kind, outcome.code, result.report.claim):
                self._tell(kind, result)

    async def run(self) -> None:
        """Tell now and then, until cancelled, how many more there were than were told of."""
        while True:
            await asyncio.sleep(WINDOW_SECONDS)
            self.flush()

    def flush(self) -> None:
        """Tell how many more there were, and begin anew."""
        with self._lock:
            more, self._more = self._more, Counter()
            self._told.clear()
            seconds, self._begun = self._clock() - self._begun, self._clock()
        for kind in dict.fromkeys(kind for kind, _, _ in more):
            mine = Counter({place: count for place, count in more.items() if place[0] == kind})
            [((_, code, host), _)] = mine.most_common(1)
            self._emit(MoreIncidents(kind=kind, more=mine.total(), seconds=seconds, code=code, host=host))

    def _is_told(self, kind: str, code: str, claim: Claim) -> bool:
        if self._clock() - self._begun >= WINDOW_SECONDS:
            self.flush()
        host = host_of(claim.address)
        same = (kind, clean(code, CODE_LENGTH), host or "")
        with self._lock:
            if self._told[(kind,)] >= OF_ONE_KIND or self._told[same] >= OF_THE_SAME:
                # No more names than lines: a thousand hosts that fail are one number.
                known = (kind, same[1], host)
                self._more[known if known in self._more or len(self._more) < OF_ONE_KIND else (kind, "", None)] += 1
                return False
            self._told[(kind,)] += 1
            self._told[same] += 1
            return True

    def _tell(self, kind: str, result: Result) -> None:
        claim, outcome = result.report.claim, result.report.outcome
        if isinstance(outcome, Delivered | Accepted):
            return
        self._emit(
            Incident(
                kind=kind,
                event=claim.event_id,
                delivery=claim.delivery_id,
                type=claim.type,
                channel=scheme_of(claim.address),
                host=host_of(claim.address),
                code=clean(outcome.code, CODE_LENGTH),
                attempt=claim.attempt,
                worker=self._worker_id,
                trace=trace_of(claim.headers),
                raised=outcome.message
                if outcome.code == "channel_error" and _NAMED.fullmatch(outcome.message)
                else None,
            )
        )

    def _raised(self, claim: Claim, error: BaseException) -> None:
        if self._is_told(RAISED, type(error).__name__, claim):
            self._emit(
                ChannelRaised(
                    event=claim.event_id,
                    delivery=claim.delivery_id,
                    type=claim.type,
                    channel=scheme_of(claim.address),
                    attempt=claim.attempt,
                    worker=self._worker_id,
                    trace=trace_of(claim.headers),
                    traceback=frames_of(error),
                )
            )


def _kind_of(result: Result) -> str | None:
    outcome = result.report.outcome
    if result.decision.to is DeliveryState.DEAD_LETTERED:
        return GIVEN_UP
    if type(outcome) is Deferred:
        return None if outcome.code in _OUR_OWN_WAY else PUT_OFF
    return IN_DOUBT if type(outcome) is Unknown or result.decision.in_doubt else FAILED


def host_of(address: str) -> str | None:
    """The host alone: what else is in an address may be secret, or somebody's."""
    if not has_host(address):
        return None
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def trace_of(headers: str | None) -> str | None:
    """The trace's id, where the event was recorded within one."""
    if headers is None or "raceparent" not in headers.lower():
        return None
    try:
        found = json.loads(headers)
    except ValueError:
        return None
    texts = [str(value) for name, value in found.items() if name.lower() == "traceparent"]
    match = _TRACE.fullmatch(texts[0]) if texts else None
    return match[1] if match else None
