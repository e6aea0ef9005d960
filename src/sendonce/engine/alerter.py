"""The alerter: looks now and then at what needs people, and tells them once, whatever the number of workers."""

import asyncio
import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sendonce.channels.protocol import NONE, Channel, Credentials, Message
from sendonce.channels.registry import Channels
from sendonce.domain.attempts import Claim, Result
from sendonce.domain.destinations import place_of, scheme_of
from sendonce.domain.emails import Email
from sendonce.domain.limits import has_host
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Refused
from sendonce.domain.texts import CODE_LENGTH, clean
from sendonce.engine.alerts import AlertSettings, Change, Met, Raise, judge
from sendonce.engine.background import Troubles
from sendonce.errors import ConfigError, StoreBusy
from sendonce.observability.facts import Alerted, AlertFailed, Emit
from sendonce.signing import key_of
from sendonce.store.ports import AlertStore

NO_CHANNEL = "no_channel"
MOST = 20


class OwnFaults:
    """Collects faults on our side from results, by `code:scheme`."""

    def __init__(self) -> None:
        self._met: dict[str, Met] = {}
        self._raised: dict[str, str | None] = {}
        self._over: set[str] = set()

    @property
    def over(self) -> frozenset[str]:
        """Return the faults that a successful send has ended."""
        return frozenset(self._over)

    def note(self, results: Sequence[Result]) -> None:
        """Note a result: a fault on our side, or a success that ends one."""
        for report, _ in results:
            outcome = report.outcome
            if type(outcome) is Delivered or type(outcome) is Accepted:
                if self._met or self._raised:
                    self._got_through(report.claim)
            elif type(outcome) is Deferred and (outcome.code.startswith("our_") or outcome.code == NO_CHANNEL):
                self._note(report.claim, outcome.code)

    def take(self) -> dict[str, Met]:
        """Take the faults met since the last call."""
        met, self._met = self._met, {}
        return met

    def put_back(self, met: Mapping[str, Met]) -> None:
        """Put back faults that could not be recorded."""
        for name, (times, met_at) in met.items():
            self._met[name] = Met(times + self._met.get(name, Met(0, met_at)).times, met_at)

    def know(self, raised: Mapping[str, str | None]) -> None:
        """Remember the raised faults of all workers, and where each was met."""
        self._raised = dict(raised)
        self._over &= self._raised.keys() | self._met.keys()

    def _note(self, claim: Claim, code: str) -> None:
        name = clean(f"{code}:{scheme_of(claim.address)}", CODE_LENGTH)
        self._over.discard(name)
        known = self._met.get(name)
        if known is not None or len(self._met) < MOST:
            met_at = None if code == NO_CHANNEL else _where(claim)
            self._met[name] = Met(1 if known is None else known.times + 1, met_at)

    def _got_through(self, claim: Claim) -> None:
        scheme, where = scheme_of(claim.address), _where(claim)
        open_ones: Iterable[tuple[str, str | None]] = (
            *self._raised.items(),
            *((name, met.met_at) for name, met in self._met.items()),
        )
        self._over.update(
            name for name, met_at in open_ones if name.partition(":")[2] == scheme and met_at in (None, where)
        )


def _where(claim: Claim) -> str:
    """Whose credentials and server these are: the subscription's own, those of a host, or those of a whole channel."""
    if claim.subscription_id is not None and has_host(claim.address):
        return f"subscription:{claim.subscription_id}"
    return place_of(claim.address)


