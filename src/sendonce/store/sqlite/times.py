"""Times in the database are whole microseconds since 1970, UTC."""

import time
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def system_clock() -> int:
    return time.time_ns() // 1000


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def microseconds(span: timedelta) -> int:
    return span // _MICROSECOND


def stamp(at: datetime) -> int:
    """The time as it is written; a time without a zone is taken as local, as everywhere in Python."""
    return (at.astimezone(UTC) - EPOCH) // _MICROSECOND
