"""Every member of every list that decides what an answer means: one that is left out of a list is missed here."""

import errno
import os

import pytest

from sendonce.channels.email.smtp_session import SmtpStep, meaning
from sendonce.channels.protocol import lack_of
from sendonce.domain import headers
from sendonce.domain.outcomes import Deferred, Failed, Refused

STEPS = [SmtpStep.MAIL, SmtpStep.RCPT, SmtpStep.DATA, SmtpStep.FINAL]
LOG_IN = [530, 534, 535, 538]
NOT_UNDERSTOOD = [500, 502, 503]
OUR_OWN = {"5.7.8": "our_credentials", "5.7.9": "our_credentials", "5.7.60": "our_account", "5.4.5": "our_account"}
HEADERS = [
    "connection", "expect", "host", "idempotency-key", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
    "content-type", "content-length", "proxy-authorization", "sendonce-event", "webhook-id", "webhook-signature",
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("code", LOG_IN)
def test_mail_server_that_wants_us_to_log_in_refuses_nobodys_mail(step: SmtpStep, code: int) -> None:
    outcome = meaning(step, code, "no")

    assert isinstance(outcome, Deferred)
    assert outcome.code == "our_credentials"


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("code", NOT_UNDERSTOOD)
def test_mail_server_that_does_not_understand_us_refuses_nobodys_mail(step: SmtpStep, code: int) -> None:
    outcome = meaning(step, code, "no")

    assert isinstance(outcome, Deferred)
    assert outcome.code == "our_server"


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("enhanced", OUR_OWN)
def test_smtp_code_about_us_is_not_about_the_recipient(step: SmtpStep, enhanced: str) -> None:
    outcome = meaning(step, 550, f"{enhanced} no")

    assert isinstance(outcome, Deferred)
    assert outcome.code == OUR_OWN[enhanced]


@pytest.mark.parametrize("step", STEPS)
def test_smtp_code_for_too_large_is_refused_at_every_step(step: SmtpStep) -> None:
    assert isinstance(meaning(step, 552, "too large"), Refused)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("code", "kind"), [(400, Failed), (499, Failed), (554, Refused)])
def test_smtp_code_below_500_may_be_retried(step: SmtpStep, code: int, kind: type) -> None:
    if step is not SmtpStep.MAIL or code < 500:
        assert isinstance(meaning(step, code, "no"), kind)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL])
def test_errno_of_this_machine_is_our_fault(number: int) -> None:
    assert lack_of(OSError(number, os.strerror(number))) is not None


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ETIMEDOUT])
def test_errno_of_the_receiver_is_not_our_fault(number: int) -> None:
    assert lack_of(OSError(number, os.strerror(number))) is None


@pytest.mark.parametrize("name", HEADERS)
def test_header_that_is_ours_is_so_in_every_spelling(name: str) -> None:
    spellings = [name, name.upper(), name.replace("-", "_"), name.replace("-", "."), name.title()]

    assert all(headers.is_ours(each) for each in spellings)


@pytest.mark.parametrize("name", ["x-host", "authorization", "content", "x-webhook-id", "user-agent", "traceparent"])
def test_headers_that_are_not_reserved_are_the_callers(name: str) -> None:
    assert not headers.is_ours(name)
