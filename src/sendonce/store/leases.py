"""Ids of leases: random, so that none is given out twice, whatever commits a database has lost."""

from secrets import randbits

# As many as every reader of JSON can hold.
BITS = 53


def new_id() -> int:
    """An id that no lease had before: not on this database, and not in a life of it that was undone."""
    return randbits(BITS)
