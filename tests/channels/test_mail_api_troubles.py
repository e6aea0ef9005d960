"""Mail providers in the troubles that every channel can meet."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sendonce.channels.email.api import MailApi, Provider
from sendonce.channels.email.postmark import Postmark, PostmarkSettings
from sendonce.channels.email.resend import Resend, ResendSettings
from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.guard import Guard
from sendonce.channels.protocol import Channel, Message
from sendonce.domain.emails import Email
from sendonce.engine.attempt import message_of
from tests.channels.contract import ChannelContract
from tests.channels.http_troubles import place_in_trouble
from tests.domain.values import a_claim

SENDER = "shop@example.com"
ADA = Email("ada@example.com", subject="Saved", text="Your memo is saved.")
CLAIM = a_claim(
    destination=ADA.uri,
    address=ADA.uri,
    content=ADA.content(),
    notification_id="4ef9a417-02e9-4d39-ad75-9611e0fcc33c",
)


class ProviderContract(ChannelContract):
    column = "mail provider"

    def provider(self, url: str) -> Provider:
        raise NotImplementedError

    @asynccontextmanager
    async def in_trouble(self, trouble: str) -> AsyncIterator[tuple[Channel, Message]]:
        async with place_in_trouble(trouble) as place:
            client = HttpClient(Guard.parse("127.0.0.0/8"))
            yield MailApi(self.provider(place.rstrip("/")), client, sender=SENDER), message_of(CLAIM, "here")
            await client.close()


class TestPostmark(ProviderContract):
    def provider(self, url: str) -> Provider:
        return Postmark(PostmarkSettings(token="t", sender=SENDER, url=url))


class TestResend(ProviderContract):
    def provider(self, url: str) -> Provider:
        return Resend(ResendSettings(key="k", sender=SENDER, url=url))
