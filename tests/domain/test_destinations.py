"""Destinations: one spelling for each, and one clear sentence for what is none."""

from dataclasses import dataclass
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendonce.domain.destinations import (
    LONGEST,
    Routed,
    TypedDestination,
    destination_hash,
    misspelled,
    normalise,
    route,
    scheme_of,
)
from sendonce.domain.emails import Email
from sendonce.errors import BadDestination


@pytest.mark.parametrize(
    ("given_as", "spelled"),
    [
        ("mailto:Ada@Example.COM", "mailto:Ada@example.com"),
        ("MAILTO:ada@example.com.", "mailto:ada@example.com"),
        ("mailto:ada@xn--mnchen-3ya.de", "mailto:ada@xn--mnchen-3ya.de"),
        ("mailto:ada@MÜNCHEN.de", "mailto:ada@xn--mnchen-3ya.de"),
        ("mailto:root@localhost", "mailto:root@localhost"),
        ("  https://Example.COM  ", "https://example.com/"),
        ("HTTPS://example.com:443/Hook?B=1&a=2", "https://example.com/Hook?B=1&a=2"),
        ("http://example.com:80/", "http://example.com/"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("https://example.com:8443", "https://example.com:8443/"),
        ("https://example.com:/x", "https://example.com/x"),
        ("https://example.com.", "https://example.com/"),
        ("https://münchen.de/ü", "https://xn--mnchen-3ya.de/ü"),
        ("https://example.com?x=1", "https://example.com/?x=1"),
        ("https://example.com/x#", "https://example.com/x"),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
        ("http://[FE80::A]/", "http://[fe80::a]/"),
        ("http://[2001:0DB8:0:0:0:0:0:1]:80/", "http://[2001:db8::1]/"),
        ("http://[2001:db8:0::0:1]/", "http://[2001:db8::1]/"),
        ("https://[2001:db8::0.0.0.1]:443/", "https://[2001:db8::1]/"),
        ("http://[::ffff:10.1.2.3]:8080/", "http://10.1.2.3:8080/"),
        ("http://[::FFFF:0a01:0203]/", "http://10.1.2.3/"),
        ("http://[0:0:0:0:0:ffff:10.1.2.3]/", "http://10.1.2.3/"),
        ("http://[fe80::0:1%25lo]/", "http://[fe80::1%25lo]/"),
        ("http://[2001:db8::1%251]/", "http://[2001:db8::1]/"),
        ("http://[2001:DB8::1%eth0]:8080/x", "http://[2001:db8::1]:8080/x"),
        ("http://[::ffff:10.1.2.3%257]/", "http://10.1.2.3/"),
        ("http://127.0.0.1:80", "http://127.0.0.1/"),
        ("null:", "null:"),
        ("NULL:Bench", "null:Bench"),
        ("amqp:exchange/Key", "amqp:exchange/Key"),
        ("x-my+own.channel:A b".replace(" ", "_"), "x-my+own.channel:A_b"),
    ],
)
def test_destination_has_one_spelling(given_as: str, spelled: str) -> None:
    assert normalise(given_as) == spelled
    assert normalise(spelled) == spelled


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("", "no channel"),
        ("example.com", "no channel"),
        (":x", "no channel"),
        ("1http:x", "no channel"),
        ("ümlaut:x", "no channel"),
        ("a" * 33 + ":x", "no channel"),
        ("subscription:42", "matching the event's type"),
        ("amqp:", "no address"),
        ("amqp:\ud800", "valid Unicode"),
        ("mailto:ada", "not an e-mail address"),
        ("mailto:@example.com", "not an e-mail address"),
        ("mailto:ada@", "not an e-mail address"),
        ("mailto:a@b@example.com", "not an e-mail address"),
        ("mailto:ada@exa_mple..com", "not an e-mail address"),
        ("mailto:ada@-example.com", "not an e-mail address"),
        ("mailto:ada@example.com..", "not an e-mail address"),
        ("mailto:" + "a" * 65 + "@example.com", "not an e-mail address"),
        ("mailto:ada@" + "a" * 64 + ".com", "not an e-mail address"),
        ("mailto:a,b@example.com", "not an e-mail address"),
        ("mailto:ada@example.com?bcc=eve@example.com", "Email"),
        ("mailto:\ud800@example.com", "valid Unicode"),
        ("https:example.com", "names no host"),
        ("https:///path", "names no host"),
        ("https://", "names no host"),
        ("https://ada:secret@example.com/", "user name or password"),
        ("https://ada@example.com/", "user name or password"),
        ("https://@example.com/", "user name or password"),
        ("https://ada:secret@:80x/", "'https:…@:80x/' is not a valid"),
        ("https://ada:se/cret:secret@example.com/", "not a valid"),
        ("https:/ada:secret@example.com/", "names no host"),
        ("mailto:ada:secret@example.com", "not an e-mail address"),
        ("1ftp://ada:secret@example.com/", "no channel"),
        ("ada@example.com", "'ada@example.com' has no channel"),
        ("https://example.com/#top", "fragment"),
        ("https://example.com:99999/", "not a valid"),
        ("https://example.com:x/", "not a valid"),
        ("https://[::1/", "not a valid"),
        ("https://[::1::2]/", "not a"),
        ("https://[12345::1]/", "not a"),
        ("https://exam<ple.com/", "not a host name"),
        ("https://example..com/", "not a host name"),
        ("https://./", "not a host name"),
        ("https://.ü./", "not a host name"),
        ("https://example.com/\ud800", "valid Unicode"),
        ("null:a b", "spaces or control"),
        ("null:a\nb", "spaces or control"),
        ("null:a\0b", "spaces or control"),
        ("null:a\x7fb", "spaces or control"),
        ("null:a\x85b", "spaces or control"),
        ("null:a\N{NO-BREAK SPACE}b", "spaces or control"),
        ("https://example.com/\r\nX-Evil: 1", "spaces or control"),
    ],
)
def test_destination_that_is_invalid_is_refused_with_the_reason(uri: str, words: str) -> None:
    with pytest.raises(BadDestination, match=words) as refused:
        normalise(uri)

    assert "secret" not in str(refused.value)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("uri", [None, 5, b"null:a"])
