"""A person knows that a dead letter was delivered: attest it as sent."""

from collections.abc import Sequence
from dataclasses import dataclass

from sendonce.admin.desk import Desk
from sendonce.admin.repair import open_letter


@dataclass(frozen=True, slots=True, kw_only=True)
class Attested:
    """A dead letter, its delivery, and the next generation of that, which is completed."""

    dead_letter_id: int
    old_delivery_id: int
    delivery_id: int
    destination: str


async def attest(
    desk: Desk, dead_letter_ids: Sequence[int], *, operator: str, reason: str, notification_id: str | None = None
) -> list[Attested]:
    """Complete dead letters on a person's word, all or none; nothing is sent. None when one is not open."""
    letters = [await open_letter(desk, each) for each in dict.fromkeys(dead_letter_ids)]
    acted = await desk.attest(
        [letter.id for letter in letters], operator=operator, reason=reason, notification_id=notification_id
    )
    return [
        Attested(
            dead_letter_id=letter.id,
            old_delivery_id=letter.delivery_id,
            delivery_id=new_id,
            destination=letter.destination,
        )
        for letter, new_id in zip(letters, acted.ids, strict=True)
    ]
