"""Secrets by subscription, from the rows that a database has found. The same on every database."""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, TypeAlias

from sendonce.store.records import SecretRow, SubscriptionSecrets

Row: TypeAlias = tuple[Any, ...]


def gathered(rows: Iterable[Row], secret_of: Callable[[Row], SecretRow]) -> list[SubscriptionSecrets]:
    """`rows`: whether it is signed, its id, and the columns of a secret, null where it has none; ordered by that id."""
    return [
        SubscriptionSecrets(
            subscription_id=subscription_id,
            is_signed=bool(is_signed),
            secrets=tuple(secret_of(row[1:]) for row in of_one if row[2] is not None),
        )
        for (is_signed, subscription_id), of_one in groupby(rows, key=lambda row: row[:2])
    ]
