"""What went wrong on our side: which error and where, without its text, which may hold what is secret."""

import errno
import os

# What our own machine has too little of: descriptors, memory, buffers, ports to dial from.
_SHORT = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL}


def lack_of(error: BaseException) -> str | None:
    """What our own machine had too little of, where that is why it failed: nobody else's fault."""
    if isinstance(error, OSError) and error.errno in _SHORT:
        return f"the worker's machine is at a limit of its own: {os.strerror(error.errno)}"
    return None


def named(error: BaseException) -> str:
    """RuntimeError in shop.py, line 8: the place where it was raised."""
    name, place = type(error).__name__, error.__traceback__
    if place is None:
        return name
    while place.tb_next is not None:
        place = place.tb_next
    return f"{name} in {os.path.basename(place.tb_frame.f_code.co_filename)}, line {place.tb_lineno}"
