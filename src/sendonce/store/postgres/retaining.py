"""What a new generation needs is still kept."""

from collections.abc import Sequence

from sendonce.errors import NotAllowed
from sendonce.store.postgres.connection import Connection, fetch


async def check_contents(connection: Connection, old_ids: Sequence[int], new_ids: Sequence[int]) -> None:
    """NotAllowed when one of these new generations has nothing to send: by now retention cannot take it away."""
    for (gone,) in await fetch(connection, "without_content", {"delivery_ids": list(new_ids)}):
        old_id = old_ids[new_ids.index(gone)]
        raise NotAllowed(f"the content of delivery {old_id} is no longer kept, so it cannot be sent again")
