import json
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendonce.domain.emails import Email
from sendonce.domain.events import (
    LARGEST_HEADERS,
    LONGEST_TENANT,
    LONGEST_TYPE,
    MOST_HEADERS,
    NewEvent,
    check_pattern,
    check_type,
    new_event,
    patterns_of,
)
from sendonce.domain.policies import IfUnsure
from sendonce.errors import BadDestination, BadEvent

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def an_event(**changes: object) -> NewEvent:
    arguments: dict[str, object] = {
        "type": "memo.created",
        "payload": {"id": 1},
        "key": "memo-1",
        "to": "null:a",
    }
    return new_event(**(arguments | changes))  # type: ignore[arg-type]


def test_event_renders_everything_that_a_caller_gives() -> None:
    event = an_event(
        key=("memo", 1),
        tenant="acme",
        subject="memo-1",
        version=3,
        headers={"b": "2", "a": "ü"},
        deliver_at=NOON,
        expires_at=NOON + timedelta(hours=1),
        if_unsure="hold",
    )

    assert event.key == "memo/1"
    assert event.payload == '{"id":1}'
    assert [each.uri for each in event.destinations] == ["null:a"]
    assert (event.tenant, event.subject, event.version) == ("acme", "memo-1", 3)
    assert event.headers == '{"a": "\\u00fc", "b": "2"}'
    assert (event.deliver_at, event.expires_at) == (NOON, NOON + timedelta(hours=1))
    assert event.if_unsure is IfUnsure.HOLD
    assert event.patterns == ("memo.created", "memo.*", "*")


def test_event_fields_that_are_left_out_are_none() -> None:
    event = an_event(headers={})

    assert (event.tenant, event.subject, event.version, event.headers) == ("", None, None, None)
    assert (event.deliver_at, event.expires_at, event.if_unsure) == (None, None, None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tenant": None}, "tenant must be text"),
        ({"tenant": "x" * (LONGEST_TENANT + 1)}, "tenant is 201 bytes"),
        ({"tenant": "a\0"}, "NUL"),
        ({"subject": 5}, "subject must be text"),
        ({"subject": "\ud800"}, "subject is not valid Unicode"),
        ({"version": -1}, "version"),
        ({"version": True}, "version"),
        ({"version": 2**63}, "version"),
        ({"version": "3"}, "version"),
        ({"headers": {"a": 1}}, "headers must be texts"),
        ({"headers": {"": "x"}}, "headers must be texts"),
        ({"headers": {5: "x"}}, "headers must be texts"),
        ({"headers": {"a": "x\r\ny"}}, "one line"),
        ({"headers": {"a\n" + "b" * 200: "x"}}, "one line"),
        ({"deliver_at": NOON.replace(tzinfo=None)}, "deliver_at must be a datetime with a time zone"),
        ({"expires_at": "tomorrow"}, "expires_at must be a datetime with a time zone"),
        ({"deliver_at": NOON, "expires_at": NOON.replace(tzinfo=None)}, "expires_at must be a datetime with"),
        ({"deliver_at": "noon", "expires_at": NOON}, "deliver_at must be a datetime with"),
        ({"deliver_at": NOON, "expires_at": NOON}, "later than deliver_at"),
        ({"if_unsure": "maybe"}, "resend or hold"),
        ({"payload": "x" * 100, "largest_payload": 50}, "102 bytes, more than the 50 allowed"),
        ({"to": Email("a@b.c", text="x" * 100), "largest_payload": 60}, "the content for 'mailto:a@b.c'"),
        ({"to": Email("a@b.c", text="\ud800")}, "the content for 'mailto:a@b.c' is not valid Unicode"),
        ({"payload": object()}, "not JSON"),
        ({"key": None}, "key is None"),
        ({"type": "no spaces"}, "event type"),
    ],
)
def test_event_that_cannot_be_recorded_is_refused_with_the_reason(changes: dict[str, object], words: str) -> None:
    with pytest.raises(BadEvent, match=words):
        an_event(**changes)


