"""Worker processes that start together: each says `ready`, waits for a line, works, and says when it was done.

python -m benchmarks.processes drain floor2|ours URL
python -m benchmarks.processes listen floor2|ours|ours-notify URL
"""

import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks import floors, ours


@dataclass(frozen=True, slots=True)
class Drained:
    """How long the processes took together, and the most memory one of them had, in MB."""

    seconds: float
    memory: float


def drain(kind: str, url: str, processes: int) -> Drained:
    """Start processes that empty the backlog, together; how long until the last was done."""
    workers = [_start("drain", kind, url) for _ in range(processes)]
    try:
        begun = _release(workers)
        answers = [json.loads(_line(worker)) for worker in workers]
    finally:
        _end(workers)
    return Drained(max(each["done"] for each in answers) - begun, max(each["memory"] for each in answers))


@contextlib.contextmanager
def listening(kind: str, url: str):  # type: ignore[no-untyped-def]
    """A worker that notes what arrives when; the list is filled when the block ends."""
    worker = _start("listen", kind, url)
    arrivals: dict[int, float] = {}
    try:
        _release([worker])
        yield arrivals
        assert worker.stdin is not None
        worker.stdin.write("stop\n")
        worker.stdin.flush()
        arrivals.update({int(number): at for number, at in json.loads(_line(worker)).items()})
    finally:
        _end([worker])


def _start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.processes", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "SENDONCE_ALLOW_NETWORKS": "127.0.0.0/8,::1/128"},
        text=True,
    )


def _release(workers: "list[subprocess.Popen[str]]") -> float:
    for worker in workers:
        if _line(worker).strip() != "ready":
            raise RuntimeError("a benchmark process did not start")
    begun = time.monotonic()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return begun


def _line(worker: "subprocess.Popen[str]") -> str:
    assert worker.stdout is not None
    return worker.stdout.readline()


def _end(workers: "list[subprocess.Popen[str]]") -> None:
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.communicate(timeout=30)


def _go() -> None:
    """Say ready, and wait for the others. Called once connected; later calls (the keeper's) do nothing."""
    global _gone
    if not _gone:
        _gone = True
        print("ready", flush=True)
        sys.stdin.readline()


_gone = False


async def _drain(kind: str, url: str) -> None:
    await (floors.drain_2(url, _go) if kind == "floor2" else ours.drain(url, _go))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"done": time.monotonic(), "memory": memory}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def _listen(kind: str, url: str) -> None:
    seen: dict[int, float] = {}
    stop = asyncio.Event()

    async def stop_when_told() -> None:
        while not _gone:
            await asyncio.sleep(0.05)
        await asyncio.to_thread(sys.stdin.readline)
        stop.set()

    def note(number: int) -> None:
        seen[number] = time.monotonic()

    told = asyncio.create_task(stop_when_told())
    if kind == "floor2":
        await floors.listen_2(url, note, _go, stop)
    else:
        await ours.listen(url, note, _go, stop, notify=kind == "ours-notify")
    await told
    print(json.dumps(seen), flush=True)


def main() -> None:
    command, kind, url = sys.argv[1:]
    work = _drain(kind, url) if command == "drain" else _listen(kind, url)
    if kind == "floor2":
        asyncio.run(work)
        return
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


if __name__ == "__main__":
    main()
