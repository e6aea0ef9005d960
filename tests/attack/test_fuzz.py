"""Parsers of what strangers write, fed with anything: they answer or refuse in one sentence, and never fail otherwise.

A few examples each in every run; in `make soak` as many as fit into FUZZ_SECONDS for each target.
"""

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sendonce.channels.email.api import time_of
from sendonce.channels.email.mail import Mail
from sendonce.channels.email.mime import compose
from sendonce.channels.http.answers import retry_after_of, without
from sendonce.channels.http.guard import Guard, is_a_number
from sendonce.config.load import load
from sendonce.domain.destinations import normalise, place_of
from sendonce.domain.emails import Email, parse_mailbox
from sendonce.domain.events import DEEPEST_PAYLOAD, render_payload
from sendonce.domain.outcomes import Refused
from sendonce.errors import BadWebhook, SendonceError
from sendonce.inbox.webhooks import verify
from sendonce.signing import key_of, sign
from tests.channels.mail_servers import mail_message
from tests.guarantees.figures import record

FEW = 100
NOW = 1_800_000_000
SECRET = "whsec_" + "QUJD" * 8
KEY = key_of(SECRET)
URI_PARTS = st.sampled_from(
    ["http", "https", "mailto", "sms", ":", "//", "/", "\\", "@", "#", "?", "[", "]", "%", ".", "..", "127.0.0.1",
     "::1", "0x7f", "localhost", "good.example", "%2e", "\r\n", "\0", "\u3002", "\uff11", "\ud800", "é", "xn--", ":80",
     " "]
)  # fmt: skip
uris = st.one_of(
    st.text(max_size=300),
    st.binary(max_size=60).map(lambda raw: "http://" + raw.decode("utf-8", "surrogateescape")),
    st.lists(URI_PARTS, max_size=12).map("".join),
    st.lists(st.one_of(URI_PARTS, st.text(max_size=3)), max_size=12).map(lambda parts: "http://" + "".join(parts)),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=5)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip
parts = st.sampled_from(["subject", "text", "html", "sender", "reply_to", "headers", "attachments"])
anything = st.text(max_size=80) | st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
headers = st.dictionaries(
    st.sampled_from(["webhook-id", "Webhook-Timestamp", "webhook-signature", "x"]),
    st.one_of(anything, st.just(str(NOW)), st.just("v1,AAAA v1, v1a,x ,")),
)
tables = st.sampled_from(
    ["worker", "policy", "smtp", "http.shop", "database", "secrets", "network", "alerts", "webhooks"]
)
lines = st.one_of(
    st.text(max_size=60), st.builds("{} = {}".format, st.text("abcdefgh_", min_size=1, max_size=9), values)
)


def a_destination(uri: str) -> None:
    """Accepted means: one spelling that stays itself, without a space; and its host is judged without an error."""
    spelled = normalise(uri)
    assert normalise(spelled) == spelled
    assert not any(each <= " " for each in spelled)
    host = place_of(spelled).rpartition(":")[0].strip("[]")
    is_a_number(host)
    Guard().allows(host)


def an_address(text: str) -> None:
    """Allowed means: an address, and a global one."""
    if Guard().allows(text):
        address = ip_address(text)
        assert address.is_global or getattr(address, "ipv4_mapped", None) is not None


def a_payload(payload: object) -> None:
    """Accepted means: the same bytes every time, and no deeper than a receiver can read."""
    text = render_payload(payload)
    text.encode()
    assert render_payload(payload) == text
    assert depth_of(json.loads(text)) <= DEEPEST_PAYLOAD


def depth_of(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth_of, inner), default=0) if isinstance(value, dict | list) else 0


def a_mail(content: object) -> None:
    """What is stored as a mail is composed, or refused."""
    mail = Mail.of(mail_message(None, content=render_payload(content)), "shop@example.com")
    if not isinstance(mail, Refused):
        data = compose(mail, "token", datetime.now(UTC)).data
        assert b"\r" not in data.replace(b"\r\n", b"")
        assert b"\n" not in data.replace(b"\r\n", b"")


