"""nats: a subject of a JetStream stream. Stored when the stream has said so, and once while it remembers the token.

The client's own reconnect is off: what is published while it is disconnected would be written when it is back, long
after we have said that nobody knows. A lost connection is gone, its messages are in doubt, and the next send dials.
"""

import asyncio
import json
import random
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar, TypeVar
from urllib.parse import SplitResult

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from sendonce.channels.brokers.content import Writer
from sendonce.channels.brokers.link import Link, NotOpen, asked, away
from sendonce.channels.brokers.profile import BrokerProfile, password_of, user_of
from sendonce.channels.protocol import Message
from sendonce.domain.answers import (
    BEING_STORED,
    BROKER_ADDRESS,
    BROKER_LOST,
    CREDENTIALS,
    NO_STREAM,
    NOT_CONFIRMED_IN_TIME,
    NOT_WRITTEN,
    STREAM_BUSY,
    STREAM_REFUSED,
    TOO_BIG,
)
from sendonce.domain.outcomes import CannotTell, Deferred, Delivered, Failed, Found, LookUp, NoAnswer, NotThere, Outcome

TOKEN = "{token}"  # noqa: S105 — the place of a message's token in a subject
# A second look at a stream: it may have been changed meanwhile.
LEARNED_FOR_SECONDS = 60.0
CLOSE_SECONDS = 1.0
_LEARNED = 1000
# It has as many messages as it takes, all together or of this subject.
NO_ROOM = "nats_10077"
# By how much the server's clock and the database's may differ.
_CLOCKS = timedelta(minutes=1)
_SUBJECT = re.compile(r"(?!\.)(?:[^\s.*>\x00-\x20]+\.)*[^\s.*>\x00-\x20]+")
_HEAD = len("NATS/1.0\r\n\r\n")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NatsProfile(BrokerProfile):
    """`url` is one server or several with commas between them; `tls:` instead of `nats:` for TLS."""

    scheme: ClassVar[str] = "nats"

    url: str

    def channel(self) -> "NatsChannel":
        return NatsChannel(self)

    def __post_init__(self) -> None:
        super(NatsProfile, self).__post_init__()
        if not self.servers():
            self.refuse("url", "must be an address like nats://user@host:4222")

    def servers(self) -> list[SplitResult]:
        """The servers, each checked."""
        texts = [each.strip() for each in self.url.split(",") if each.strip()]
        return [self.checked_url(each, ("nats", "tls"), "nats://user@host:4222") for each in texts]


@dataclass(frozen=True, slots=True)
class Stream:
    """What a stream says of itself: how long it recognises a token, and whether it can have dropped a message."""

    name: str
    window: timedelta
    keeps: bool
    first_at: datetime | None

    def surely_has(self, recorded_at: datetime) -> bool:
        """Return whether the stream still has everything stored since then."""
        return self.keeps and (self.first_at is None or self.first_at + _CLOCKS < recorded_at)


