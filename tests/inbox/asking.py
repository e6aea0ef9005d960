"""A receiver of webhooks that can be asked: a real HTTP server in a thread, with an inbox on a database of its own."""

import threading
from collections import Counter
from collections.abc import MutableMapping
from typing import Any, Self

import uvicorn

from sendonce import BadWebhook, Inbox
from sendonce.inbox.asgi import Application, Receive, Scope, Send, receipts
from sendonce.inbox.webhooks import verify
from sendonce.signing import new_secret
from tests.processes import SECONDS, until
from tests.store.databases import Database

CONSUMER = "orders"


class Serving:
    """Any ASGI application on a free port of loopback."""

    def __init__(self, app: Application) -> None:
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="critical", ws="none", http="h11", interface="asgi3"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self._server.started or not self._thread.is_alive(), "the server to listen")
        [server] = self._server.servers
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=SECONDS)


class AskedReceiver(Serving):
    """POST /hook is handled once; GET /receipts/TOKEN says whether it was. `posts` and `asked` count by token."""

    def __init__(self, database: Database, **options: Any) -> None:
        super().__init__(self._handle)
        self.secret = new_secret()
        self.posts: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.inbox = Inbox()
        self._database = database
        given: dict[str, Any] = {"secrets": self.secret, **options}
        self._receipts = receipts(self.inbox, database.connection, consumer=CONSUMER, **given)

    @property
    def ask(self) -> str:
        return f"{self.url}/receipts/{{token}}"

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "GET":
            if scope["type"] == "http":
                self.asked[str(scope["path"]).rpartition("/")[2]] += 1
            return await self._receipts(scope, receive, send)
        status = self._take(scope, await _body(receive))
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        return None

    def _take(self, scope: Scope, body: bytes) -> int:
        try:
            webhook = verify([(name.decode(), value.decode()) for name, value in scope["headers"]], body, self.secret)
        except BadWebhook:
            return 401
        self.posts[webhook.id] += 1
        with self._database.connection() as connection, self.inbox.once(connection, CONSUMER, webhook.id) as first:
            if first:
                first.result = "handled"
        return 204


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message: MutableMapping[str, Any] = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
