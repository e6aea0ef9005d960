"""What went wrong inside a channel: which error and where, without its text, which may hold what is secret."""

import os


def named(error: BaseException) -> str:
    """RuntimeError in shop.py, line 8: the place where it was raised."""
    name, place = type(error).__name__, error.__traceback__
    if place is None:
        return name
    while place.tb_next is not None:
        place = place.tb_next
    return f"{name} in {os.path.basename(place.tb_frame.f_code.co_filename)}, line {place.tb_lineno}"
