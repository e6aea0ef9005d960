"""A home-made outbox, as it is written every day and not badly: its row is part of the business transaction; a poller
posts it, waits so long and not longer, and marks it as sent; after five tries it gives up, or a bad row would stay for
ever. Half a second between two rounds is half a minute of real life, here as for the other one."""

import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

TABLE = "create table naive_outbox (id integer primary key, url, payload, tries integer default 0, sent_at real)"
WAITING = "select id, url, payload from naive_outbox where sent_at is null and tries < 5 order by id limit 12"
MARK = "update naive_outbox set tries = tries + 1, sent_at = ? where id = ?"


def add(connection: sqlite3.Connection, url: str, payload: str) -> None:
    connection.execute("insert into naive_outbox (url, payload) values (?, ?)", (url, payload))


def post(url: str, payload: str) -> bool:
    try:
        connection = HTTPConnection(urlsplit(url).netloc, timeout=2)
        connection.request("POST", urlsplit(url).path, payload, {"Content-Type": "application/json"})
        return connection.getresponse().status < 300
    except (OSError, HTTPException):  # it never got there, or only the answer did not get here: who knows
        return False


def work(path: str) -> None:
    connection = sqlite3.connect(path, timeout=10, isolation_level=None)
    with ThreadPoolExecutor(12) as pool:
        while True:
            rows = connection.execute(WAITING).fetchall()
            answers = pool.map(lambda row: post(row[1], row[2]), rows)
            for (id, _, _), arrived in zip(rows, answers, strict=True):
                # Killed before this line, it has sent the order and does not know: the next one sends it again.
                connection.execute(MARK, (time.time() if arrived else None, id))
            time.sleep(0.5)


if __name__ == "__main__":
    work(*sys.argv[1:])
