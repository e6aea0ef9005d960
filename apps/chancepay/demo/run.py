"""A run in which messages are doubled, a listener is killed and reports are lost; at its end the ledgers are compared.

python -m apps.chancepay demo --mode sure | chance
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from apps.chancepay.demo.lossy import Loss, LossyWay
from apps.chancepay.demo.parts import Program, broker, double, with_stream
from apps.chancepay.keys import Role, new_key
from apps.chancepay.peer import Address, Peer
from apps.chancepay.reconcile import reconcile, told
from apps.chancepay.settings import Mode
from sendonce.contrib.sqlalchemy import async_engine

WALLETS, PAID_IN = 5, 5_000
SIDES = ("requests", "wallet")


@dataclass(slots=True)
class Books:
    """The demonstration's own ledger, kept beside the services: it knows nothing of their tables."""

    payments: dict[str, tuple[str, int]] = field(default_factory=dict)
    refunds: dict[str, tuple[str, int]] = field(default_factory=dict)

    def expected(self, wallet: str, succeeded: set[str]) -> int:
        taken = sum(amount for uuid, (whose, amount) in self.payments.items() if whose == wallet and uuid in succeeded)
        back = sum(amount for uuid, (whose, amount) in self.refunds.items() if whose == wallet and uuid in succeeded)
        return PAID_IN - taken + back


