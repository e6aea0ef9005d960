"""redis: an entry of a Redis stream, once by its token, and Redis can be asked for it.

One call of a script adds the entry and keeps the token beside it for as long as `remembers` says; with a token that is
known it answers with the entry that is there. redis-py's own retries are off: it repeats a call whose answer was lost.

    sends ──▶ waiting ──▶ lanes, one connection each: a batch of calls in one write, their answers in order
"""

import asyncio
import json
import re
import ssl
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from typing import Any, ClassVar

from redis.asyncio import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
)

from sendonce.channels.brokers.content import Writer
from sendonce.channels.brokers.link import Link, NotOpen, asked, away
from sendonce.channels.brokers.profile import BrokerProfile, password_of, user_of
from sendonce.channels.protocol import Message
from sendonce.domain.answers import (
    BROKER_ADDRESS,
    BROKER_LOST,
    CREDENTIALS,
    NO_ACCESS,
    NO_REDIS_STREAM,
    NOT_A_STREAM,
    NOT_CONFIRMED_IN_TIME,
    NOT_WRITTEN,
    REDIS_BUSY,
    TOO_BIG,
)
from sendonce.domain.carried import FIELD_BODY, FIELD_CONTENT_TYPE, FIELD_HEADERS, FIELD_ID, FIELD_TYPE
from sendonce.domain.outcomes import CannotTell, Deferred, Delivered, Failed, Found, LookUp, NoAnswer, NotThere, Outcome

# What is in doubt is asked about well before the token may be gone.
_MARGIN = timedelta(minutes=1)
_BATCH = 100
# KEYS: the token's, the stream. ARGV: milliseconds, entries at most (0: all), create (1) or not, the entry.
_SCRIPT = """
local known = redis.pcall('GET', KEYS[1])
if known and known.err then return known end
if known then return known end
local call = {'XADD', KEYS[2]}
if ARGV[3] == '0' then call[#call + 1] = 'NOMKSTREAM' end
if ARGV[2] ~= '0' then call[#call + 1] = 'MAXLEN'; call[#call + 1] = '~'; call[#call + 1] = ARGV[2] end
call[#call + 1] = '*'
for i = 4, #ARGV do call[#call + 1] = ARGV[i] end
local entry = redis.pcall(unpack(call))
if not entry or entry.err then return entry end
local kept = redis.pcall('SET', KEYS[1], entry, 'PX', ARGV[1])
if kept.err then redis.call('XDEL', KEYS[2], entry); return kept end
return entry
"""
_SHA = sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()

