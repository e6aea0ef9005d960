"""The receiver inside a program's own event loop: for demonstrations, and for tests of what an application sends."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple


class Receiving(NamedTuple):
    """Where it listens: `http` takes anything below it, `smtp` is for SENDONCE_SMTP_URL."""

    http: str
    smtp: str


@asynccontextmanager
async def embedded_receiver(
    *, host: str = "127.0.0.1", is_quiet: bool = False, behaviours: Mapping[str, Mapping[str, object]] | None = None
) -> AsyncIterator[Receiving]:
    """Receive by HTTP and SMTP on free ports while the block runs, and print what arrives unless it is to be quiet.

    `behaviours` are those of `sendonce receive`, by the beginning of a path or of `mailto:` and an address: as in
    `{"mailto:nobody@": {"mail_fail": "550"}}`.
    """
    from sendonce.devtools.receive.desk import Desk
    from sendonce.devtools.receive.doors import Door
    from sendonce.devtools.receive.lines import line
    from sendonce.devtools.receive.mail import AlertTransport
    from sendonce.devtools.receive.memory import Arrival, Memory
    from sendonce.devtools.receive.rules import Rules
    from sendonce.devtools.receive.web import Web

    def tell(arrival: Arrival, said: str) -> None:
        if not is_quiet:
            print(line(arrival, said, is_verbose=False), flush=True)

    rules = Rules()
    for path, settings in (behaviours or {}).items():
        rules.change(settings, path)
    desk = Desk(rules, Memory(0), tell)
    web, mail = Door(host, 0, Web(desk, None).server), Door(host, 0, AlertTransport(desk))
    try:
        await web.open()
        await mail.open()
        yield Receiving(f"http://{web}", f"smtp+plain://{mail}")
    finally:
        web.leave()
        mail.leave()
