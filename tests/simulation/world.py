"""The outside: receivers that accept, refuse, hang, forget and repeat; and what really arrived at them."""

import asyncio
import contextvars
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

from sendonce.channels.http.answers import outcome_of_status
from sendonce.channels.protocol import Message
from sendonce.channels.registry import Channels
from sendonce.domain.outcomes import (
    Accepted,
    CannotTell,
    Deferred,
    Delivered,
    Failed,
    Fault,
    Found,
    LookUp,
    NoAnswer,
    NotThere,
    Outcome,
    Refused,
)
from tests.simulation.loop import STRAND, Process, SimulatedLoop, Strand

# What each kind of receiver can do: recognise our token, be asked, or neither (and then what was chosen for doubt).
TOKEN, ASKED, HOLD, RESEND, HOOK = "token", "asked", "hold", "resend", "hook"
KINDS = (TOKEN, ASKED, HOLD, RESEND, HOOK)
RECOGNISES = frozenset({TOKEN})
CAN_BE_ASKED = frozenset({ASKED, HOOK})


@dataclass(slots=True)
class Send:
    """One request that was written to the wire."""

    tick: int
    at: float
    process: str
    kind: str
    intent: str
    token: str
    delivery_id: int
    attempt: int
    lease_state: str | None
    is_signed: bool
    arrivals: list[int] = field(default_factory=list)
    effects: list[int] = field(default_factory=list)


class Asking(NamedTuple):
    """One look-up that was answered. `forgotten`: the receiver had it once."""

    tick: int
    intent: str
    delivery_id: int
    attempt: int
    answer: str
    forgotten: bool


@dataclass(slots=True)
class Weather:
    """How likely each thing is that can happen to one request; what is left over goes well."""

    lost: float = 0.0
    unanswered: float = 0.0
    slow: float = 0.0
    late: float = 0.0
    fails: float = 0.0
    refuses: float = 0.0
    gone: float = 0.0
    breaks: float = 0.0
    defers: float = 0.0
    accepted: float = 0.0
    twice: float = 0.0
    no_answer: float = 0.0
    death: float = 0.0
    down: float = 0.0
    errs: float = 0.0


