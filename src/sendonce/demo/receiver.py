"""The receiver: a web server of its own process that acts on orders, counts what it has done, and has its moods.

    POST /sendonce, POST /naive   an order, for that side's inbox: acted upon once per Idempotency-Key, if it has one
    GET  /counts                  what was counted, per inbox
    PUT  /mood                    be slow, busy or well from now on

It acts when an order arrives and answers when it is done, whether or not the one who asked is still there.
"""

import json
import select
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sendonce.demo.inbox import Inbox
from sendonce.demo.plan import Mood, Side


class Receiver(ThreadingHTTPServer):
    """Listens on a socket that it is given, so that its port is known, and refused, before it starts."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, listening: socket.socket, mood: Mood) -> None:
        super().__init__(listening.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.mood = mood
        self.inboxes = {side: Inbox() for side in Side}
        self.server_activate()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Receiver

    def do_GET(self) -> None:
        counts = {side: inbox.counts().as_json() for side, inbox in self.server.inboxes.items()}
        self._answer(200, json.dumps(counts))

    def do_PUT(self) -> None:
        self.server.mood = Mood(self._body())
        self._answer(200, self.server.mood)

    def do_POST(self) -> None:
        inbox = self.server.inboxes[Side(self.path.removeprefix("/"))]
        order = int(json.loads(self._body())["order"])
        answer = inbox.take(order, self.headers.get("Idempotency-Key"), self.server.mood)
        time.sleep(answer.seconds)
        is_heard = not self._is_alone()
        inbox.answered(is_heard=is_heard)
        if is_heard:
            self._answer(answer.status, answer.text)
        else:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""

    def _body(self) -> str:
        return self.rfile.read(int(self.headers["Content-Length"])).decode()

    def _is_alone(self) -> bool:
        """True when the one who asked has hung up."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(descriptor: str, mood: str) -> None:
    """Serve until killed, on the bound socket that was handed over."""
    Receiver(socket.socket(fileno=int(descriptor)), Mood(mood)).serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