class NatsChannel:
    """One connection, on which all sends are on their way at once."""

    def __init__(self, profile: NatsProfile) -> None:
        self._profile = profile
        self._writer = Writer(profile.format, profile.source, prefix="ce-", is_ascii=True)
        self._link: Link[_Session] = Link(self._dial, lambda session: session.is_open)
        self._streams: OrderedDict[str, tuple[float, Stream]] = OrderedDict()
        self._windows: dict[str, timedelta] = {}
        self._seen: set[str] = set()
        self._looking: set[asyncio.Task[None]] = set()

    @property
    def remembers(self) -> timedelta | None:
        """The shortest memory of the streams that have stored something by a token that they alone recognise."""
        return min(self._windows.values(), default=None)

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """Publish once; Delivered has the stream and the sequence number."""
        token = message.token
        subject = self._subject(message, token)
        if subject is None:
            return BROKER_ADDRESS
        try:
            session = await self._link.open(timeout)
        except NotOpen as error:
            return error.outcome
        wire = self._writer.wire(message, token)
        headers = {**wire.headers, "Nats-Msg-Id": token, "Content-Type": wire.content_type}
        began = asyncio.get_running_loop().time()
        outcome = await session.publish(subject, wire.body, headers, timeout)
        if TOKEN in message.address:
            left = timeout - (asyncio.get_running_loop().time() - began)
            return await self._unless_there(message, outcome, left)
        if isinstance(outcome, Delivered):
            self._look_at(session, str(outcome.notification_id).rpartition(":")[0])
        return outcome

    async def _unless_there(self, message: Message, outcome: Outcome, left: float) -> Outcome:
        """What a stream that takes one message for each subject refuses may be the one that it has."""
        if not isinstance(outcome, Failed) or outcome.code != NO_ROOM or left <= 0:
            return outcome
        found = await self.look_up(message, timeout=left)
        return Delivered(found.notification_id) if isinstance(found, Found) else outcome

    def _look_at(self, session: "_Session", stream: str) -> None:
        """Read a new stream's window, beside the sends."""
        if stream not in self._seen and len(self._seen) < _LEARNED:
            self._seen.add(stream)
            task = asyncio.create_task(self._read_window(session, stream))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    async def _read_window(self, session: "_Session", stream: str) -> None:
        with suppress(TimeoutError, nats.errors.Error, OSError, ValueError):
            info = await session.ask(f"STREAM.INFO.{stream}", {}, 5.0)
            if "error" not in info:
                self._windows[stream] = _stream_of(info).window

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        """Ask for the token's own subject; else the stream recognises the token while its window lasts."""
        token = message.token
        subject = self._subject(message, token)
        if subject is None:
            return CannotTell(BROKER_ADDRESS.code, BROKER_ADDRESS.message)
        try:
            async with asyncio.timeout(timeout):
                session = await self._link.open(timeout)
                return await self._asked(session, message, subject, timeout)
        except NotOpen as error:
            return asked(error.outcome)
        except (TimeoutError, nats.errors.Error, OSError, ValueError) as error:
            return _no_answer(error)

    async def close(self) -> None:
        for task in self._looking:
            task.cancel()
        await asyncio.gather(*self._looking, return_exceptions=True)
        session = self._link.connection
        if session is not None:
            await session.close()

    async def _asked(self, session: "_Session", message: Message, subject: str, timeout: float) -> LookUp:
        has_own_subject = TOKEN in message.address
        stream = await self._learn(session, message.address, subject)
        if stream is None:
            return NoAnswer(NO_STREAM.code, NO_STREAM.message)
        if has_own_subject:
            found = await session.ask(f"STREAM.MSG.GET.{stream.name}", {"last_by_subj": subject}, timeout)
            if "error" not in found:
                return Found(f"{stream.name}:{found['message']['seq']}", _time_of(found["message"].get("time")))
            if found["error"].get("code") != 404:
                return NoAnswer(f"nats_{found['error'].get('err_code')}", "the stream could not be asked")
            # Only now it is known what the stream had dropped by then.
            stream = await self._learn(session, message.address, subject, anew=True)
            is_sure = stream is not None and stream.surely_has(message.recorded_at)
            return NotThere() if is_sure else CannotTell("not_kept", "the stream may have dropped it")
        age = datetime.now(UTC) - message.recorded_at
        if age + timedelta(seconds=2 * timeout) < stream.window:
            return CannotTell("recognised", "the stream recognises its token", is_safe_to_repeat=True)
        return CannotTell("too_old", "the stream's duplicate_window is over, so that it may have forgotten the token")

    async def _learn(self, session: "_Session", address: str, subject: str, *, anew: bool = False) -> Stream | None:
        """What its stream says of itself; None when no stream has the subject."""
        now = asyncio.get_running_loop().time()
        known = self._streams.get(address)
        if known is not None and not anew and now < known[0]:
            return known[1]
        names = await session.ask("STREAM.NAMES", {"subject": subject}, 5.0)
        if not names.get("streams"):
            return None
        info = await session.ask(f"STREAM.INFO.{names['streams'][0]}", {}, 5.0)
        if "error" in info:
            return None
        stream = _stream_of(info)
        if TOKEN not in address:
            self._windows[stream.name] = stream.window
        self._streams[address] = (now + LEARNED_FOR_SECONDS, stream)
        self._streams.move_to_end(address)
        if len(self._streams) > _LEARNED:
            self._streams.popitem(last=False)
        return stream

    def _subject(self, message: Message, token: str) -> str | None:
        subject = self._profile.rest_of(message).replace(TOKEN, token)
        return subject if _SUBJECT.fullmatch(subject) and not subject.startswith(("$", "_INBOX.")) else None

    async def _dial(self) -> "_Session":
        return await any_server(self._profile, partial(_Session.opened, self._profile))


