"""Signatures that the standard's own package accepts, and ours that accepts the standard's."""

import base64
import hmac
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from sendonce.channels.signing import key_of, new_secret, sign, verify
from sendonce.errors import ConfigError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_900_000_000
KEY = key_of(SECRET)
BODY = '{"memo": "Grüße"}'.encode()


def headers(*keys: bytes, id: str = "msg_1", at: int = NOW, body: bytes = BODY) -> dict[str, str]:
    return {"Webhook-Id": id, "webhook-timestamp": str(at), "WEBHOOK-SIGNATURE": sign(keys, id, at, body)}


def test_example_of_the_standard() -> None:
    key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    signed = sign([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.text(), st.binary(min_size=24, max_size=64))
def test_signature_agrees_with_the_reference_library(body: str, key: bytes) -> None:
    secret = "whsec_" + base64.b64encode(key).decode()
    theirs = Webhook(secret).sign("msg_1", datetime.fromtimestamp(NOW, UTC), body)

    assert key_of(secret) == key
    assert sign([key], "msg_1", NOW, body.encode()) == theirs


class TestVerifying:
    def test_signature_is_accepted(self) -> None:
        assert verify([KEY], headers(KEY), BODY, now=NOW)

    def test_signature_by_any_of_the_keys_is_accepted(self) -> None:
        other = key_of(new_secret())

        assert verify([other, KEY], headers(KEY), BODY, now=NOW)
        assert verify([KEY], headers(other, KEY), BODY, now=NOW)
        assert not verify([other], headers(KEY), BODY, now=NOW)
        assert not verify([], headers(KEY), BODY, now=NOW)

    @pytest.mark.parametrize(
        "change",
        [
            {"Webhook-Id": "msg_2"}, {"Webhook-Id": ""}, {"webhook-timestamp": str(NOW + 1)},
            {"webhook-timestamp": "soon"}, {"webhook-timestamp": ""}, {"webhook-timestamp": "9" * 400},
            {"webhook-timestamp": "²"}, {"WEBHOOK-SIGNATURE": ""}, {"WEBHOOK-SIGNATURE": "v1,"},
            {"WEBHOOK-SIGNATURE": "v2,AAAA v1a,AAAA , é"},
        ],
    )  # fmt: skip
    def test_signature_of_changed_content_is_refused(self, change: dict[str, str]) -> None:
        assert not verify([KEY], headers(KEY) | change, BODY, now=NOW)

    @pytest.mark.parametrize("name", ["Webhook-Id", "WEBHOOK-SIGNATURE"])
    def test_bytes_that_are_no_text_are_not(self, name: str) -> None:
        """Servers hand them on as lone surrogates."""
        assert not verify([KEY], headers(KEY) | {name: "v1,\udcff"}, BODY, now=NOW)

    def test_signature_of_other_bytes_is_refused(self) -> None:
        assert not verify([KEY], headers(KEY), BODY + b"\n", now=NOW)

    @pytest.mark.parametrize(("late", "is_good"), [(0, True), (300, True), (-300, True), (301, False), (-301, False)])
    def test_signature_that_is_old_or_from_the_future_is_refused(self, late: int, is_good: bool) -> None:
        assert verify([KEY], headers(KEY), BODY, now=NOW + late) is is_good

    def test_pair_is_compared_in_constant_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        other, compared = key_of(new_secret()), list[bool]()
        compare = hmac.compare_digest

        def counted(one: bytes, two: bytes) -> bool:
            compared.append(compare(one, two))
            return compared[-1]

        monkeypatch.setattr("sendonce.channels.signing.hmac.compare_digest", counted)

        assert verify([KEY, other], headers(KEY, other), BODY, now=NOW)
        assert compared == [True, False, False, True]

    def test_signature_without_headers_is_refused(self) -> None:
        assert not verify([KEY], {}, BODY, now=NOW)


class TestSecrets:
    def test_secret_is_new_each_time(self) -> None:
        secrets = {new_secret() for _ in range(50)}

        assert len(secrets) == 50
        assert {len(key_of(secret)) for secret in secrets} == {32}

    @pytest.mark.parametrize(
        "text", ["", "whsec_", "whsec_tooshort", SECRET.removeprefix("whsec_"), "whsec_" + "A" * 200, "whsec_é" * 9]
    )
    def test_secret_that_is_invalid_is_named_without_its_value(self, text: str) -> None:
        with pytest.raises(ConfigError, match="whsec_ and the base64 of 24 to 64") as caught:
            key_of(text)

        assert "tooshort" not in str(caught.value)