class World:
    def __init__(
        self, loop: SimulatedLoop, dice: Random, tick: Callable[[], int], lookout: Callable[[int, int], str | None],
        note: Callable[..., None],
    ) -> None:  # fmt: skip
        self._loop = loop
        self._dice = dice
        self._tick = tick
        self._lookout = lookout
        self._note = note
        self._network = Strand(Process("network"))
        self._context = contextvars.copy_context()
        self._context.run(STRAND.set, self._network)
        self.weather = Weather()
        self.sends: list[Send] = []
        self.askings: list[Asking] = []
        # What receivers know now, and what they ever had: by token.
        self.known: dict[str, str] = {}
        self.had: set[str] = set()
        self.forgotten: set[str] = set()

    def channels(self, process: Process, lacking: Collection[str] = ()) -> Channels:
        """A worker's registry as a process of its own has it: all kinds of receivers but these."""
        channels = Channels()
        for kind in KINDS:
            if kind not in lacking:
                receiver = AskedReceiver if kind in CAN_BE_ASKED else Receiver
                channels.add(receiver(self, process, kind), kind, **({"if_unsure": "hold"} if kind == HOLD else {}))
        return channels

    def forget(self) -> None:
        """A provider loses its memory."""
        self.forgotten |= set(self.known)
        self.known.clear()

    async def carry(self, process: Process, kind: str, message: Message) -> Outcome:
        """One request: written to the wire now, whatever becomes of its sender."""
        dice, weather = self._dice.random, self.weather
        send = Send(
            self._tick(), self._loop.time(), process.name, kind, _intent(message), message.token, message.delivery_id,
            message.attempt, self._lookout(message.delivery_id, message.attempt), bool(message.credentials.signing),
        )  # fmt: skip
        self.sends.append(send)
        self._note(process, "sends", send)
        answer: asyncio.Future[Outcome] = self._loop.create_future()
        way = 0.001 + dice() * 0.02
        if dice() < weather.late:
            way += 0.3 + dice() * 6
        roll, fate = dice(), "fine"
        for name in (
            "lost",
            "fails",
            "refuses",
            "gone",
            "breaks",
            "defers",
            "unanswered",
            "slow",
            "accepted",
            "down",
            "errs",
        ):
            roll -= getattr(weather, name)
            if roll < 0:
                fate = name
                break
        back = 0.001 + dice() * 0.02 + (3 * dice() if fate == "slow" else 0.0)
        if fate != "lost":
            self._later(way, self._arrive, send, fate, back, answer)
            if fate not in ("fails", "refuses", "gone", "defers", "down") and dice() < weather.twice:
                self._later(way + dice() * 2, self._arrive, send, "unanswered", 0.0, answer)
        if weather.death and dice() < weather.death:
            self._die_within(process, way + back)
        return await answer

    def _die_within(self, process: Process, seconds: float) -> None:
        self._later(self._dice.random() * seconds, self._strike, process)

    def _strike(self, process: Process) -> None:
        if not process.is_dead:
            self._note(process, "dies while it sends")
            self._loop.kill(process)

    def _arrive(self, send: Send, fate: str, back: float, answer: "asyncio.Future[Outcome]") -> None:
        tick = self._tick()
        send.arrivals.append(tick)
        outcome: Outcome | BaseException | None
        match fate:
            case "fails":
                outcome = Failed("503", fault=Fault.CHANNEL if tick % 2 else None)
            case "down":
                outcome = Failed("down", fault=Fault.CHANNEL)
            case "refuses":
                outcome = Refused("http_400")
            case "gone":
                outcome = Refused("http_410")
            case "defers":
                # Every other one does not care how soon.
                outcome = Deferred("busy", again_in=timedelta(seconds=0.3 * (tick % 2)))
            case _:
                outcome = self._accept(send, tick, fate)
        self._note(None, f"arrives: {fate}", send)
        if outcome is not None:
            self._later(back, _answer, answer, outcome)

    def _accept(self, send: Send, tick: int, fate: str) -> Outcome | BaseException | None:
        """It has an effect, unless this receiver recognises it."""
        name = self.known.get(send.token)
        if name is None or send.kind not in RECOGNISES:
            send.effects.append(tick)
            self.had.add(send.token)
            name = self.known[send.token] = f"n-{tick}"
        if fate == "unanswered":
            return None
        if fate == "errs":
            return outcome_of_status(500 + tick % 3, None, None)
        if fate == "breaks":
            return ConnectionError("reset")
        return Accepted(name) if fate == "accepted" else Delivered(name)

    async def ask(self, process: Process, message: Message) -> LookUp:
        dice = self._dice.random
        answer: asyncio.Future[LookUp] = self._loop.create_future()
        self._later(0.001 + dice() * 0.02, self._look, message, answer)
        if self.weather.death and dice() < self.weather.death:
            self._die_within(process, 0.05)
        return await answer

    def _look(self, message: Message, answer: "asyncio.Future[LookUp]") -> None:
        roll = self._dice.random()
        name = self.known.get(message.token)
        forgotten = name is None and message.token in self.had
        found: LookUp
        if roll < self.weather.no_answer:
            if roll < self.weather.no_answer / 2:
                return  # for ever
            found = NoAnswer("503")
        elif forgotten and self._dice.random() < 0.5:
            found = CannotTell("too_old")
        else:
            found = NotThere() if name is None else Found(name)
        told = type(found).__name__
        self.askings.append(
            Asking(self._tick(), _intent(message), message.delivery_id, message.attempt, told, forgotten)
        )
        self._note(None, f"look-up of {message.delivery_id}/{message.attempt}: {told}")
        self._later(0.001 + self._dice.random() * 0.02, _answer, answer, found)

    def _later(self, seconds: float, call: Callable[..., None], *args: Any) -> None:
        self._loop.call_later(seconds, call, *args, context=self._context)


class Receiver:
    """One worker's channel to one kind of receiver."""

    def __init__(self, world: World, process: Process, kind: str) -> None:
        self._world = world
        self._process = process
        self._kind = kind

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        return await self._world.carry(self._process, self._kind, message)


class AskedReceiver(Receiver):
    """One that can be asked."""

    async def look_up(self, message: Message, *, timeout: float) -> LookUp:
        return await self._world.ask(self._process, message)


def _answer(answer: "asyncio.Future[Any]", outcome: object) -> None:
    if answer.done():
        return
    if isinstance(outcome, BaseException):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _intent(message: Message) -> str:
    """What was meant, told by the content itself and where it went."""
    return f"{message.body}>{message.address}"