@pytest.mark.parametrize(
    ("headers", "is_recorded"),
    [
        ({f"x-{number}": "" for number in range(MOST_HEADERS)}, True),
        ({f"x-{number}": "" for number in range(MOST_HEADERS + 1)}, False),
        ({"a": "x" * (LARGEST_HEADERS - 1)}, True),
        ({"a": "x" * LARGEST_HEADERS}, False),
        ({"a": "ü" * (LARGEST_HEADERS // 2)}, False),
    ],
    ids=["as many as may be", "one more", "as long as may be", "one byte more", "more bytes than characters"],
)
def test_headers_are_bounded_in_number_and_length(headers: dict[str, str], is_recorded: bool) -> None:
    if is_recorded:
        assert json.loads(an_event(headers=headers).headers or "") == headers
    else:
        with pytest.raises(BadEvent, match="headers may be 64"):
            an_event(headers=headers)


def test_event_with_an_invalid_destination_is_refused() -> None:
    with pytest.raises(BadDestination):
        an_event(to="nowhere")


class Raw:
    uri = "raw:1"

    def content(self) -> str:
        return "a\0b"


def test_content_with_a_nul_character_is_refused() -> None:
    with pytest.raises(BadEvent, match="NUL"):
        an_event(to=Raw())


@pytest.mark.parametrize("type", ["a", "memo.created", "a.b.c", "A-b_c:d/e", "x" * LONGEST_TYPE])
def test_types_are_words_joined(type: str) -> None:
    assert check_type(type) == type
    assert check_pattern(type) == type


@pytest.mark.parametrize("type", ["", ".", "a.", ".a", "a..b", "a b", "a\n", "ü", "x" * (LONGEST_TYPE + 1), "*", None])
def test_event_type_that_is_invalid_is_refused(type: str | None) -> None:
    with pytest.raises(BadEvent, match="event type"):
        check_type(cast(str, type))


@pytest.mark.parametrize("pattern", ["*", "order.*", "order.created.*", "order.created", "x" * LONGEST_TYPE + ".*"])
def test_patterns_are_a_type_a_family_or_all(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize("pattern", ["", "**", "order*", ".*", "*.created", "order.*.x", "x" * 129 + ".*", None])
def test_event_type_pattern_that_is_invalid_is_refused(pattern: str | None) -> None:
    with pytest.raises(BadEvent, match="listens to"):
        check_pattern(cast(str, pattern))


TYPES = st.from_regex(r"[a-z]{1,3}(\.[a-z]{1,3}){0,4}", fullmatch=True)


@given(TYPES)
def test_pattern_of_a_type_is_one_a_subscription_may_have(type: str) -> None:
    patterns = patterns_of(type)

    assert patterns[0] == type
    assert patterns[-1] == "*"
    assert len(set(patterns)) == len(patterns) == type.count(".") + 2
    assert all(check_pattern(pattern) == pattern for pattern in patterns)


def test_equal_publish_has_the_same_digest() -> None:
    one = an_event(to=["null:a", "null:b"], payload={"a": 1, "b": 2}, headers={"trace": "1"})
    other = an_event(to=["null:b", "NULL:a"], payload={"b": 2, "a": 1}, headers={"trace": "2"})

    assert one.content_digest == other.content_digest
    assert len(one.content_digest) == 16


@pytest.mark.parametrize(
    "changes",
    [
        {"payload": {"id": 2}},
        {"subject": "x"},
        {"version": 0},
        {"to": "null:b"},
        {"to": ["null:a", "null:b"]},
        {"to": None},
        {"to": Email("a@b.c", text="x")},
    ],
)
def test_digest_differs_with_content_and_destinations(changes: dict[str, object]) -> None:
    assert an_event(**changes).content_digest != an_event().content_digest


def test_content_of_a_destination_counts_in_the_digest() -> None:
    digests = {an_event(to=Email("a@b.c", text=text)).content_digest for text in ("x", "y")}

    assert len(digests | {an_event(to="mailto:a@b.c").content_digest}) == 3


def test_moments_in_other_time_zones_are_compared_as_moments() -> None:
    east = timezone(timedelta(hours=2))

    with pytest.raises(BadEvent, match="later than deliver_at"):
        an_event(deliver_at=NOON, expires_at=datetime(2030, 1, 1, 13, tzinfo=east))


LAST = datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC)
FIRST = datetime(1, 1, 2, tzinfo=UTC)
FURTHEST = (timezone(timedelta(hours=14)), timezone(timedelta(hours=-12)))


@pytest.mark.parametrize("name", ["deliver_at", "expires_at"])
@pytest.mark.parametrize("moment", [LAST, *(LAST.astimezone(zone) for zone in FURTHEST), FIRST])
def test_times_that_every_time_zone_can_show_are_taken(name: str, moment: datetime) -> None:
    times: dict[str, Any] = {name: moment}
    found = getattr(new_event("a", {}, key="a", to=None, **times), name)

    assert (found, found.tzinfo) == (moment, UTC)
    assert all(found.astimezone(zone) for zone in FURTHEST)


@pytest.mark.parametrize("name", ["deliver_at", "expires_at"])
@pytest.mark.parametrize(
    "moment",
    [
        LAST + timedelta(microseconds=1),
        datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),  # in UTC it lies beyond the calendar
        datetime.max.replace(tzinfo=timezone(timedelta(hours=14))),
        FIRST - timedelta(microseconds=1),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_times_that_some_time_zone_cannot_show_are_refused(name: str, moment: datetime) -> None:
    times: dict[str, Any] = {name: moment}
    with pytest.raises(BadEvent, match=f"^{name} must lie between the years 1 and 9999 in UTC, a day from either end$"):
        new_event("a", {}, key="a", to=None, **times)


def test_time_zone_without_an_offset_is_refused() -> None:
    class Nowhere(tzinfo):
        def utcoffset(self, moment: datetime | None) -> None:
            return None

        dst = tzname = utcoffset

    with pytest.raises(BadEvent, match="deliver_at must be a datetime with a time zone"):
        new_event("a", {}, key="a", to=None, deliver_at=datetime(2030, 1, 1, tzinfo=Nowhere()))
