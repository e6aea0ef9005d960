"""What the receiver really has: how often it has accepted each message, what it was asked, and the last of it whole."""

import hashlib
from collections import OrderedDict, deque
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime

MOST_MESSAGES = 200_000
MOST_PATHS = 1000
OTHER_PATHS = "(other paths)"
_NOW = ("in_flight", "unanswered")


@dataclass(slots=True, kw_only=True)
class Message:
    """One message, by its token, or by its content where it has none.

    `count` is how often it was accepted: above one it was doubled. `recognised`: known by its token, and not accepted
    again. `after_asking`: accepted although, or because, somebody had asked about it before.
    """

    path: str
    digest: str = ""
    count: int = 0
    recognised: int = 0
    refused: int = 0
    failed: int = 0
    asked: int = 0
    found: int = 0
    after_asking: int = 0
    attempt: int | None = None
    id: str | None = None
    sent_at: str | None = None


@dataclass(slots=True, kw_only=True)
class Totals:
    """What came to one path. `in_flight` has not ended yet, of which `unanswered` are accepted already; `unheard` had
    nobody left to hear the answer.
    """

    requests: int = 0
    in_flight: int = 0
    unanswered: int = 0
    accepted: int = 0
    recognised: int = 0
    refused: int = 0
    failed: int = 0
    dropped: int = 0
    heard: int = 0
    unheard: int = 0

    def empty(self) -> None:
        """Begin again, but for what is in flight."""
        for name in (each.name for each in fields(self) if each.name not in _NOW):
            setattr(self, name, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request or mail as it came."""

    at: datetime
    method: str
    path: str
    token: str
    attempt: int | None
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    subject: str | None = None
    is_verified: bool | None = None

    @property
    def key(self) -> str:
        """What the message is known by."""
        return self.token or f"body:{self.digest}"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()[:32]


class Memory:
    """Counts everything; keeps the last of the messages, and of those the last few whole."""

    def __init__(self, keep: int) -> None:
        self._messages: OrderedDict[str, Message] = OrderedDict()
        self._paths: dict[str, Totals] = {}
        self._last: deque[Arrival] = deque(maxlen=keep)
        self._known: OrderedDict[str, Message] = OrderedDict()
        self._ids = 0
        self._is_forgetful = False

    def arrived(self, arrival: Arrival) -> Totals:
        """Note that it came; the totals of its path, to be told how it ends. A bad signature is only counted."""
        if arrival.is_verified is not False:
            self._last.append(arrival)
        totals = self.totals(arrival.path)
        totals.requests += 1
        totals.in_flight += 1
        return totals

    def totals(self, path: str) -> Totals:
        name = path if path in self._paths or len(self._paths) < MOST_PATHS else OTHER_PATHS
        return self._paths.setdefault(name, Totals())

    def message(self, key: str, path: str) -> Message:
        message = self._messages.get(key)
        if message is None:
            message = self._messages[key] = Message(path=path)
            if len(self._messages) > MOST_MESSAGES:
                self._messages.popitem(last=False)
        return message

    def accept(self, arrival: Arrival) -> Message:
        """Have it, once more if it is here already; the message, with a new id."""
        message = self.message(arrival.key, arrival.path)
        self._ids += 1
        message.path, message.digest, message.attempt = arrival.path, arrival.digest, arrival.attempt
        message.count += 1
        message.after_asking += message.asked > 0
        message.id, message.sent_at = f"msg_{self._ids}", datetime.now(UTC).isoformat()
        if not self._is_forgetful:
            self._known[arrival.key] = message
            if len(self._known) > MOST_MESSAGES:
                self._known.popitem(last=False)
        return message

    def known(self, key: str) -> Message | None:
        """The message, if it is remembered."""
        return self._known.get(key)

    def be_forgetful(self, is_forgetful: bool) -> None:
        """Know nothing of what is here, and remember nothing until told otherwise. The counts stay: they are true."""
        self._is_forgetful = is_forgetful
        if is_forgetful:
            self._known.clear()

    def clear(self) -> None:
        """Begin again, but for what is in flight."""
        self._messages.clear()
        self._known.clear()
        self._last.clear()
        for path, totals in list(self._paths.items()):
            # Requests in flight hold their totals, so these are emptied and not replaced.
            if totals.in_flight:
                totals.empty()
            else:
                del self._paths[path]

    @property
    def last(self) -> list[Arrival]:
        return list(self._last)

    def document(self) -> dict[str, object]:
        """Everything counted, to be sent as JSON."""
        return {
            "messages": {key: asdict(message) for key, message in self._messages.items()},
            "paths": {path: asdict(totals) for path, totals in self._paths.items()},
        }

    def summary(self) -> str:
        """One line for the end."""
        requests = sum(totals.requests for totals in self._paths.values())
        accepted = sum(totals.accepted for totals in self._paths.values())
        doubled = sum(message.count > 1 for message in self._messages.values())
        return f"{requests} arrived, {accepted} accepted; {doubled} of the messages more than once"
