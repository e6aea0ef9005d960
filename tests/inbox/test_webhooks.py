"""Webhooks that come in: proven by each scheme's own vectors, or refused in one sentence."""

import base64
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook as Reference
from standardwebhooks import WebhookVerificationError

from sendonce.errors import BadWebhook, ConfigError
from sendonce.inbox.webhooks import LONGEST_HEADER, LONGEST_ID, Scheme, verify
from sendonce.signing import key_of, new_secret, sign

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_900_000_000
BODY = '{"memo": "Grüße"}'.encode()
# What the reference library for Python (stripe 16.1.0) makes of this body, secret and time.
STRIPE_SECRET, STRIPE_TIME = "whsec_test_secret", 1492774577
STRIPE_BODY = b'{"id":"evt_1NG8Du2eZvKYlo2CUI79vXWy","object":"event","type":"payment_intent.succeeded"}'
STRIPE_SIGNATURE = "174d5523cfbe4e1b5329c200cb77563aab3083d19aed8962b99a62deedaeffe7"
# GitHub's documentation has this one to test with.
GITHUB_SECRET, GITHUB_BODY = "It's a Secret to Everybody", b"Hello, World!"
GITHUB_SIGNATURE = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
# As Shopify's documentation makes it: openssl dgst -sha256 -hmac hush -binary | base64
SHOPIFY_SECRET, SHOPIFY_BODY = "hush", b'{"id":820982911946154508,"email":"jon@example.com"}'
SHOPIFY_SIGNATURE = "D0UMXmhjwBRi4y66TmhJrDlhQABD7zI2fm3p6/QLMo8="

GITHUB = {"X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-Hub-Signature-256": GITHUB_SIGNATURE}
SHOPIFY = {"X-Shopify-Webhook-Id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", "X-Shopify-Hmac-SHA256": SHOPIFY_SIGNATURE}


def headers(*secrets: str, id: str = "msg_1", at: int = NOW, body: bytes = BODY) -> dict[str, str]:
    keys = [key_of(secret) for secret in secrets or (SECRET,)]
    return {"Webhook-Id": id, "webhook-timestamp": str(at), "WEBHOOK-SIGNATURE": sign(keys, id, at, body)}


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(BadWebhook) as caught:
        act()
    return str(caught.value)


def test_webhook_of_the_standards_example_is_verified() -> None:
    given = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }

    webhook = verify(given, b'{"test": 2432232314}', SECRET, now=1614265330)

    assert webhook.id == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert webhook.json() == {"test": 2432232314}
    assert webhook.sent_at == datetime(2021, 2, 25, 15, 2, 10, tzinfo=UTC)


@given(st.text(), st.binary(min_size=24, max_size=64), st.text("abcXYZ019_-.", min_size=1))
def test_webhook_that_the_reference_library_signs_is_verified(body: str, key: bytes, id: str) -> None:
    secret = "whsec_" + base64.b64encode(key).decode()
    at = datetime.now(UTC)
    given_headers = {
        "webhook-id": id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Reference(secret).sign(id, at, body),
    }

    assert verify(given_headers, body.encode(), secret).id == id


@pytest.mark.parametrize("change", [{}, {"Webhook-Id": "msg_2"}, {"WEBHOOK-SIGNATURE": "v1,AAAA"}, {"age": 301}])
def test_webhook_is_judged_as_the_reference_library_judges_it(change: dict[str, Any]) -> None:
    at = int(datetime.now(UTC).timestamp()) - change.pop("age", 0)
    given_headers = headers(at=at) | change

    def accepts(act: Callable[[], object]) -> bool:
        try:
            act()
        except (BadWebhook, WebhookVerificationError):
            return False
        return True

    assert accepts(lambda: verify(given_headers, BODY, SECRET)) is accepts(
        lambda: Reference(SECRET).verify(BODY, given_headers)
    )


