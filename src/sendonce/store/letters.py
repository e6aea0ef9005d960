"""What is done with dead letters is done with all of them or none. The same on every database."""

from collections.abc import Sequence

from sendonce.errors import NotAllowed

# A replay or a repair may be of what was never a dead letter.
_OF_LETTERS = frozenset({"requeue", "discard", "attest"})


def check_all_closed(kind: str, wanted: Sequence[int], closed: Sequence[int]) -> None:
    """NotAllowed when one of these dead letters was not there to be closed any more."""
    if kind in _OF_LETTERS and len(closed) < len(set(wanted)):
        raise NotAllowed("one of these dead letters was closed by another person meanwhile; nothing was done")
