"""Signatures that the standard's own package makes as well, and the secrets that they are made with."""

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from sendonce.errors import ConfigError
from sendonce.signing import key_of, new_secret, sign

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_900_000_000


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
