"""An app for `sendonce worker --app`: kills its own process with SIGKILL at the n-th pass of a checkpoint."""

import os
import signal
from itertools import count

from sendonce import checkpoints
from sendonce.channels.registry import Channels

POINT, PASS = "SENDONCE_TEST_POINT", "SENDONCE_TEST_PASS"

channels = Channels()


def install(wanted: str, nth: int) -> None:
    passes = count(1)

    def die(point: str) -> None:
        if point == wanted and next(passes) == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoints.install(die)


if POINT in os.environ:  # only in the worker that is to die, never in the test that asks for the names above
    install(os.environ[POINT], int(os.environ[PASS]))
