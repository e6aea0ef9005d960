"""What a new generation needs is still kept."""

import json
from collections.abc import Sequence

from sendonce.errors import NotAllowed
from sendonce.store.sqlite.connection import Transaction


def check_contents(transaction: Transaction, old_ids: Sequence[int], new_ids: Sequence[int]) -> None:
    """NotAllowed when one of these new generations has nothing to send."""
    for (gone,) in transaction.fetch("without_content", {"delivery_ids": json.dumps(list(new_ids))}):
        old_id = old_ids[new_ids.index(gone)]
        raise NotAllowed(f"the content of delivery {old_id} is no longer kept, so it cannot be sent again")
