"""Whether a database is the one that the settings mean: a copy of production in staging must mail nobody."""

from sendonce.errors import ConfigError
from sendonce.store.readers import ReadStore


async def check_instance(store: ReadStore, expected: str | None) -> None:
    """Raise ConfigError when the database has a name and the settings say another, or none."""
    name = await store.instance()
    if name is None or name == expected:
        return
    ours = "say none" if expected is None else f"say {expected!r}"
    raise ConfigError(
        f"this database is {name!r} and the settings {ours}, so nothing is sent: set [database] instance if it is"
        " yours, or name the copy with: sendonce instance NAME"
    )
