"""An event loop in which nothing is left to chance: virtual time, and a seeded choice of what runs next.

A strand stands for one real event loop: what is scheduled in it runs in order, as asyncio promises. Between strands
any order can happen. A process is one or two strands (worker, lease keeper) that die, and freeze, together.
"""

import asyncio
import contextvars
import sys
import weakref
from asyncio import base_events
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, TypeVar, TypeVarTuple, Unpack

Answer = TypeVar("Answer")
Arguments = TypeVarTuple("Arguments")


class Process:
    """A process of the simulated machines. `fuse`: how many steps it has left to live, zero for no end in sight.

    `cut_off_until`: it alone cannot reach the database before that moment.
    """

    __slots__ = ("cut_off_until", "fuse", "is_dead", "is_frozen", "name", "remains", "strands", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.fuse = 0
        self.cut_off_until = 0.0
        self.strands: list[Strand] = []
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.remains: list[asyncio.Task[Any]] = []


class Strand:
    """What one event loop of a process has still to run, in order."""

    __slots__ = ("is_listed", "process", "queue")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.queue: deque[asyncio.Handle] = deque()
        self.is_listed = False
        process.strands.append(self)


STRAND: contextvars.ContextVar[Strand] = contextvars.ContextVar("strand")


class Stuck(Exception):
    """Nothing can run any more, and nothing ever will."""


class SimulatedLoop(base_events.BaseEventLoop):
    """`sticky` is how likely the strand that has just run goes on: 0 for the wildest order.

    After `most_steps` it is Stuck: what goes on for ever must not hang whoever watches.
    """

    def __init__(self, choice: Random, *, sticky: float, most_steps: int) -> None:
        super().__init__()
        self._random = choice.random
        self._sticky = sticky
        self._now = 1_000.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._runnable: list[Strand] = []
        self._last: Strand | None = None
        self._dead: list[Process] = []
        self._main = Strand(Process("main"))
        self.steps = 0
        self._most_steps = most_steps
        self.on_death: Callable[[Process], None] = lambda process: None
        self.errors: list[str] = []
        self.set_exception_handler(_note_error)

    def time(self) -> float:
        return self._now

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """A generator that a dead process has left is gone with it: nothing of it runs when the memory is collected."""

    def spawn(self, strand: Strand, work: Coroutine[Any, Any, Answer]) -> "asyncio.Task[Answer]":
        """Run this in a strand."""
        context = contextvars.copy_context()
        context.run(STRAND.set, strand)
        return self.create_task(work, context=context)

    def create_task(
        self, coro: Any, *, name: object = None, context: contextvars.Context | None = None
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(coro, loop=self, name="task", context=context)
        strand = STRAND.get(self._main) if context is None else context.get(STRAND, self._main)
        strand.process.tasks.add(task)
        return task

    def kill(self, process: Process) -> None:
        """From now on nothing of it runs ever again: no handler, no `finally`, no last word."""
        process.is_dead = True
        process.remains = list(process.tasks)  # else they would be collected, and their `finally` would run
        for strand in process.strands:
            strand.queue.clear()
            self._unlist(strand)
        self._dead.append(process)
        self.on_death(process)

    def freeze(self, process: Process, seconds: float) -> None:
        """Nothing of it runs for so long; then it goes on as if nothing had happened."""
        if process.is_dead or process.is_frozen:
            return
        process.is_frozen = True
        for strand in process.strands:
            self._unlist(strand)
        context = contextvars.copy_context()
        context.run(STRAND.set, self._main)
        self.call_later(seconds, self._thaw, process, context=context)

    def _thaw(self, process: Process) -> None:
        process.is_frozen = False
        for strand in process.strands:
            if strand.queue:
                self._list(strand)

    def call_soon(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        strand = STRAND.get(self._main) if context is None else context.get(STRAND, self._main)
        handle = asyncio.Handle(callback, args, self, context)
        self._enqueue(strand, handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is dropped when its time comes."""

    def _run_once(self) -> None:
        timers, runnable = self._timers, self._runnable
        if not runnable or (timers and timers[0][0] <= self._now):
            self._turn_clock()
            if not runnable:
                return
        strand = self._last
        if strand is None or not strand.is_listed or self._random() >= self._sticky:
            strand = self._last = runnable[int(self._random() * len(runnable))]
        handle = strand.queue.popleft()
        if not strand.queue:
            self._unlist(strand)
        if not handle._cancelled:
            self._step(strand.process, handle)

    def _turn_clock(self) -> None:
        """Let the timers go off that are due; when nothing else is to do, it is the next one's time."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not self._runnable:
            if not timers:
                raise Stuck("nothing is left to run")
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            timer = heappop(timers)[2]
            if not timer._cancelled:
                self._enqueue(timer._context.get(STRAND, self._main), timer)  # type: ignore[attr-defined]

    def _step(self, process: Process, handle: asyncio.Handle) -> None:
        self.steps += 1
        if self.steps > self._most_steps:
            raise Stuck("it goes on for ever")
        if process.fuse:
            process.fuse -= 1
            if not process.fuse:
                self.kill(process)
                return
        handle._run()

    def _enqueue(self, strand: Strand, handle: asyncio.Handle) -> None:
        if strand.process.is_dead:
            return
        strand.queue.append(handle)
        if not strand.is_listed and not strand.process.is_frozen:
            self._list(strand)

    def _list(self, strand: Strand) -> None:
        if not strand.is_listed:
            strand.is_listed = True
            self._runnable.append(strand)

    def _unlist(self, strand: Strand) -> None:
        if strand.is_listed:
            strand.is_listed = False
            self._runnable.remove(strand)

    def bury(self) -> None:
        """Let go of everything that never ended, when all is checked. What its `finally` does now reaches nobody."""
        noisy, sys.unraisablehook = sys.unraisablehook, lambda what: None
        try:
            for task in asyncio.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())
            for process in self._dead:
                process.remains.clear()
            self._timers.clear()
            self._runnable.clear()
            self.close()
        finally:
            sys.unraisablehook = noisy


def _close(coroutine: Any) -> None:
    for _ in range(20):
        try:
            coroutine.close()
            return
        except BaseException:  # noqa: S112  it awaits in its `finally`: once more, from there
            continue


def _note_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimulatedLoop)
    error = context.get("exception")
    loop.errors.append(f"{context.get('message')}: {type(error).__name__}: {error}")