TYPE = "sendonce.alert"
SECONDS = 10.0
_CHANNEL = {"webhook": "it needs: pip install 'sendonce[http]'", "mail": "describe one with [mail] and [smtp]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What people are told: the same for every try to tell it."""

    name: str
    message: str
    is_over: bool
    at: datetime

    @property
    def state(self) -> str:
        return "over" if self.is_over else "raised"

    def as_json(self) -> str:
        return json.dumps({"alert": self.name, "state": self.state, "message": self.message, "at": self.at.isoformat()})


@dataclass(frozen=True, slots=True)
class Untold:
    """Why a notice did not get through; `for_good` when another try will not help."""

    reason: str
    for_good: bool = False


class AlertTransport:
    """One address that alerts are sent to."""

    def __init__(
        self, way: str, address: str, channel: Channel, namespace: str, credentials: Credentials = NONE
    ) -> None:
        self.way = way
        self._address = address
        self._channel = channel
        self._namespace = namespace
        self._credentials = credentials

    async def tell(self, notice: Notice, attempt: int) -> Untold | None:
        """Send the notice once. Never raises: a failure here must not reach the worker."""
        is_mail = scheme_of(self._address) == "mailto"
        message = Message(
            address=self._address,
            body=_mail(notice, self._address) if is_mail else notice.as_json(),
            has_content=is_mail,
            type=TYPE,
            key=f"{notice.name}/{notice.state}/{notice.at.isoformat()}",
            recorded_at=notice.at,
            attempt=attempt,
            credentials=self._credentials,
            namespace=self._namespace,
            destination=self._address,
        )
        try:
            async with asyncio.timeout(SECONDS + 1):
                outcome = await self._channel.send(message, timeout=SECONDS)
            if isinstance(outcome, Delivered | Accepted):
                return None
            return Untold(outcome.code, for_good=isinstance(outcome, Refused))
        except Exception as error:  # a channel's own fault, and its text may hold what is secret
            return Untold(type(error).__name__)


def transports_of(settings: AlertSettings, channels: Channels, namespace: str) -> list[AlertTransport]:
    """Return the configured transports, besides the log; ConfigError when no channel serves one of them."""
    signing = () if settings.webhook_secret is None else (key_of(settings.webhook_secret),)
    transports = []
    for way, address, credentials in (
        ("webhook", settings.webhook, Credentials(signing=signing)),
        ("mail", settings.mail, NONE),
    ):
        if address is not None:
            channel = channels.find(address)
            if channel is None:
                scheme = scheme_of(address)
                raise ConfigError(f"[alerts] {way}: this worker has no channel for {scheme}:; {_CHANNEL[way]}")
            transports.append(AlertTransport(way, address, channel, namespace, credentials))
    return transports


def _mail(notice: Notice, address: str) -> str:
    subject = f"sendonce: {notice.name} ({notice.state})"
    return Email(address.removeprefix("mailto:"), subject=subject, text=f"{notice.message}\n").content()


TRIES = 5
MOST_UNTOLD = 100


class _Owed(NamedTuple):
    transport: AlertTransport
    notice: Notice
    tries: int


class Alerter:
    """One for each worker. The database says which of them tells; nothing here can stop the worker."""

    def __init__(
        self, store: AlertStore, settings: AlertSettings, transports: Sequence[AlertTransport], emit: Emit
    ) -> None:
        self._store = store
        self._settings = settings
        self._transports = transports
        self._emit = emit
        self._faults = OwnFaults()
        self._owed: deque[_Owed] = deque(maxlen=MOST_UNTOLD)
        self._troubles = Troubles(lambda trouble: emit(AlertFailed(way="database", reason=trouble)))

    def note(self, results: Sequence[Result]) -> None:
        """Note a result: a fault on our side, or what ends one."""
        self._faults.note(results)

    async def run(self) -> None:
        """Check at every interval, the first time after one: a new worker knows nothing yet."""
        while True:
            await asyncio.sleep(self._settings.every.total_seconds())
            await self.look()

    async def look(self) -> None:
        """Check once and send this worker's notices; then retry those that failed before."""
        await self._troubles.survive(self._look)
        await self._pay()

    async def _look(self) -> None:
        readings = await self._store.readings(self._settings.repeat)
        known = {row.name: row for row in await self._store.alerts()}
        met = self._faults.take()
        try:
            for change in judge(self._settings, readings, known, met=met, over=self._faults.over):
                if await self._is_mine(change):
                    is_over = not isinstance(change, Raise)
                    self._tell(Notice(name=change.name, message=change.message, is_over=is_over, at=readings.now))
        except StoreBusy:
            self._faults.put_back(met)
            raise
        raised = {row.name: row.met_at for row in known.values() if row.is_raised and ":" in row.name}
        self._faults.know(raised | {name: each.met_at for name, each in met.items()})

    async def _is_mine(self, change: Change) -> bool:
        """True for the one worker that sends this notice."""
        if isinstance(change, Raise):
            return await self._store.raise_alert(
                change.name,
                change.message,
                seen=change.seen,
                repeat=self._settings.repeat,
                size=change.size,
                met_at=change.met_at,
            )
        return await self._store.clear_alert(change.name)

    def _tell(self, notice: Notice) -> None:
        if self._settings.log:
            self._emit(Alerted(name=notice.name, message=notice.message, is_over=notice.is_over))
        self._owed.extend(_Owed(transport, notice, 0) for transport in self._transports)

    async def _pay(self) -> None:
        """Send the notices that are owed, each transport by itself: one that hangs delays no other."""
        owed = list(self._owed)
        self._owed.clear()
        by_way = [[each for each in owed if each.transport is transport] for transport in self._transports]
        await asyncio.gather(*(self._pay_in_order(mine) for mine in by_way if mine))

    async def _pay_in_order(self, owed: Sequence[_Owed]) -> None:
        for position, (transport, notice, tries) in enumerate(owed):
            failure = await transport.tell(notice, tries + 1)
            if failure is None:
                continue
            self._emit(AlertFailed(way=transport.way, reason=failure.reason))
            if not failure.for_good and tries + 1 < TRIES:
                self._owed.append(_Owed(transport, notice, tries + 1))
                self._owed.extend(owed[position + 1 :])
                return