class TestStandard:
    def test_signature_by_any_of_the_secrets_is_accepted(self) -> None:
        other = new_secret()

        assert verify(headers(), BODY, [other, SECRET], now=NOW).id == "msg_1"
        assert verify(headers(other, SECRET), BODY, SECRET, now=NOW).id == "msg_1"
        assert "by none of the secrets" in refusal(lambda: verify(headers(), BODY, other, now=NOW))

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"Webhook-Id": "msg_2"}, "its signature is by none of the secrets, or its body is not as it was sent"),
            ({"Webhook-Id": " "}, "it has no header webhook-id"),
            ({"webhook-timestamp": str(NOW + 1)}, "its signature is by none"),
            ({"webhook-timestamp": "soon"}, "the time in its header webhook-timestamp is not a whole number"),
            ({"webhook-timestamp": "-1"}, "the time in its header webhook-timestamp is not a whole number"),
            ({"webhook-timestamp": ""}, "it has no header webhook-timestamp"),
            ({"webhook-timestamp": "9" * 400}, "the time in its header webhook-timestamp is not a whole number"),
            ({"webhook-timestamp": "²"}, "webhook-timestamp has something else than plain ASCII in it"),
            ({"WEBHOOK-SIGNATURE": ""}, "it has no header webhook-signature"),
            ({"WEBHOOK-SIGNATURE": "v1,"}, "its signature is by none of the secrets"),
            ({"WEBHOOK-SIGNATURE": "v2,AAAA v1a,AAAA"}, "its header webhook-signature has no signature of version v1"),
            ({"WEBHOOK-SIGNATURE": "v1,\udcff"}, "webhook-signature has something else than plain ASCII in it"),
            ({"Webhook-Id": "a\nb"}, "webhook-id has something else than plain ASCII in it"),
            ({"Webhook-Id": "a" * (LONGEST_HEADER + 1)}, "its header webhook-id is longer than 4096 characters"),
            ({"WEBHOOK-ID": "msg_1"}, "it has more than one header webhook-id"),
        ],
    )
    def test_webhook_that_is_changed_is_refused_in_one_sentence(self, change: dict[str, str], sentence: str) -> None:
        assert sentence in refusal(lambda: verify(headers() | change, BODY, SECRET, now=NOW))

    def test_header_that_comes_twice_is_refused_where_a_framework_lists_pairs(self) -> None:
        pairs = [*headers().items(), ("webhook-id", "msg_1")]

        assert verify(pairs[:-1], BODY, SECRET, now=NOW).id == "msg_1"
        assert "more than one" in refusal(lambda: verify(pairs, BODY, SECRET, now=NOW))

    def test_signature_of_other_bytes_is_refused(self) -> None:
        assert "by none of the secrets" in refusal(lambda: verify(headers(), BODY + b"\n", SECRET, now=NOW))

    @pytest.mark.parametrize("late", [0, 300, -300])
    def test_webhook_within_its_window_is_accepted(self, late: int) -> None:
        assert verify(headers(), BODY, SECRET, now=NOW + late).sent_at is not None

    def test_webhook_that_is_old_or_from_the_future_is_refused(self) -> None:
        assert refusal(lambda: verify(headers(), BODY, SECRET, now=NOW + 301)) == "it was signed more than 5m ago"
        future = refusal(lambda: verify(headers(), BODY, SECRET, now=NOW - 301))
        assert future == "it was signed more than 5m in the future, by our clock"
        hour = timedelta(hours=1)
        assert verify(headers(), BODY, SECRET, now=NOW + 301, tolerance=hour).id == "msg_1"

    def test_id_that_the_inbox_could_not_keep_is_refused(self) -> None:
        longest = "a" * LONGEST_ID

        assert verify(headers(id=longest), BODY, SECRET, now=NOW).id == longest
        sentence = refusal(lambda: verify(headers(id=longest + "a"), BODY, SECRET, now=NOW))
        assert sentence == "its id is longer than 500 bytes"

    def test_pair_is_compared_in_constant_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        other, compared = new_secret(), list[bool]()
        compare = hmac.compare_digest

        def counted(one: bytes, two: bytes) -> bool:
            compared.append(compare(one, two))
            return compared[-1]

        monkeypatch.setattr("sendonce.inbox.webhooks.hmac.compare_digest", counted)

        assert verify(headers(SECRET, other), BODY, [SECRET, other], now=NOW).id == "msg_1"
        assert compared == [True, False, False, True]

    def test_body_that_is_no_json_is_refused_when_it_is_read(self) -> None:
        for body, sentence in ((b"\xff", "its body is not UTF-8"), (b"{", "its body is not JSON")):
            webhook = verify(headers(body=body), body, SECRET, now=NOW)
            assert refusal(webhook.json) == sentence
        deep = b"[" * 200_000
        assert refusal(verify(headers(body=deep), deep, SECRET, now=NOW).json) == "its body is not JSON"

    def test_body_that_was_decoded_or_parsed_before_is_a_mistake(self) -> None:
        parsed: list[Any] = [BODY.decode(), json.loads(BODY)]
        for body in parsed:
            with pytest.raises(TypeError, match="raw bytes of the request"):
                verify(headers(), body, SECRET, now=NOW)

    @pytest.mark.parametrize("secrets", [[], "", [SECRET, " "], [None]])
    def test_secret_that_is_missing_or_empty_is_our_mistake(self, secrets: Any) -> None:
        with pytest.raises(ConfigError, match="no secret to verify webhooks with, or an empty one"):
            verify(headers(), BODY, secrets, now=NOW)

    def test_secret_of_another_shape_is_named_without_its_value(self) -> None:
        with pytest.raises(ConfigError, match="whsec_ and the base64") as caught:
            verify(headers(), BODY, "whsec_hunter2", now=NOW)

        assert "hunter2" not in str(caught.value)

    def test_setting_that_is_none_is_our_mistake(self) -> None:
        with pytest.raises(ConfigError, match="there is no scheme 'gitlab'; there are: standard, svix, stripe"):
            verify(headers(), BODY, SECRET, scheme="gitlab", now=NOW)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="tolerance must be above zero"):
            verify(headers(), BODY, SECRET, tolerance=timedelta(0), now=NOW)

    def test_error_never_holds_the_secret_or_the_body(self) -> None:
        secret, body = new_secret(), b'{"card": "4242424242424242"}'
        signed = headers(secret, body=body)
        broken = [{**signed, name: value} for name in signed for value in ("", "x", "v2,x", "é", "9" * 5000)]

        for given_headers in broken:
            sentence = refusal(lambda given=given_headers: verify(given, body, secret, now=NOW))  # type: ignore[misc]
            assert secret not in sentence
            assert "4242" not in sentence
        assert "4242" not in repr(verify(signed, body, secret, now=NOW))