_CODE = re.compile(
    r"\b(OOM|NOREPLICAS|READONLY|LOADING|BUSY|MISCONF|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|WRONGTYPE|NOPERM)\b"
)
_NAMES = {
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "BusyLoadingError": "LOADING",
    "NoPermissionError": "NOPERM",
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
    "TryAgainError": "TRYAGAIN",
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RedisProfile(BrokerProfile):
    """`url` is `redis://user@host:6379/0`, or `rediss:` for TLS. A stream is cut to about `max_entries`."""

    scheme: ClassVar[str] = "redis"

    url: str
    remembers: timedelta = timedelta(days=7)
    max_entries: int = 0
    max_bytes: int = 16_000_000
    create: bool = True
    lanes: int = 4

    def channel(self) -> "RedisChannel":
        return RedisChannel(self)

    def __post_init__(self) -> None:
        super(RedisProfile, self).__post_init__()
        self.arguments()
        if self.remembers < timedelta(minutes=10):
            self.refuse("remembers", "must be at least 10m, so that what is in doubt can be asked about")
        if not 1 <= self.lanes <= 100:
            self.refuse("lanes", "must be between 1 and 100")
        for key in ("max_entries", "max_bytes"):
            if getattr(self, key) < 0:
                self.refuse(key, "must not be below zero")

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a connection, except those of TLS."""
        parts = self.checked_url(self.url, ("redis", "rediss"), "redis://user@host:6379/0")
        database = parts.path.strip("/") or "0"
        if not database.isdecimal():
            self.refuse("url", "must end with the number of a database, like redis://host:6379/0")
        return {
            "host": parts.hostname,
            "port": parts.port or 6379,
            "db": int(database),
            "username": user_of(parts),
            "password": password_of(parts, self.password),
        }

    def connecting(self) -> tuple[type[Connection], dict[str, Any]]:
        """What kind of connection is made, and with what. It tries nothing again by itself."""
        arguments = {**self.arguments(), "retry": Retry(NoBackoff(), 0), "client_name": "sendonce"}
        if self.url.startswith("rediss:"):
            return _Tls, {**arguments, "own": self.context()}
        return Connection, arguments


@dataclass(slots=True, eq=False)
class _Call:
    """One call of the script, and who waits for its answer; `begun` when some of it may have been written."""

    keys: tuple[str, str]
    arguments: tuple[str | bytes, ...]
    answer: "asyncio.Future[Outcome]"
    begun: bool = False


@dataclass(slots=True, eq=False)
class _Lane:
    """One connection."""

    link: "Link[Connection]"
    task: "asyncio.Task[None] | None" = field(default=None)


class RedisChannel:
    """A few connections, each of which carries whatever waits in one write."""

    def __init__(self, profile: RedisProfile) -> None:
        self._profile = profile
        self._writer = Writer(profile.format, profile.source, prefix="ce-")
        self._waiting: deque[_Call] = deque()
        self._lanes = [
            _Lane(Link(self._dial, lambda connection: connection.is_connected)) for _ in range(profile.lanes)
        ]
        self._asking: Link[Connection] = Link(self._dial, lambda connection: connection.is_connected)
        self._turn = asyncio.Lock()
        self.remembers = profile.remembers

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """Add the entry once; Delivered has its id."""
        stream = self._profile.rest_of(message)
        if not stream:
            return BROKER_ADDRESS
        call = self._call(message, stream)
        size = sum(len(each) for each in call.arguments)
        if size > self._profile.max_bytes:
            return replace(TOO_BIG, message=f"it is {size} bytes, and max_bytes of [{self._profile.table}] is less")
        self._waiting.append(call)
        self._wake(timeout)
        try:
            async with asyncio.timeout(timeout):
                return await call.answer
        except TimeoutError:
            return NOT_CONFIRMED_IN_TIME if call.begun else NOT_WRITTEN
        finally:
            call.answer.cancel()

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        """Ask for the token. It is kept for `remembers` after the entry was added."""
        stream = self._profile.rest_of(message)
        if not stream:
            return CannotTell(BROKER_ADDRESS.code, BROKER_ADDRESS.message)
        try:
            async with asyncio.timeout(timeout), self._turn:
                connection = await self._asking.open(timeout)
                entry = await _answers(connection, [("GET", _key(stream, message.token))])
        except NotOpen as error:
            return asked(error.outcome)
        except (TimeoutError, RedisError, OSError) as error:
            await _dropped(self._asking)
            return NoAnswer("look_up_failed", f"Redis could not be asked ({type(error).__name__})")
        [found] = entry
        if isinstance(found, Exception):
            return asked(outcome_of(found))
        if found is not None:
            return Found(_text(found))
        if datetime.now(UTC) - message.recorded_at >= self.remembers - _MARGIN:
            return CannotTell("too_old", "Redis may have forgotten its token by now")
        return NotThere()

    async def close(self) -> None:
        for lane in self._lanes:
            if lane.task is not None:
                lane.task.cancel()
                await asyncio.wait([lane.task])
            await _dropped(lane.link)
        await _dropped(self._asking)

    def _call(self, message: Message, stream: str) -> _Call:
        token, profile = message.token, self._profile
        wire = self._writer.wire(message, token)
        settings = (
            str(profile.remembers // timedelta(milliseconds=1)),
            str(profile.max_entries),
            str(int(profile.create)),
        )
        entry: tuple[str | bytes, ...] = (
            FIELD_ID, token, FIELD_TYPE, message.type, FIELD_BODY, wire.body,
            FIELD_CONTENT_TYPE, wire.content_type, FIELD_HEADERS, json.dumps(dict(wire.headers)),
        )  # fmt: skip
        answer = asyncio.get_running_loop().create_future()
        return _Call((_key(stream, token), stream), (*settings, *entry), answer)

    def _wake(self, timeout: float) -> None:
        """Have a lane carry it, with all that waits by then."""
        for lane in self._lanes:
            if lane.task is None or lane.task.done():
                lane.task = asyncio.create_task(self._carry(lane.link, timeout))
                return

    async def _carry(self, link: "Link[Connection]", timeout: float) -> None:
        was_idle = True
        while calls := self._next():
            try:
                connection = await link.open(timeout)
            except NotOpen as error:
                _tell(calls, error.outcome)
                continue
            if was_idle and await _is_closed(connection):
                await _dropped(link)
                self._waiting.extendleft(reversed(calls))
            else:
                await _carried(link, connection, calls)
            was_idle = False

    def _next(self) -> list[_Call]:
        calls: list[_Call] = []
        while self._waiting and len(calls) < _BATCH:
            call = self._waiting.popleft()
            if not call.answer.done():  # else it came too late, and is not written
                calls.append(call)
        return calls

    async def _dial(self) -> Connection:
        kind, arguments = self._profile.connecting()
        connection = kind(**arguments, socket_connect_timeout=None, socket_timeout=None)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            await connection.disconnect(nowait=True)
            raise NotOpen(not_open(error)) from None
        return connection


class _Tls(SSLConnection):
    """TLS with a context of our own, which takes certificates as texts."""

    def __init__(self, *, own: ssl.SSLContext, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._own = own

    def _connection_arguments(self) -> Mapping[str, object]:
        return {**super()._connection_arguments(), "ssl": self._own}


async def _carried(link: "Link[Connection]", connection: Connection, calls: list[_Call]) -> None:
    """Write these calls at once, and tell each its answer; what a lost connection leaves is in doubt."""
    for call in calls:
        call.begun = True
    try:
        for call, answer in zip(calls, await _evaluated(connection, calls), strict=True):
            _tell([call], outcome_of(answer))
    except (RedisError, OSError):
        await _dropped(link)
    finally:
        _tell(calls, BROKER_LOST)


async def _is_closed(connection: Connection) -> bool:
    """Whether the other side has ended it while it was idle: there is something to read, and nothing was asked."""
    try:
        return bool(await connection.can_read())
    except (RedisError, OSError):
        return True


async def _evaluated(connection: Connection, calls: Sequence[_Call]) -> list[object]:
    """The answers of the script; a server that does not have it gets it with the calls that it did not do."""
    commands = [("EVALSHA", _SHA, 2, *call.keys, *call.arguments) for call in calls]
    answers = await _answers(connection, commands)
    unknown = [index for index, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
    if unknown:
        again = [("EVAL", _SCRIPT, *commands[index][2:]) for index in unknown]
        for index, answer in zip(unknown, await _answers(connection, again), strict=True):
            answers[index] = answer
    return answers


async def _answers(connection: Connection, commands: Sequence[tuple[Any, ...]]) -> list[object]:
    """Write all commands at once and read their answers, errors among them."""
    await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    answers: list[object] = []
    for _ in commands:
        try:
            answers.append(await connection.read_response())
        except ResponseError as error:
            answers.append(error)
    return answers


def outcome_of(answer: object) -> Outcome:
    """What the script's answer, or Redis's error instead of it, means. An error is said before anything is written."""
    if isinstance(answer, bytes | str):
        return Delivered(_text(answer))
    if answer is None:
        return NO_REDIS_STREAM
    if isinstance(answer, AuthenticationError | AuthenticationWrongNumberOfArgsError):
        return CREDENTIALS
    # Redis 6 writes "@user_script: 1: -OOM command not …", newer ones begin with the code; redis-py cuts it off.
    said = _CODE.search(f"{_NAMES.get(type(answer).__name__, '')} {answer}")
    code = said[0].lower() if said else "error"
    if code == "noperm" or "can't run this command" in str(answer):
        return NO_ACCESS
    if code == "wrongtype":
        return NOT_A_STREAM
    return replace(REDIS_BUSY, code=f"redis_{code}", message=str(answer)[:200])


def _key(stream: str, token: str) -> str:
    """Return the key that holds a token, in the stream's own slot of a cluster."""
    opening = stream.find("{")
    closing = stream.find("}", opening + 1)
    slot = stream[opening + 1 : closing] if 0 <= opening < closing - 1 else stream
    return f"sendonce:{{{slot}}}:{token}"


def _tell(calls: Sequence[_Call], outcome: Outcome) -> None:
    for call in calls:
        if not call.answer.done():
            call.answer.set_result(outcome)


def not_open(error: BaseException) -> Failed | Deferred:
    """What it means that no connection came about."""
    if isinstance(error, AuthenticationError | AuthenticationWrongNumberOfArgsError | NoPermissionError):
        return CREDENTIALS
    return away(error.__cause__ or error.__context__ or error)


async def _dropped(link: "Link[Connection]") -> None:
    connection, link.connection = link.connection, None
    if connection is not None:
        await connection.disconnect(nowait=True)


def _text(answer: object) -> str:
    return answer.decode() if isinstance(answer, bytes) else str(answer)
