"""Where an exception came from: types, files, lines and functions. Never a text, a value or a line of source."""

import traceback

MOST_FRAMES = 20
MOST_ERRORS = 5


def frames_of(error: BaseException) -> tuple[str, ...]:
    """The exception with what it was raised from, the first cause first; the innermost place of each last."""
    chain: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in chain and len(chain) < MOST_ERRORS:
        chain.append(each)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return tuple(line for one in reversed(chain) for line in _frames(one))


def _frames(error: BaseException) -> list[str]:
    places = list(traceback.walk_tb(error.__traceback__))[-MOST_FRAMES:]
    codes = [(frame.f_code, line) for frame, line in places]
    return [type(error).__name__, *(f"{code.co_filename}:{line} {code.co_name}" for code, line in codes)]
