"""An app for `sendonce worker --app`: SIGKILLs its own process inside the transaction that settles on SQLite."""

import os
import signal
from collections.abc import Sequence

from sendonce.channels.registry import Channels
from sendonce.domain.attempts import Result
from sendonce.sql.steps import Steps
from sendonce.store.sqlite import settle

WANTED = "SENDONCE_TEST_DURING_SETTLE"

channels = Channels()


def _die(results: Sequence[Result]) -> Steps[None]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield from ()


if WANTED in os.environ:  # only in the worker that is to die
    settle._move = _die  # attempts are closed, deliveries not moved, nothing committed
