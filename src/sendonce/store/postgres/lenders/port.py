"""What a borrowed lane needs of the connection that it works on."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = Mapping[str, Any] | Sequence[Any] | None


class Rows:
    """An answer that has come as a whole; `description` is None for a statement that gives no rows."""

    def __init__(self, description: object = None, rows: Sequence[Row] = ()) -> None:
        self.description = description
        self._rows = list(rows)

    async def fetchall(self) -> list[Row]:
        return self._rows

    async def fetchone(self) -> Row | None:
        return self._rows[0] if self._rows else None


class Lender(Protocol):
    """Somebody's open connection. Its settings stay as they are, and its errors are those of psycopg 3."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def commits_by_itself(self) -> bool:
        """It is outside a transaction, and the next statement would begin none."""
        ...

    @property
    def date_style(self) -> str:
        """How the server spells times on it: its DateStyle."""
        ...

    async def execute(self, query: str, values: Values = None) -> Rows:
        """Run one statement."""
        ...

    async def run(self, script: str) -> None:
        """Run any number of statements that have no values and no rows."""
        ...
