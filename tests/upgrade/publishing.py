"""A publisher: records events one by one and in batches until it is told to stop, and says what was committed.

Runs on any version of the package, so it uses what is public.
"""

import json
import os
import signal
import sys
from itertools import count

from sendonce import Draft, Outbox
from sendonce.compose import open_connection
from tests.processes import until

BATCH = 5
# It never runs far ahead of the workers: what is left in the end would take a busy machine minutes.
MOST = 200
WAITING = "select count(*) from sendonce_deliveries where next_attempt_at is not null"


def main(name: str, asked: str, recognised: str) -> None:
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    outbox, database = Outbox(), os.environ["SENDONCE_DATABASE"]

    def draft(key: str) -> Draft:
        return Draft("order.created", {"key": key}, key=key, to=[f"{asked}/{key}", f"{recognised}/{key}"])

    def waiting() -> int:
        with open_connection(database) as connection:
            return int(connection.execute(WAITING).fetchall()[0][0])

    before = waiting()
    for number in count():
        until(lambda: stopping or waiting() <= before + MOST, "the workers to keep up")
        if stopping:
            return
        key = f"{name}-{number}"
        with open_connection(database) as connection:
            if number % 4 == 0:
                keys = [f"{key}-{nth}" for nth in range(BATCH)]
                outbox.publish_many(connection, [draft(each) for each in keys])
            elif number % 4 == 1:
                keys = [f"{key}/1"]  # a request's event has its subject and version for a key
                to = f"{asked}/{key}"
                outbox.request(
                    connection,
                    "review.done",
                    {},
                    key=f"job-{key}",
                    subject=key,
                    version=1,
                    required=to,
                    optional="null:",
                )
            else:
                keys = [key]
                outbox.publish(
                    connection, "order.created", {"key": key}, key=key, to=[f"{asked}/{key}", f"{recognised}/{key}"]
                )
        print(json.dumps(keys), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