Opened = TypeVar("Opened")


async def any_server(profile: NatsProfile, open_on: Callable[[SplitResult], Awaitable[Opened]]) -> Opened:
    """Return what `open_on` gives at the first server where it can; NotOpen, by the last one, when it can at none."""
    servers = profile.servers()
    random.shuffle(servers)
    trouble = NotOpen(NOT_WRITTEN)
    for server in servers:
        try:
            return await open_on(server)
        except NotOpen as error:
            trouble = error
    raise trouble


async def _nothing() -> None:
    return None


async def connect(profile: NatsProfile, server: SplitResult, lost: Callable[[], Awaitable[None]] = _nothing) -> Client:
    """Connect to one server, for as long as that connection lives: `lost` is called at its end. Else NotOpen."""
    client = Client()
    met: list[BaseException] = []
    is_dialling = True

    async def meet(error: Exception) -> None:
        met.append(error)
        if is_dialling and not client.is_closed:
            raise error  # else it would try this server for ever

    password = password_of(server, profile.password)
    is_tls = server.scheme == "tls"
    try:
        await client.connect(
            f"nats://{server.netloc.rpartition('@')[2]}",
            user=user_of(server) if password is not None else None,
            password=password,
            token=user_of(server) if password is None else None,
            tls=profile.context() if is_tls else None,
            tls_hostname=server.hostname if is_tls else None,
            allow_reconnect=False,
            connect_timeout=2,
            name="sendonce",
            pending_size=64 * 1024 * 1024,
            ping_interval=20,
            disconnected_cb=lost,
            closed_cb=lost,
            error_cb=meet,
        )
    except (nats.errors.Error, OSError, TimeoutError, ValueError) as error:
        is_dialling = False
        await _closed(client)
        raise NotOpen(_not_open([*met, error])) from None
    except asyncio.CancelledError:
        is_dialling = False
        await _closed(client)
        raise
    is_dialling = False
    return client


