"""What did not get through is one line each, with ids and without secrets, and an outage is no flood."""

import json
import logging
from datetime import UTC, datetime

import pytest

from sendonce.domain.attempts import Report, Result
from sendonce.domain.outcomes import Accepted, Deferred, Delivered, Failed, Outcome, Refused, Unknown
from sendonce.observability.facts import ChannelRaised, Fact, Incident, MoreIncidents
from sendonce.observability.incidents import OF_ONE_KIND, OF_THE_SAME, WINDOW_SECONDS, Incidents
from sendonce.observability.logs import as_json, worded
from tests.domain.values import a_claim
from tests.given import decided

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
HOOK = "https://user:SECRET@dead.example:8443/SECRET/path?token=SECRET"


class Heard:
    """What was told, with a clock that stands."""

    def __init__(self, *, tracebacks: bool = False) -> None:
        self.facts: list[Fact] = []
        self.now = 1000.0
        self.incidents = Incidents(5, self.facts.append, tracebacks=tracebacks, clock=lambda: self.now)

    @property
    def lines(self) -> list[str]:
        return [worded(fact)[1] for fact in self.facts]


def results(outcome: Outcome, amount: int = 1, **claim: object) -> list[Result]:
    return decided([Report(a_claim(**{"address": HOOK, **claim}), 1, outcome)] * amount)


@pytest.mark.parametrize(
    ("outcome", "kind", "level"),
    [
        (Failed("http_503"), "failed", logging.INFO),
        (Deferred("rate_limited"), "put off", logging.INFO),
        (Unknown("timeout"), "in doubt", logging.WARNING),
        (Refused("http_404"), "given up", logging.WARNING),
    ],
    ids=["failed", "put off", "in doubt", "given up"],
)
def test_incident_names_what_it_is_about(outcome: Failed | Deferred | Unknown | Refused, kind: str, level: int) -> None:
    heard = Heard()
    headers = json.dumps({"Traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "x-other": "SECRET"})

    heard.incidents.note(results(outcome, headers=headers, payload='{"a":"SECRET"}', attempt=3, key="SECRET"))

    [fact] = heard.facts
    assert worded(fact) == (
        level,
        f"delivery {kind}: event=3 delivery=7 type=memo.created channel=https host=dead.example code={outcome.code}"
        f" attempt=3 worker=5 trace={TRACE}",
    )


@pytest.mark.parametrize(
    "outcome", [Delivered("1"), Accepted("1"), Deferred("handed_back"), Deferred("lease_too_short")], ids=repr
)
def test_incident_is_not_logged_for_what_got_through_or_was_not_tried(outcome: Outcome) -> None:
    heard = Heard()

    heard.incidents.note(results(outcome, 100))

    assert heard.facts == []


def test_incident_hides_what_the_receiver_said() -> None:
    heard = Heard()

    heard.incidents.note(results(Failed("http_500", "SECRET said", response="SECRET")))
    heard.incidents.note(results(Unknown("channel_error", "SECRET: of an own channel")))
    heard.incidents.note(results(Failed("smtp_450"), address="mailto:SECRET@example.com"))

    told = [as_json(fact, *worded(fact), datetime.now(UTC)) for fact in heard.facts]
    assert len(told) == 3
    assert "SECRET" not in "".join(told) + "".join(heard.lines)


def test_name_cannot_end_the_line_or_look_like_another() -> None:
    heard = Heard()

    heard.incidents.note(results(Failed("a\n2026 WARNING forged"), type='x worker=9 "\x1b[2J\u202e\x9b'))

    [line] = heard.lines
    assert line.isprintable()
    assert line.count(" worker=") == 2
    assert '"x worker=9 \\"' in line
    parsed = json.loads(as_json(heard.facts[0], logging.INFO, line, datetime.now(UTC)))
    assert (parsed["worker"], parsed["type"]) == (5, 'x worker=9 "\x1b[2J\u202e\x9b')


def test_outage_of_thousands_is_some_lines_and_one_number() -> None:
    heard = Heard()

    for _ in range(10):
        heard.incidents.note(results(Failed("http_503"), 1_000))
    assert len(heard.facts) == OF_THE_SAME
    heard.now += WINDOW_SECONDS
    heard.incidents.note(results(Failed("http_503")))

    assert heard.lines[OF_THE_SAME] == "delivery failed: 9,995 more in 10 s (most: code=http_503 host=dead.example)"
    assert isinstance(heard.facts[-1], Incident), "a new window begins"


def test_thousand_hosts_that_fail_are_no_flood_and_hide_nothing_worse() -> None:
    heard = Heard()

    for number in range(1_000):
        heard.incidents.note(results(Failed("http_503"), address=f"https://h{number}.example/"))
    heard.incidents.note(results(Refused("http_404")))
    assert len(heard.incidents._more) <= OF_ONE_KIND + 1, "each of them is no name that is kept"
    heard.incidents.flush()
    heard.incidents.flush()

    kinds = [fact.kind for fact in heard.facts if isinstance(fact, Incident)]
    assert kinds == ["failed"] * OF_ONE_KIND + ["given up"]
    [more] = [fact for fact in heard.facts if isinstance(fact, MoreIncidents)]
    assert (more.kind, more.more, more.host) == ("failed", 1_000 - OF_ONE_KIND, None)


def test_incident_names_where_a_channel_raised_and_has_tracebacks_on_request() -> None:
    plain, full = Heard(), Heard(tracebacks=True)
    assert plain.incidents.raised is None
    assert full.incidents.raised is not None
    try:
        secret = "SECRET"
        try:
            raise KeyError(secret)
        except KeyError as error:
            raise RuntimeError(f"no {secret}") from error
    except RuntimeError as error:
        full.incidents.raised(a_claim(address=HOOK), error)

    [fact] = full.facts
    assert isinstance(fact, ChannelRaised)
    assert [each.partition(" ")[2] or each for each in fact.traceback] == [
        *("KeyError", "test_incident_names_where_a_channel_raised_and_has_tracebacks_on_request"),
        *("RuntimeError", "test_incident_names_where_a_channel_raised_and_has_tracebacks_on_request"),
    ]
    assert "event=3 delivery=7" in full.lines[0]
    assert __file__ in full.lines[0]
    assert "SECRET" not in full.lines[0]


@pytest.mark.parametrize("headers", [None, "{", '{"traceparent":"00-zz"}', '{"traceparent":1}', '{"a":"traceparent"}'])
def test_trace_that_is_none_is_left_out(headers: str | None) -> None:
    heard = Heard()

    heard.incidents.note(results(Failed("x"), headers=headers))

    assert "trace=" not in heard.lines[0]


def test_fact_can_be_a_line_of_json() -> None:
    heard = Heard()
    heard.incidents.note(results(Refused("http_404")))
    [fact] = heard.facts

    found = json.loads(as_json(fact, *worded(fact), datetime(2026, 1, 31, 12, tzinfo=UTC)))

    assert found.pop("message").startswith("delivery given up: event=3")
    assert found == {
        "time": "2026-01-31T12:00:00.000+00:00",
        "level": "warning",
        "fact": "incident",
        "kind": "given up",
        "event": 3,
        "delivery": 7,
        "type": "memo.created",
        "channel": "https",
        "host": "dead.example",
        "code": "http_404",
        "attempt": 1,
        "worker": 5,
    }