class TestSchemes:
    def test_svix_has_the_standard_under_its_own_names(self) -> None:
        given_headers = {name.lower().replace("webhook", "svix"): value for name, value in headers().items()}

        assert verify(given_headers, BODY, SECRET, scheme="svix", now=NOW).id == "msg_1"
        assert refusal(lambda: verify(given_headers, BODY, SECRET, now=NOW)) == "it has no header webhook-id"

    def test_stripe_is_verified_by_what_its_own_library_signs(self) -> None:
        signature = f"t={STRIPE_TIME},v1={'0' * 64},v1={STRIPE_SIGNATURE},v0=6ffbb59b2300aae63f272406069a9788598b79"

        webhook = verify(
            {"Stripe-Signature": signature}, STRIPE_BODY, STRIPE_SECRET, scheme="stripe", now=STRIPE_TIME + 299
        )

        assert webhook.id == "evt_1NG8Du2eZvKYlo2CUI79vXWy"
        assert webhook.sent_at == datetime.fromtimestamp(STRIPE_TIME, UTC)

    @pytest.mark.parametrize(
        ("header", "sentence"),
        [
            ("", "it has no header stripe-signature"),
            (f"v1={STRIPE_SIGNATURE}", "must have one time: t=…"),
            (f"t=1,t=2,v1={STRIPE_SIGNATURE}", "must have one time: t=…"),
            (f"t=now,v1={STRIPE_SIGNATURE}", "is not a whole number of seconds"),
            (f"t={STRIPE_TIME},v0={STRIPE_SIGNATURE}", "has no signature of version v1"),
            (f"t={STRIPE_TIME + 1},v1={STRIPE_SIGNATURE}", "by none of the secrets"),
            (f"t={STRIPE_TIME},v1=", "by none of the secrets"),
        ],
    )
    def test_stripe_is_refused_in_one_sentence(self, header: str, sentence: str) -> None:
        given = {"Stripe-Signature": header}

        assert sentence in refusal(lambda: verify(given, STRIPE_BODY, STRIPE_SECRET, scheme="stripe", now=STRIPE_TIME))

    def test_stripe_needs_an_id_in_its_body(self) -> None:
        for body in (b"{}", b"[]", b'{"id": 1}', b'{"id": ""}'):
            digest = hmac.digest(STRIPE_SECRET.encode(), b"%d.%b" % (STRIPE_TIME, body), "sha256").hex()
            given = {"stripe-signature": f"t={STRIPE_TIME},v1={digest}"}
            told = refusal(lambda given=given, body=body: _of_stripe(given, body))  # type: ignore[misc]
            assert told == "its body has no id"

    def test_stripe_is_refused_when_it_is_old(self) -> None:
        given = {"stripe-signature": f"t={STRIPE_TIME},v1={STRIPE_SIGNATURE}"}

        assert refusal(lambda: verify(given, STRIPE_BODY, STRIPE_SECRET, scheme="stripe")).startswith("it was signed")

    @pytest.mark.parametrize(
        ("scheme", "given", "body", "secret", "id"),
        [
            ("github", GITHUB, GITHUB_BODY, GITHUB_SECRET, "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
            ("shopify", SHOPIFY, SHOPIFY_BODY, SHOPIFY_SECRET, "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043"),
        ],
    )
    def test_scheme_without_a_time_is_verified_by_its_own_vector(
        self, scheme: Scheme, given: dict[str, str], body: bytes, secret: str, id: str
    ) -> None:
        webhook = verify(given, body, ["another", secret], scheme=scheme)

        assert webhook.id == id
        assert webhook.sent_at is None
        assert "by none" in refusal(lambda: verify(given, body + b" ", secret, scheme=scheme))
        assert "by none" in refusal(lambda: verify(given, body, "another", scheme=scheme))
        for name in given:
            left = {each: value for each, value in given.items() if each != name}
            told = refusal(lambda left=left: verify(left, body, secret, scheme=scheme))  # type: ignore[misc]
            assert told == f"it has no header {name.lower()}"

    def test_github_signature_by_sha1_is_refused(self) -> None:
        given = GITHUB | {"X-Hub-Signature-256": "sha1=7d38cdd689735b008b3c702edd92eea23791c5f6"}

        assert "must begin with sha256=" in refusal(lambda: verify(given, GITHUB_BODY, GITHUB_SECRET, scheme="github"))


def _of_stripe(given: dict[str, str], body: bytes) -> object:
    return verify(given, body, STRIPE_SECRET, scheme="stripe", now=STRIPE_TIME)
