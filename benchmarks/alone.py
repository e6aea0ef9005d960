"""The clients alone: the same requests, or mails, from a plain loop around the library that the channel uses.

python -m benchmarks.alone http|smtp PORT COUNT
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable

import aiohttp
import aiosmtplib

IN_FLIGHT = 100
CONNECTIONS = 10
BODY = b'{"order": 1, "text": "' + b"x" * 1000 + b'"}'
HEADERS = {
    "Content-Type": "application/json",
    "webhook-id": "0" * 40,
    "webhook-timestamp": "1700000000",
    "webhook-signature": "v1," + "0" * 44,
}
MAIL = b"From: a@example.com\r\nTo: b@example.com\r\nSubject: benchmark\r\n\r\n" + b"x" * 1000 + b"\r\n"


async def http(port: int, count: int) -> None:
    url = f"http://127.0.0.1:{port}/hook"
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def post() -> None:
            async with session.post(url, data=BODY, headers=HEADERS, allow_redirects=False) as response:
                await response.read()

        await repeat([post] * IN_FLIGHT, count)


async def smtp(port: int, count: int) -> None:
    clients = [aiosmtplib.SMTP(hostname="127.0.0.1", port=port, start_tls=False) for _ in range(CONNECTIONS)]
    for client in clients:
        await client.connect()

    def sender(client: aiosmtplib.SMTP) -> Callable[[], Awaitable[object]]:
        return lambda: client.sendmail("a@example.com", ["b@example.com"], MAIL)

    await repeat([sender(client) for client in clients], count)
    for client in clients:
        await client.quit()


async def repeat(workers: list[Callable[[], Awaitable[object]]], count: int) -> None:
    """Do it `count` times, with every worker one after the other."""
    left = iter(range(count))

    async def work(send: Callable[[], Awaitable[object]]) -> None:
        for _ in left:
            await send()

    await asyncio.gather(*[work(send) for send in workers])


if __name__ == "__main__":
    import uvloop

    kind, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(http(port, count) if kind == "http" else smtp(port, count))
