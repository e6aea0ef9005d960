"""A consumer as a process of its own: it takes a message from a folder, handles it, publishes what follows, and
acknowledges by deleting the file. It dies by SIGKILL at the step that it is told.

    python -m tests.inbox.chain ADDRESS FOLDER [STEP]
"""

import os
import signal
import sys
from pathlib import Path

from sendonce import Inbox, Outbox
from sendonce.compose import open_connection

STEPS = ("taken", "received", "handled", "published", "left", "committed", "acknowledged")


def main(address: str, folder: str, dies_at: str = "") -> None:
    def reached(step: str) -> None:
        if step == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    for message in sorted(Path(folder).iterdir()):
        reached("taken")
        with open_connection(address) as connection:
            with Inbox().once(connection, "wallet", message.name) as first:
                reached("received")
                if first:
                    connection.execute("insert into memos (id, body) values (1, 'deducted')")
                    reached("handled")
                    Outbox().publish(connection, "payment.settled", {}, key=message.name, to="null:shop")
                    reached("published")
            reached("left")
        reached("committed")
        message.unlink()
        reached("acknowledged")


if __name__ == "__main__":
    main(*sys.argv[1:])
