"""A missing table, said in one sentence instead of the driver's words. All other errors stay the driver's."""

from types import TracebackType

from sendonce.errors import SchemaMismatch

_SQLSTATES = {"42P01", "42703"}


class SchemaExpected:
    """Around a statement of ours: when its tables are not there, SchemaMismatch says what to run."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # SQLAlchemy wraps the driver's error and prints the parameters with it.
        cause = getattr(error, "orig", None) or error
        if isinstance(cause, Exception) and _is_missing(cause):
            raise SchemaMismatch(
                "this database lacks sendonce's tables, or has older ones; run: sendonce migrate"
            ) from cause


def _is_missing(error: Exception) -> bool:
    text = str(error)
    if "sendonce_" not in text:
        return False
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state in _SQLSTATES or "no such table" in text or "no such column" in text or "has no column named" in text