def a_mailbox(text: str) -> None:
    name, address = parse_mailbox("it", text)
    Email(address, text="a", sender=f'"{name}" <{address}>' if '"' not in name and "\\" not in name else None)


def a_signature(given_headers: dict[str, str]) -> None:
    """Whatever is claimed, without our key it is not signed; what we sign is accepted, whatever stands beside it."""
    with pytest.raises(BadWebhook):
        verify(given_headers, b"{}", SECRET, now=NOW)
    ours = {"webhook-id": "id", "webhook-timestamp": str(NOW), "webhook-signature": sign([KEY], "id", NOW, b"{}")}
    assert verify({**{k.lower(): v for k, v in given_headers.items()}, **ours}, b"{}", SECRET, now=NOW).id == "id"


def a_secret(text: str) -> None:
    assert 24 <= len(key_of(text)) <= 64


def an_answer(text: str) -> None:
    """Headers and times of a stranger's answer."""
    wait, moment = retry_after_of(text), time_of(text)
    assert wait is None or 0 <= wait.total_seconds() <= 86_400
    assert moment is None or moment.tzinfo is not None
    assert text not in without(text, [text]) or len(text) < 4


def some_settings(parts: tuple[str, list[str]], folder: Path) -> None:
    path = folder / "sendonce.toml"
    path.write_text(f"[{parts[0]}]\n" + "\n".join(parts[1]), "utf-8", errors="replace")
    load(path, {})


TARGETS: dict[str, tuple[Callable[..., None], st.SearchStrategy[Any]]] = {
    "destinations": (a_destination, uris),
    "addresses": (an_address, uris | st.ip_addresses().map(str) | st.text("0123456789abcdefx.:%", max_size=40)),
    "payloads": (a_payload, values),
    "mails": (a_mail, values | st.dictionaries(parts, st.text(max_size=40) | values)),
    "mailboxes": (a_mailbox, st.one_of(st.text(max_size=60), uris.map(lambda text: f"{text} <a@b.example>"))),
    "signatures": (a_signature, headers),
    "secrets": (a_secret, st.one_of(st.text(max_size=100), st.text(max_size=100).map("whsec_".__add__))),
    "answers": (an_answer, st.one_of(anything, st.floats().map(str), st.datetimes().map(str))),
    "settings": (some_settings, st.tuples(tables, st.lists(lines, max_size=4))),
}  # fmt: skip


class Run:
    """One target, for so many examples, or until its time is over."""

    def __init__(self, name: str, folder: Path) -> None:
        self.examples = self.refused = 0
        self._target, self._strategy = TARGETS[name]
        self._more = (folder,) if name == "settings" else ()

    def once(self, example: object) -> None:
        self.examples += 1
        try:
            self._target(example, *self._more)
        except SendonceError as error:
            self.refused += 1
            sentence = str(error)
        else:
            return
        assert sentence
        assert "\n" not in sentence

    def run(self, examples: int) -> None:
        quiet = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
        chosen = settings(max_examples=examples, database=None, suppress_health_check=quiet,
                          phases=[Phase.explicit, Phase.generate, Phase.shrink])  # fmt: skip
        chosen(given(self._strategy)(self.once))()


@pytest.mark.parametrize("name", TARGETS)
def test_parser_reads_or_refuses_anything_in_one_sentence(name: str, tmp_path: Path) -> None:
    run = Run(name, tmp_path)

    run.run(FEW)

    assert run.examples >= FEW // 2


@pytest.mark.soak
def test_parser_reads_or_refuses_anything_for_long(tmp_path: Path) -> None:
    seconds, began, failures = float(os.environ.get("FUZZ_SECONDS", "120")), time.monotonic(), dict[str, str]()
    runs = {name: Run(name, tmp_path) for name in TARGETS}
    for name, run in runs.items():
        end = time.monotonic() + seconds
        while time.monotonic() < end and name not in failures:
            try:
                run.run(1000)
            except Exception as error:  # every target gets its time; what failed is told at the end
                failures[name] = repr(error)
    took = time.monotonic() - began
    record("fuzz", {
        "targets": len(runs), "examples": sum(run.examples for run in runs.values()), "failures": len(failures),
        "took_seconds": round(took),
    })  # fmt: skip

    assert failures == {}
