"""Mail providers: what each of their answers, and each way not to answer, means for a send and for a look-up."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from sendonce.channels.email.api import MailApi, Said
from sendonce.channels.email.postmark import Postmark, PostmarkSettings
from sendonce.channels.email.resend import Resend, ResendSettings
from sendonce.channels.http.client import HttpClient
from sendonce.channels.http.guard import Guard
from sendonce.channels.protocol import Asking, Message, memory_of
from sendonce.domain.emails import Email
from sendonce.domain.outcomes import (
    CannotTell,
    Deferred,
    Delivered,
    Fault,
    Found,
    NoAnswer,
    NotThere,
    Outcome,
    Refused,
    Unknown,
)
from sendonce.engine.attempt import message_of
from tests.channels.providers import SECRET, FakePostmark, FakeProvider, FakeResend, Trouble
from tests.channels.sending import Seen
from tests.channels.troubles import raw_server, running_out
from tests.domain.values import a_claim

SENDER = "Shop <shop@example.com>"
ADA = Email("ada@example.com", subject="Grüße", text="Your memo is saved.", html="<p>Saved.</p>")
NOW = datetime(2030, 1, 10, tzinfo=UTC)
OPEN = Guard.parse("127.0.0.0/8")


def a_message(mail: Email = ADA, **changes: Any) -> Message:
    plain = {"content": mail.content(), "recorded_at": NOW - timedelta(minutes=5)}
    return message_of(a_claim(destination=mail.uri, address=mail.uri, **{**plain, **changes}), "here")


def channel_of(fake: FakeProvider, guard: Guard = OPEN, *, secret: str = SECRET, url: str = "") -> MailApi:
    provider = (
        Postmark(PostmarkSettings(token=secret, sender=SENDER, url=url or fake.url))
        if isinstance(fake, FakePostmark)
        else Resend(ResendSettings(key=secret, sender=SENDER, url=url or fake.url))
    )
    return MailApi(provider, HttpClient(guard), sender=SENDER, now=lambda: NOW)


@pytest_asyncio.fixture(params=[FakePostmark, FakeResend])
async def fake(request: pytest.FixtureRequest) -> AsyncIterator[FakeProvider]:
    async with request.param() as provider:
        yield provider


@pytest_asyncio.fixture
async def channel(fake: FakeProvider) -> AsyncIterator[MailApi]:
    channel = channel_of(fake)
    yield channel
    await channel.close()


@pytest_asyncio.fixture
async def postmark() -> AsyncIterator[tuple[FakePostmark, MailApi]]:
    async with FakePostmark() as fake:
        channel = channel_of(fake)
        yield fake, channel
        await channel.close()


@pytest_asyncio.fixture
async def resend() -> AsyncIterator[tuple[FakeResend, MailApi]]:
    async with FakeResend() as fake:
        channel = channel_of(fake)
        yield fake, channel
        await channel.close()


async def test_M14_mail_is_taken_with_our_token_and_gives_their_id(fake: FakeProvider, channel: MailApi) -> None:
    message = a_message()

    outcome = await channel.send(message, timeout=30)

    [kept] = fake.mails
    assert isinstance(outcome, Delivered)
    assert (outcome.notification_id, kept.token) == (kept.id, message.token)
    assert isinstance(channel, Asking)


async def test_retry_sends_the_same_bytes(fake: FakeProvider, channel: MailApi) -> None:
    fake.is_forgetful = True
    await channel.send(a_message(attempt=1), timeout=30)
    await channel.send(a_message(attempt=2), timeout=30)

    first, second = fake.mails
    assert first.parts == second.parts
    assert first.token == second.token


async def test_postmark_is_given_the_whole_mail(postmark: tuple[FakePostmark, MailApi]) -> None:
    fake, channel = postmark
    content = json.loads(ADA.content()) | {
        "sender": "Ada's shop <own@example.com>",
        "reply_to": "help@example.com",
        "headers": {"X-Campaign": "spring"},
        "attachments": [{"filename": "a.txt", "content_type": "text/plain", "content": "aGk="}],
    }

    await channel.send(message := a_message(content=json.dumps(content)), timeout=30)

    assert fake.mails[0].parts == {
        "From": "Ada's shop <own@example.com>",
        "To": "ada@example.com",
        "Subject": "Grüße",
        "TextBody": "Your memo is saved.",
        "HtmlBody": "<p>Saved.</p>",
        "ReplyTo": "help@example.com",
        "Headers": [{"Name": "X-Campaign", "Value": "spring"}],
        "Attachments": [{"Name": "a.txt", "ContentType": "text/plain", "Content": "aGk="}],
        "Metadata": {"sendonce": message.token},
        "MessageStream": "outbound",
    }


async def test_resend_is_given_the_whole_mail(resend: tuple[FakeResend, MailApi]) -> None:
    fake, channel = resend
    content = json.loads(ADA.content()) | {
        "reply_to": "help@example.com",
        "headers": {"X-Campaign": "spring"},
        "attachments": [{"filename": "a.txt", "content_type": "text/plain", "content": "aGk="}],
    }

    await channel.send(message := a_message(content=json.dumps(content)), timeout=30)

    assert fake.mails[0].parts == {
        "from": SENDER,
        "to": ["ada@example.com"],
        "subject": "Grüße",
        "text": "Your memo is saved.",
        "html": "<p>Saved.</p>",
        "reply_to": "help@example.com",
        "headers": {"X-Campaign": "spring"},
        "attachments": [{"filename": "a.txt", "content_type": "text/plain", "content": "aGk="}],
        "tags": [{"name": "sendonce", "value": message.token}],
    }


async def test_event_without_a_mail_of_its_own_is_sent_as_its_payload(fake: FakeProvider, channel: MailApi) -> None:
    await channel.send(a_message(content=None, payload='{"memo":"Grüße"}'), timeout=30)

    lower = {name.lower(): value for name, value in fake.mails[0].parts.items()}
    assert lower["subject"] == "memo.created"
    assert lower.get("text", lower.get("textbody")) == '{\n  "memo": "Grüße"\n}'


async def test_payload_that_is_no_mail_is_refused_and_not_sent(fake: FakeProvider, channel: MailApi) -> None:
    outcome = await channel.send(a_message(content='{"text": "", "subject": "empty"}'), timeout=30)

    assert outcome == Refused("bad_content", "an Email needs text or html", fault=Fault.OURS)
    assert fake.posts == 0


@pytest.mark.parametrize(
    ("trouble", "kind", "taken"),
    [
        (Trouble.DROP, Unknown, 0),
        (Trouble.TAKE_AND_DROP, Unknown, 1),
        (Trouble.TAKE_AND_HANG, Unknown, 1),
        (Trouble.TAKE_AND_FAIL, Unknown, 1),
        (Trouble.TAKE_AND_BABBLE, Unknown, 1),
        (Trouble.RATE_LIMIT, Deferred, 0),
        (Trouble.MAINTENANCE, Deferred, 0),
    ],
)
async def test_R11_what_may_have_been_taken_is_never_called_failed(
    fake: FakeProvider, channel: MailApi, trouble: Trouble, kind: type[Outcome], taken: int
) -> None:
    fake.troubles = [trouble]

    if trouble is Trouble.TAKE_AND_HANG:  # in its time, and not before it is taken
        fake.troubles = [trouble] * 3
        outcome = await running_out(lambda s: channel.send(a_message(), timeout=s), lambda _: len(fake.mails) > 0)
    else:
        outcome = await channel.send(a_message(), timeout=30)

    assert type(outcome) is kind
    assert len(fake.mails) == taken


async def test_provider_that_is_out_of_service_is_our_server(fake: FakeProvider, channel: MailApi) -> None:
    fake.troubles = [Trouble.MAINTENANCE]

    outcome = await channel.send(a_message(), timeout=30)

    assert isinstance(outcome, Deferred)
    assert (outcome.code, outcome.message) == ("our_server", "the mail provider is out of service")


async def test_rate_limit_says_when_to_come_back(fake: FakeProvider, channel: MailApi) -> None:
    fake.troubles = [Trouble.RATE_LIMIT]

    outcome = await channel.send(a_message(), timeout=30)

    assert isinstance(outcome, Deferred)
    assert (outcome.code, outcome.again_in) == ("rate_limited", timedelta(seconds=1))


async def test_provider_that_cannot_be_reached_is_our_trouble(fake: FakeProvider) -> None:
    channel = channel_of(fake, url="http://nowhere.invalid")
    guarded = channel_of(fake, Guard())

    sent = [await each.send(a_message(), timeout=30) for each in (channel, guarded)]
    asked = [
        await each.look_up(a_message(notification_id="4ef9a417-02e9-4d39-ad75-9611e0fcc33c"), timeout=30)
        for each in (channel, guarded)
    ]
    await channel.close()
    await guarded.close()

    assert [(type(each), getattr(each, "code", "")) for each in sent] == [(Deferred, "our_server")] * 2
    assert [(type(each), getattr(each, "code", "")) for each in asked] == [(NoAnswer, "our_server")] * 2
    assert fake.posts == fake.asked == 0


async def test_credentials_that_are_wrong_are_our_fault(fake: FakeProvider) -> None:
    channel = channel_of(fake, secret="another")

    sent = await channel.send(a_message(), timeout=30)
    asked = await channel.look_up(a_message(notification_id="4ef9a417-02e9-4d39-ad75-9611e0fcc33c"), timeout=30)
    await channel.close()

    assert isinstance(sent, Deferred)
    assert isinstance(asked, NoAnswer)
    assert sent.code == asked.code == "our_credentials"


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (422, 300, (Refused, "postmark_300")),
        (422, 406, (Refused, "postmark_406")),
        (422, 411, (Refused, "postmark_411")),
        (413, None, (Refused, "postmark_413")),
        (422, 10, (Deferred, "our_credentials")),
        (422, 400, (Deferred, "our_account")),
        (422, 401, (Deferred, "our_account")),
        (422, 405, (Deferred, "our_account")),
        (422, 412, (Deferred, "our_account")),
        (422, 413, (Deferred, "our_account")),
        (422, 1235, (Deferred, "our_account")),
        (404, None, (Deferred, "our_account")),
        (302, None, (Unknown, "bad_answer")),
        (200, 406, (Unknown, "bad_answer")),
        (500, None, (Unknown, "http_500")),
        (504, None, (Unknown, "http_504")),
    ],
)
async def test_postmark_errors_have_their_outcomes(
    postmark: tuple[FakePostmark, MailApi], status: int, error: int | None, expected: tuple[type[Outcome], str]
) -> None:
    fake, channel = postmark
    fake.refusal = (status, {"ErrorCode": error, "Message": "about ada@example.com"})

    outcome = await channel.send(a_message(), timeout=30)

    assert (type(outcome), getattr(outcome, "code", "")) == expected
    assert "ada@" not in getattr(outcome, "message", "")


@pytest.mark.parametrize(
    ("status", "name", "expected"),
    [
        (400, "validation_error", (Refused, "validation_error")),
        (422, "invalid_attachment", (Refused, "invalid_attachment")),
        (422, "missing_required_field", (Refused, "missing_required_field")),
        (422, "invalid_from_address", (Deferred, "our_account")),
        (401, "missing_api_key", (Deferred, "our_credentials")),
        (401, "a_name_of_next_year", (Deferred, "our_credentials")),
        (403, "invalid_api_key", (Deferred, "our_credentials")),
        (403, "validation_error", (Deferred, "our_account")),
        (404, "not_found", (Deferred, "our_account")),
        (409, "invalid_idempotent_request", (Unknown, "invalid_idempotent_request")),
        (409, "concurrent_idempotent_requests", (Unknown, "concurrent_idempotent_requests")),
        (429, "daily_quota_exceeded", (Deferred, "rate_limited")),
        (451, "security_error", (Deferred, "our_account")),
        (500, "internal_server_error", (Unknown, "http_500")),
    ],
)
async def test_resend_errors_have_their_outcomes(
    resend: tuple[FakeResend, MailApi], status: int, name: str, expected: tuple[type[Outcome], str]
) -> None:
    fake, channel = resend
    fake.refusal = (status, {"statusCode": status, "name": name, "message": "about ada@example.com"})

    outcome = await channel.send(a_message(), timeout=30)

    assert (type(outcome), getattr(outcome, "code", "")) == expected
    assert "ada@" not in getattr(outcome, "message", "")


async def test_R16_postmark_finds_a_mail_by_our_token_with_its_id_and_time(
    postmark: tuple[FakePostmark, MailApi],
) -> None:
    fake, channel = postmark
    await channel.send(a_message(Email("bob@example.com", text="another")), timeout=30)
    fake.troubles = [Trouble.TAKE_AND_DROP]
    await channel.send(a_message(), timeout=30)

    assert await channel.look_up(a_message(), timeout=30) == Found(fake.mails[1].id, fake.mails[1].at)
    assert await channel.look_up(a_message(key="another"), timeout=30) == NotThere()


async def test_search_that_did_not_filter_is_no_answer(
    postmark: tuple[FakePostmark, MailApi], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, channel = postmark
    await channel.send(a_message(Email("bob@example.com", text="another")), timeout=30)
    search = fake._search
    monkeypatch.setattr(fake, "_search", lambda token, count: search(None, count))

    answer = await channel.look_up(a_message(), timeout=30)

    assert isinstance(answer, NoAnswer)


@pytest.mark.parametrize(
    "parts",
    [
        {"TotalCount": 0, "Messages": [{"MessageID": "m-1", "Metadata": {}}]},
        {"TotalCount": 1, "Messages": []},
        {"TotalCount": 0, "Messages": None},
        {"TotalCount": 0},
    ],
)
async def test_postmark_does_not_have_a_mail_only_where_the_whole_answer_says_so(parts: dict[str, object]) -> None:
    postmark = Postmark(PostmarkSettings(token=SECRET, sender=SENDER))

    nothing = postmark.finding(Said(200, {"TotalCount": 0, "Messages": []}, ""), a_message())
    answer = postmark.finding(Said(200, parts, ""), a_message())

    assert isinstance(nothing, NotThere)
    assert isinstance(answer, NoAnswer)


async def test_answer_of_many_levels_is_no_answer_and_no_accident() -> None:
    deep = Seen(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + b"[" * 60_000)
    async with raw_server(deep.connected) as port:
        provider = Postmark(PostmarkSettings(token=SECRET, sender=SENDER, url=f"http://127.0.0.1:{port}"))
        channel = MailApi(provider, HttpClient(OPEN), sender=SENDER, now=lambda: NOW)
        sent = await channel.send(a_message(), timeout=30)
        asked = await channel.look_up(a_message(), timeout=30)
        await channel.close()

    assert isinstance(sent, Unknown)
    assert isinstance(asked, NoAnswer)


async def test_postmark_is_believed_only_for_as_long_as_it_remembers(postmark: tuple[FakePostmark, MailApi]) -> None:
    _, channel = postmark
    old = a_message(recorded_at=NOW - timedelta(days=45))
    young = a_message(recorded_at=NOW - timedelta(days=44))
    almost = a_message(recorded_at=NOW - timedelta(days=45) + timedelta(minutes=59))

    assert memory_of(channel) == timedelta(days=45)
    assert isinstance(await channel.look_up(young, timeout=30), NotThere)
    assert isinstance(await channel.look_up(almost, timeout=30), CannotTell), "it forgets in batches, by its own clock"
    forgotten = await channel.look_up(old, timeout=30)
    assert isinstance(forgotten, CannotTell)
    assert not forgotten.is_safe_to_repeat

    await channel.send(old, timeout=30)
    assert isinstance(await channel.look_up(old, timeout=30), Found)


@pytest.mark.parametrize("trouble", [Trouble.DROP, Trouble.TAKE_AND_HANG, Trouble.TAKE_AND_FAIL,
                                     Trouble.TAKE_AND_BABBLE, Trouble.RATE_LIMIT, Trouble.MAINTENANCE])  # fmt: skip
async def test_look_up_that_fails_is_no_answer(fake: FakeProvider, channel: MailApi, trouble: Trouble) -> None:
    sent = await channel.send(a_message(), timeout=30)
    assert isinstance(sent, Delivered)
    # The client asks again by itself when a connection that was kept open breaks: asking twice does no harm.
    fake.asking_troubles = [trouble] * 4

    message = a_message(notification_id=sent.notification_id)
    if trouble is Trouble.TAKE_AND_HANG:
        answer = await running_out(lambda s: channel.look_up(message, timeout=s), lambda _: fake.asked > 0)
    else:
        answer = await channel.look_up(message, timeout=30)

    assert isinstance(answer, NoAnswer)
    assert fake.asked > 0


@pytest.mark.parametrize(
    ("trouble", "code", "again_in"),
    [
        (Trouble.DROP, "our_server", None),
        (Trouble.TAKE_AND_FAIL, "http_500", None),
        (Trouble.MAINTENANCE, "http_503", None),
        (Trouble.RATE_LIMIT, "http_429", timedelta(seconds=1)),
    ],
)
async def test_provider_that_cannot_be_asked_is_no_fault_of_the_recipient(
    fake: FakeProvider, channel: MailApi, trouble: Trouble, code: str, again_in: timedelta | None
) -> None:
    fake.asking_troubles = [trouble] * 4

    answer = await channel.look_up(a_message(notification_id="4ef9a417-02e9-4d39-ad75-9611e0fcc33c"), timeout=30)

    assert isinstance(answer, NoAnswer)
    assert (answer.code, answer.again_in, answer.fault) == (code, again_in, Fault.CHANNEL)


async def test_resend_is_asked_by_its_id(resend: tuple[FakeResend, MailApi]) -> None:
    fake, channel = resend
    await channel.send(a_message(Email("ada@example.com", html="x" * 100_000)), timeout=30)
    [kept] = fake.mails

    assert await channel.look_up(a_message(notification_id=kept.id), timeout=30) == Found(kept.id, kept.at)
    assert await channel.look_up(a_message(notification_id=kept.id[::-1]), timeout=30) == NotThere()


@pytest.mark.parametrize("id", [None, "../domains", "an id of another provider"])
async def test_resend_without_an_id_recognises_the_token_for_a_day(
    resend: tuple[FakeResend, MailApi], id: str | None
) -> None:
    fake, channel = resend

    young = await channel.look_up(a_message(notification_id=id, recorded_at=NOW - timedelta(hours=22)), timeout=30)
    old = await channel.look_up(
        a_message(notification_id=id, recorded_at=NOW - timedelta(hours=23, minutes=1)), timeout=30
    )

    assert isinstance(young, CannotTell)
    assert isinstance(old, CannotTell)
    assert (young.is_safe_to_repeat, old.is_safe_to_repeat) == (True, False)
    assert fake.asked == 0


@pytest.mark.parametrize("status", [200, 301, 400, 403, 422])
async def test_resend_does_not_have_a_mail_only_where_the_status_says_so_too(status: int) -> None:
    resend = Resend(ResendSettings(key=SECRET, sender=SENDER))
    said = Said(status, {"name": "not_found"}, '{"name":"not_found"}')

    answer = resend.finding(said, a_message(notification_id="4ef9a417-02e9-4d39-ad75-9611e0fcc33c"))

    assert isinstance(answer, NoAnswer)


async def test_key_of_resend_that_may_only_send_cannot_ask(resend: tuple[FakeResend, MailApi]) -> None:
    fake, channel = resend
    sent = await channel.send(a_message(), timeout=30)
    assert isinstance(sent, Delivered)
    fake.is_sending_only = True

    answer = await channel.look_up(a_message(notification_id=sent.notification_id), timeout=30)

    assert isinstance(answer, NoAnswer)
    assert answer.code == "our_credentials"
