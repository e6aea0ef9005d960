"""http: and https: as Standard Webhooks: a signed POST, for subscriptions and for addresses without a profile."""

from sendonce.channels.answers import outcome_of
from sendonce.channels.client import HttpClient
from sendonce.channels.posting import post
from sendonce.channels.protocol import Message
from sendonce.domain.outcomes import Outcome
from sendonce.signing import key_of


class Webhook:
    """Signs with a subscription's own keys, and the rest with `secret`. Its other side cannot be asked."""

    def __init__(self, client: HttpClient, *, secret: str | None = None) -> None:
        self._client = client
        self._keys = () if secret is None else (key_of(secret),)

    async def send(self, message: Message, *, timeout: float) -> Outcome:
        """POST the body once and say what the answer means."""
        # Our own key signs nothing for a receiver that a tenant chose: it could show that to ours.
        keys = message.credentials.signing or (() if message.is_for_subscription else self._keys)
        return outcome_of(await post(self._client, message, timeout=timeout, keys=keys, headers={}))

    async def close(self) -> None:
        await self._client.close()