class Demonstration:
    """Everything that runs, and who may call whom."""

    def __init__(self, mode: Mode, payments: int, folder: Path) -> None:
        self._mode, self._payments, self._folder = mode, payments, folder
        self._dice = random.Random(11)  # noqa: S311, the same run every time
        self._programs: list[Program] = []
        self._keys: dict[tuple[str, Role], str] = {}
        self._nats = ""
        self._way = LossyWay(self._lose)
        self._urls: dict[str, str] = {}

    async def run(self) -> bool:
        """Whether both ledgers agree with ours, and nothing is left that waits for a person."""
        async with AsyncExitStack() as stack:
            stack.callback(self._stop)
            program, self._nats = broker(self._folder)
            self._programs.append(program)
            await program.says("Server is ready")
            await stack.enter_async_context(self._way)
            client = await with_stream(self._nats)
            stack.push_async_callback(client.close)
            await self._start()
            stop = asyncio.Event()
            doubling = asyncio.create_task(double(client, 3, stop))
            try:
                books = await self._trade()
                await self._settle(books)
            finally:
                stop.set()
            say(f"messages doubled on the way: {await doubling}")
            return await self._compare(books)

    async def _start(self) -> None:
        say(f"mode {self._mode}; what the services say is in {self._folder} until this ends")
        for name in SIDES:
            await self._command(name, "migrate")
            for role in ("caller", "internal"):
                self._keys[name, role] = await self._key(name, role)
        self._urls["wallet"] = await self._serve("wallet", peer=self._way.url)
        self._urls["requests"] = self._way.target = await self._serve("requests", peer=self._urls["wallet"])
        self._listener = self._listen(1)
        say(
            f"requests is at {self._urls['requests']}, the wallet at {self._urls['wallet']}, the broker at {self._nats}"
        )

    async def _trade(self) -> Books:
        """Pay, and kill the listener in the middle of it."""
        books = Books()
        async with self._peer("wallet") as wallet, self._peer("requests") as requests:
            for number in range(WALLETS):
                await wallet.ask("POST", "/wallets", {"id": f"wallet-{number}"})
                await wallet.ask(
                    "POST", f"/wallets/wallet-{number}/deposits", {"uuid": str(uuid4()), "amount": PAID_IN}
                )
            for count in range(self._payments):
                if count == self._payments // 2:
                    self._listener.kill()
                    say("killed: the wallet's listener, in the middle of its work")
                    self._listener = self._listen(2)
                body = {"wallet": f"wallet-{self._dice.randrange(WALLETS)}", "amount": self._dice.randint(1, 300)}
                made = await requests.ask("POST", "/payments", body)
                books.payments[made["uuid"]] = (made["wallet"], made["amount"])
            say(f"payments requested: {len(books.payments)}")
        return books

    async def _settle(self, books: Books) -> None:
        """Wait for what comes by itself; then refund some, and wait for that too."""
        say("waiting until what can be decided is decided")
        statuses = await self._still(books)
        async with self._peer("requests") as requests:
            paid = sorted(uuid for uuid, status in statuses.items() if status == "SUCCEED")[: self._payments // 10]
            for uuid in paid:
                whose, amount = books.payments[uuid]
                made = await requests.ask("POST", f"/payments/{uuid}/refunds", {"amount": (amount + 1) // 2})
                books.refunds[made["uuid"]] = (whose, made["amount"])
        say(f"refunds requested: {len(books.refunds)}")
        await self._still(books)
        lost = {loss.value: count for loss, count in self._way.lost.items() if loss is not Loss.NONE}
        say(f"reports lost on the way: {sum(lost.values())} {lost}")

    async def _compare(self, books: Books) -> bool:
        """Reconcile, and put the wallet's balances beside ours."""
        async with self._peer("requests", "internal") as requests, self._peer("wallet", "internal") as wallet:
            before = Counter((await self._statuses(books)).values())
            outcome = await reconcile(requests, wallet, everything=True)
        say(f"before the reconciliation: {dict(before)}; reconciled: {told(outcome)}")
        statuses = await self._statuses(books)
        succeeded = {uuid for uuid, status in statuses.items() if status == "SUCCEED"}
        say(f"after it: {dict(Counter(statuses.values()))}")
        agreed = not outcome.listed and not outcome.audit
        async with self._peer("wallet") as wallet:
            for number in range(WALLETS):
                name = f"wallet-{number}"
                has, wanted = (await wallet.ask("GET", f"/wallets/{name}"))["balance"], books.expected(name, succeeded)
                agreed &= has == wanted
                say(f"  {name}  has {has:>6}, by our own books {wanted:>6}  {'=' if has == wanted else 'DIFFERENT'}")
        say("the ledgers agree" if agreed else "the ledgers do NOT agree")
        return agreed

    async def _still(self, books: Books) -> dict[str, str]:
        """The statuses, when nothing is PENDING any more, or nothing has changed for a while (lost reports)."""
        before: dict[str, str] = {}
        unchanged = 0
        while True:
            now = await self._statuses(books)
            unchanged = unchanged + 1 if now == before else 0
            is_over = "PENDING" not in now.values()
            if is_over or (self._mode is Mode.CHANCE and unchanged > 20):
                return now
            before = now
            await asyncio.sleep(0.3)

    async def _statuses(self, books: Books) -> dict[str, str]:
        found: dict[str, str] = {}
        async with self._peer("requests", "internal") as requests:
            async for each in requests.pages("/internal/requests", "requests"):
                found[each["order"]["uuid"]] = each["status"]
        return {uuid: status for uuid, status in found.items() if uuid in books.payments or uuid in books.refunds}

    def _stop(self) -> None:
        for each in reversed(self._programs):
            each.stop()

    def _lose(self) -> Loss:
        """One report in five does not come through."""
        return self._dice.choice((Loss.BEFORE, Loss.AFTER, Loss.REFUSED, *[Loss.NONE] * 12))

    def _peer(self, name: str, role: Role = "caller") -> Peer:
        return Peer(Address(self._urls[name], self._keys[name, role]))

    def _listen(self, number: int) -> Program:
        return self._program(f"listener-{number}", "wallet", "listen", peer=self._way.url)

    async def _serve(self, name: str, *, peer: str) -> str:
        program = self._program(name, name, "serve", "--port", "0", peer=peer)
        return (await program.says(r" is at (http://\S+),"))[1]

    def _program(self, log: str, name: str, command: str, *options: str, peer: str) -> Program:
        other = "wallet" if name == "requests" else "requests"
        words = ["-m", f"apps.chancepay.{name}", command, *self._options(name), *options, "--peer", peer]
        environment = {**self._environment(), "CHANCEPAY_PEER_KEY": self._keys[other, "internal"]}
        made = Program(log, sys.executable, *words, folder=self._folder, environment=environment)
        self._programs.append(made)
        return made

    async def _command(self, name: str, command: str) -> None:
        words = [sys.executable, "-m", f"apps.chancepay.{name}", command, *self._options(name)]
        process = await asyncio.create_subprocess_exec(*words, env={**os.environ, **self._environment()})
        if await process.wait():
            raise RuntimeError(f"{command} of {name} has failed")

    async def _key(self, name: str, role: Role) -> str:
        engine = async_engine(self._database(name))
        try:
            return await new_key(engine, f"the demonstration's {role}", role)
        finally:
            await engine.dispose()

    def _options(self, name: str) -> list[str]:
        return ["--database", self._database(name), "--mode", self._mode]

    def _database(self, name: str) -> str:
        return f"sqlite:///{self._folder / name}.db"

    def _environment(self) -> Mapping[str, str]:
        # What is lost is sent again after a second, so that nobody has to wait for the usual ten.
        return {"CHANCEPAY_NATS": self._nats, "SENDONCE_POLICY_FIRST_DELAY": "1s"}


def say(sentence: str) -> None:
    print(sentence, flush=True)


def main(arguments: Sequence[str]) -> int:
    """0 when the ledgers agree at the end."""
    parser = argparse.ArgumentParser(prog="python -m apps.chancepay demo", description=__doc__)
    parser.add_argument("--mode", choices=[each.value for each in Mode], default="sure")
    parser.add_argument("--payments", type=int, default=200)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="chancepay-") as folder:
        return 0 if asyncio.run(Demonstration(Mode(args.mode), args.payments, Path(folder)).run()) else 1