def test_destination_that_is_no_text_is_refused(uri: object) -> None:
    with pytest.raises(BadDestination, match="URI or a typed destination"):
        normalise(cast(str, uri))


@pytest.mark.parametrize(
    ("uri", "fits"),
    [
        ("null:" + "x" * (LONGEST - 5), True),
        ("null:" + "x" * (LONGEST - 4), False),
        ("null:" + "ü" * (LONGEST // 2), False),
        ("https://h?" + "q" * (LONGEST - 11), True),
        ("https://h?" + "q" * (LONGEST - 10), False),
        ("https://" + "ü." * 600 + "de", False),
    ],
)
def test_destination_is_never_longer_than_the_database_allows(uri: str, fits: bool) -> None:
    if fits:
        assert len(normalise(uri).encode()) == LONGEST
    else:
        with pytest.raises(BadDestination, match="2000 bytes"):
            normalise(uri)


URIS = st.one_of(
    st.text(max_size=30),
    st.builds("{}:{}".format, st.sampled_from(["null", "amqp", "mailto", "HTTP", "https"]), st.text(max_size=30)),
    st.builds("https://{}/{}".format, st.text(max_size=20), st.text(max_size=20)),
    st.builds("mailto:{}@{}".format, st.text(max_size=20), st.text(max_size=20)),
    st.builds("https://{}".format, st.text(alphabet="aü.:/?#[]@%İ。ß٣5", max_size=16)),
    st.builds("mailto:a@{}".format, st.text(alphabet="aÜ.-_İß5", max_size=16)),
)


@given(URIS)
def test_spelling_it_again_changes_nothing(uri: str) -> None:
    try:
        spelled = normalise(uri)
    except BadDestination:
        return

    assert normalise(spelled) == spelled
    assert len(spelled.encode()) <= LONGEST
    assert spelled == spelled.strip()
    assert scheme_of(spelled) == scheme_of(spelled).lower()


@pytest.mark.parametrize(
    "scheme", ["sms", "https", "http", "mailto", "null", "ht", "httpsxx", "mail", "smtp", "tptths"]
)
def test_scheme_further_than_one_letter_from_the_known_ones_is_no_mistake(scheme: str) -> None:
    assert misspelled(scheme) is None


def test_hash_stands_for_the_uri_in_sixteen_bytes() -> None:
    assert len(destination_hash("null:a")) == 16
    assert destination_hash("null:a") != destination_hash("null:b")
    assert Routed("null:a").hash == destination_hash("null:a")


def test_destinations_are_routed_each_once_in_the_order_named() -> None:
    ada = Email("Ada@Example.com", subject="Saved", text="Your memo is saved.")

    routed = route(["null:b", ada, "null:a", "NULL:b", ada])

    assert routed == (
        Routed("null:b"),
        Routed("mailto:Ada@example.com", ada.content()),
        Routed("null:a"),
    )
    assert route("null:a") == (Routed("null:a"),)
    assert route(ada) == (Routed("mailto:Ada@example.com", ada.content()),)
    assert route(()) == ()


def test_destination_with_two_contents_is_refused() -> None:
    with pytest.raises(BadDestination, match="twice with different content"):
        route([Email("a@b.c", text="one"), Email("a@B.C", text="two")])
    with pytest.raises(BadDestination, match="twice with different content"):
        route(["mailto:a@b.c", Email("a@b.c", text="one")])


@pytest.mark.parametrize("to", [None, 5, ["null:a", None], b"null:a", {"null:a"}])
def test_destinations_are_uris_or_typed(to: object) -> None:
    with pytest.raises(BadDestination, match="URI or a typed destination"):
        route(cast(str, to))


@dataclass
class Pager:
    number: str

    @property
    def uri(self) -> str:
        return f"pager:{self.number}"

    def content(self) -> str:
        return "call back"


def test_users_bring_their_own_typed_destinations() -> None:
    assert isinstance(Pager("5"), TypedDestination)
    assert route(Pager("5")) == (Routed("pager:5", "call back"),)
