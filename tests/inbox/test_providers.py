"""What mail providers call back: verified as they document it, and read as evidence about our mails."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from sendonce.channels.email.mail import Mail
from sendonce.channels.email.postmark import Postmark, PostmarkSettings
from sendonce.channels.email.resend import Resend, ResendSettings
from sendonce.domain.evidence import Evidence, Told
from sendonce.errors import BadWebhook, ConfigError
from sendonce.inbox.providers import postmark, resend
from sendonce.signing import key_of, new_secret, sign

SECRET = new_secret()
TOKEN = "0123456789abcdef0123456789abcdef01234567"
POSTMARK_ID = "883953f4-6105-42a2-a16a-77a8eac79483"
RESEND_ID = "56761188-7520-42d8-8898-ff6fc54ce618"
BASIC = {"Authorization": "Basic " + base64.b64encode(b"hooks:s3cret").decode()}
# As Postmark's and Resend's documentation shows them, with our own metadata and tag in them.
DELIVERY = {
    "RecordType": "Delivery", "ServerID": 23, "MessageStream": "outbound", "MessageID": POSTMARK_ID,
    "Recipient": "john@example.com", "Tag": "welcome-email", "DeliveredAt": "2026-01-31T13:28:10Z",
    "Details": "Test delivery webhook details", "Metadata": {"sendonce": TOKEN},
}  # fmt: skip
BOUNCE = {
    "RecordType": "Bounce", "MessageStream": "outbound", "ID": 4323372036854775807, "Type": "HardBounce", "TypeCode": 1,
    "Name": "Hard bounce", "Tag": "Test", "MessageID": POSTMARK_ID, "ServerID": 23,
    "Description": "The server was unable to deliver your message", "Details": "Test bounce details",
    "Email": "john@example.com", "From": "sender@example.com", "BouncedAt": "2026-01-31T13:28:10.2735393Z",
    "DumpAvailable": True, "Inactive": True, "CanActivate": True, "Subject": "Test", "Metadata": {"sendonce": TOKEN},
}  # fmt: skip
BOUNCED = {
    "type": "email.bounced", "created_at": "2026-01-31T23:41:12.126Z",
    "data": {"email_id": RESEND_ID, "created_at": "2026-01-31T23:41:11.894719+00:00", "to": ["john@example.com"],
             "bounce": {"message": "The recipient's email address is on the suppression list", "subType": "Suppressed",
                        "type": "Permanent"},
             "tags": {"sendonce": TOKEN}},
}  # fmt: skip
MOMENT = datetime(2026, 1, 31, 13, 28, 10, tzinfo=UTC)


def of_postmark(document: object, headers: dict[str, str] = BASIC, **more: Any) -> list[Evidence]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return postmark(headers, body, **(more or {"username": "hooks", "password": "s3cret"}))


def of_resend(document: object, *, id: str = "msg_1", prefix: str = "svix") -> list[Evidence]:
    body, at = json.dumps(document).encode(), int(datetime.now(UTC).timestamp())
    signature = sign([key_of(SECRET)], id, at, body)
    shown = {f"{prefix}-id": id, f"{prefix}-timestamp": str(at), f"{prefix}-signature": signature}
    return resend(shown, body, SECRET)


def test_postmark_delivery_says_delivered_of_our_token() -> None:
    assert of_postmark(DELIVERY) == [
        Evidence(source="postmark", outcome=Told.DELIVERED, token=TOKEN, notification_id=POSTMARK_ID,
                 reference=f"Delivery/{POSTMARK_ID}", occurred_at=MOMENT, details="Delivery")
    ]  # fmt: skip


def test_postmark_bounce_for_good_says_refused_and_no_address() -> None:
    [evidence] = of_postmark(BOUNCE)

    assert (evidence.outcome, evidence.error_code) == (Told.REFUSED, "postmark_HardBounce")
    assert evidence.reference == f"Bounce/{POSTMARK_ID}/4323372036854775807"
    assert "john" not in repr(evidence)


@pytest.mark.parametrize("type", ["Transient", "SoftBounce", "AutoResponder", "DnsError", "Unknown"])
def test_postmark_delay_shows_that_they_have_it(type: str) -> None:
    assert [each.outcome for each in of_postmark(BOUNCE | {"Type": type})] == [Told.DELIVERED]


@pytest.mark.parametrize(
    "document",
    [{}, [], {"RecordType": "SubscriptionChange", "MessageID": POSTMARK_ID}, {"RecordType": "Delivery"},
     {"RecordType": ["Delivery"], "MessageID": 1}],
)  # fmt: skip
def test_postmark_says_nothing_of_other_things(document: object) -> None:
    assert of_postmark(document) == []


def test_postmark_without_our_token_is_known_by_its_id() -> None:
    for metadata in ({}, {"sendonce": "short"}, {"sendonce": 7}, None):
        [evidence] = of_postmark(DELIVERY | {"Metadata": metadata})
        assert (evidence.token, evidence.notification_id) == (None, POSTMARK_ID)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer s3cret"}])
def test_postmark_that_does_not_show_what_it_was_told_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(BadWebhook) as caught:
        of_postmark(DELIVERY, headers)

    assert "s3cret" not in str(caught.value)


def test_postmark_shows_a_header_of_ones_own() -> None:
    own = {"header": ("X-Postmark-Secret", "t0p")}

    assert len(of_postmark(DELIVERY, {"x-postmark-secret": "t0p"}, **own)) == 1
    with pytest.raises(BadWebhook, match="is not what Postmark was told to show"):
        of_postmark(DELIVERY, {"X-Postmark-Secret": "other"}, **own)
    incomplete: list[dict[str, Any]] = [{"username": "hooks"}, {"password": "s3cret"}]
    for nothing in incomplete:
        with pytest.raises(ConfigError, match="it signs nothing"):
            of_postmark(DELIVERY, **nothing)


@pytest.mark.parametrize(("body", "sentence"), [(b"\xff", "not UTF-8"), (b"{", "not JSON")])
def test_postmark_body_that_cannot_be_read_is_refused(body: bytes, sentence: str) -> None:
    with pytest.raises(BadWebhook, match=sentence):
        of_postmark(body)


def test_resend_bounce_says_refused_of_our_tag_and_no_address() -> None:
    [evidence] = of_resend(BOUNCED)

    assert (evidence.outcome, evidence.error_code) == (Told.REFUSED, "resend_bounced")
    assert (evidence.token, evidence.notification_id, evidence.reference) == (TOKEN, RESEND_ID, "msg_1")
    assert evidence.details == "email.bounced Permanent Suppressed"
    assert "john" not in repr(evidence)


@pytest.mark.parametrize(
    ("type", "outcomes"),
    [("email.sent", [Told.DELIVERED]), ("email.delivered", [Told.DELIVERED]), ("email.opened", [Told.DELIVERED]),
     ("email.delivery_delayed", [Told.DELIVERED]), ("email.failed", [Told.REFUSED]), ("email.scheduled", []),
     ("contact.created", []), ("domain.updated", [])],
)  # fmt: skip
def test_resend_events_say_what_they_show(type: str, outcomes: list[Told]) -> None:
    tags = [{"name": "other", "value": "x"}, {"name": "sendonce", "value": TOKEN}]
    data = {"email_id": RESEND_ID, "tags": tags}

    found = of_resend({"type": type, "created_at": "2026-01-31T23:41:12.126Z", "data": data})

    assert [(each.outcome, each.token) for each in found] == [(outcome, TOKEN) for outcome in outcomes]


def test_resend_bounce_that_is_tried_again_shows_that_they_have_it() -> None:
    data = {"email_id": RESEND_ID, "bounce": {"type": "Transient"}}

    assert [each.outcome for each in of_resend({"type": "email.bounced", "data": data})] == [Told.DELIVERED]


def test_resend_that_is_not_signed_as_svix_does_is_refused() -> None:
    with pytest.raises(BadWebhook, match="it has no header svix-id"):
        of_resend(BOUNCED, prefix="webhook")


def test_token_that_our_mails_carry_is_the_one_that_the_callbacks_are_known_by() -> None:
    mail = Mail(recipient="ada@example.com", sender="a@example.com", subject="Hi", text="Hi")
    to_postmark = Postmark(PostmarkSettings(token="t", sender="a@example.com")).sending(mail, TOKEN)
    to_resend = Resend(ResendSettings(key="k", sender="a@example.com")).sending(mail, TOKEN)

    metadata = json.loads(to_postmark.body or b"")["Metadata"]
    tags = json.loads(to_resend.body or b"")["tags"]
    [one] = of_postmark(DELIVERY | {"Metadata": metadata})
    [other] = of_resend({"type": "email.sent", "data": {"email_id": RESEND_ID, "tags": tags}})
    assert one.token == other.token == TOKEN
