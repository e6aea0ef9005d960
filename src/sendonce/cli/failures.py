"""What can go wrong on the command line itself."""

import os


class WrongUse(Exception):
    """The command line makes no sense; the message says what to change."""


class CouldNotLook(Exception):
    """Nobody knows whether something is wrong; the message says why it could not be looked at."""


class OutputFailed(Exception):
    """What was printed could not be written; the message says why."""

    def __init__(self, cause: OSError) -> None:
        why = os.strerror(cause.errno) if cause.errno is not None else str(cause)
        super().__init__(f"the output could not be written: {why}")