class _Session:
    """One connection to one server, and who waits on it for an acknowledgement."""

    client: Client

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[Outcome]] = {}
        self._number = 0
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox = ""

    @classmethod
    async def opened(cls, profile: NatsProfile, server: SplitResult) -> "_Session":
        session = cls()
        session.client = client = await connect(profile, server, session._lost)
        session._inbox = client.new_inbox() + "."
        try:
            await client.subscribe(session._inbox + "*", cb=session._acknowledged)
        except (nats.errors.Error, OSError) as error:
            await _closed(client)
            raise NotOpen(_not_open([error])) from None
        return session

    @property
    def is_open(self) -> bool:
        return self.client.is_connected

    async def publish(self, subject: str, body: bytes, headers: dict[str, str], timeout: float) -> Outcome:
        size = len(body) + _HEAD + sum(len(name) + len(value.encode()) + 4 for name, value in headers.items())
        if size > self.client.max_payload:
            return replace(TOO_BIG, message=f"it is {size} bytes with its headers, and the server takes less")
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Outcome] = loop.create_future()
        self._number += 1
        number = str(self._number)
        self._waiting[number] = waiting
        late = loop.call_later(timeout, _resolve, waiting, NOT_CONFIRMED_IN_TIME)
        try:
            if not self.client.is_connected:
                return NOT_WRITTEN
            await self.client.publish(subject, body, reply=self._inbox + number, headers=headers)
            return await waiting
        except nats.errors.Error:
            # Raised before anything is written.
            return NOT_WRITTEN
        except OSError:
            return BROKER_LOST
        finally:
            late.cancel()
            self._waiting.pop(number, None)

    async def ask(self, what: str, question: Mapping[str, object], timeout: float) -> dict[str, Any]:
        """What JetStream's own interface answers; nats.errors.Error when it does not."""
        request: asyncio.Future[Any] = asyncio.ensure_future(
            self.client.request(f"$JS.API.{what}", json.dumps(question).encode(), timeout=timeout)
        )
        either: set[asyncio.Future[Any]] = {request, self._end}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not request.done():
                raise nats.errors.ConnectionClosedError
            found: dict[str, Any] = json.loads(request.result().data)
            return found
        finally:
            request.cancel()

    async def close(self) -> None:
        await _closed(self.client)
        await self._lost()

    async def _acknowledged(self, message: Msg) -> None:
        waiting = self._waiting.get(message.subject.rpartition(".")[2])
        if waiting is not None:
            _resolve(waiting, outcome_of(message))

    async def _lost(self) -> None:
        if not self._end.done():
            self._end.set_result(None)
        for waiting in list(self._waiting.values()):
            _resolve(waiting, BROKER_LOST)


def outcome_of(message: Msg) -> Outcome:
    """Return what an acknowledgement means."""
    if not message.data:
        return NO_STREAM
    try:
        answer: dict[str, Any] = json.loads(message.data)
        if "error" not in answer:
            return Delivered(f"{answer['stream']}:{answer['seq']}")
        error = answer["error"]
        status, code = int(error["code"]), error.get("err_code", error["code"])
    except (ValueError, KeyError, TypeError):
        return replace(BROKER_LOST, code="malformed_answer", message="what came back was no acknowledgement")
    text = str(error.get("description", ""))[:200]
    kind = BEING_STORED if status == 409 else STREAM_BUSY if status >= 500 else STREAM_REFUSED
    return replace(kind, code=f"nats_{code}", message=text or kind.message)


def _stream_of(info: Mapping[str, Any]) -> Stream:
    config, state = info["config"], info["state"]
    is_whole = state["first_seq"] <= 1
    is_empty = not state["messages"]
    return Stream(
        name=config["name"],
        window=timedelta(microseconds=config.get("duplicate_window", 0) // 1000),
        keeps=config.get("retention", "limits") == "limits" and (is_whole or not is_empty),
        first_at=None if is_whole or is_empty else _time_of(state["first_ts"]),
    )


def _time_of(text: object) -> datetime | None:
    """A server's time, which has nanoseconds."""
    try:
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", str(text)))
    except ValueError:
        return None


def _resolve(waiting: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not waiting.done():
        waiting.set_result(outcome)


def _not_open(met: Sequence[BaseException]) -> Failed | Deferred:
    """What connecting ran into; the client's own last word may be that it has no more servers."""
    if any(isinstance(each, nats.errors.AuthorizationError) or "authorization" in str(each).lower() for each in met):
        return CREDENTIALS
    return away(next((each for each in met if isinstance(each, OSError)), met[-1]))


def _no_answer(error: BaseException) -> NoAnswer:
    return NoAnswer("look_up_failed", f"the stream could not be asked ({type(error).__name__})")


async def _closed(client: Client) -> None:
    """A handshake that went wrong would be waited for without end."""
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await client.close()
