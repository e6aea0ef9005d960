"""How long what may have been sent is left alone where its subscription says more than whoever puts it in doubt."""

import json
from collections.abc import Sequence
from datetime import timedelta

from sendonce.domain.decide import own_doubt_wait


def own_waits(policies: Sequence[Sequence[object]], wait: timedelta) -> str:
    """Of these subscriptions (id, policy), those that wait longer: seconds by id, as JSON."""
    each = {text: own_doubt_wait(text) for text in {str(policy) for _, policy in policies}}
    longer = {str(one): each[str(policy)].total_seconds() for one, policy in policies if each[str(policy)] > wait}
    return json.dumps(longer)
