"""One attempt, at the edges: the last one that may be sent, the last moment, and the least that is left of a lease."""

from datetime import UTC, datetime, timedelta

import pytest

from sendonce.domain.outcomes import Delivered, Failed, NotThere
from sendonce.engine import attempt
from sendonce.engine.attempt import AttemptRunner
from tests.domain.values import a_claim
from tests.engine.rig import QUICK, Asked, Told, serving


async def sends(channel: Told, *, seconds: float = 5.0, **claim: object) -> int:
    one = a_claim(destination="test:a", address="test:a", **claim)
    await AttemptRunner(serving(channel), "here").attempt(one, 1, QUICK, lambda _: seconds)
    return len(channel.sent)


@pytest.mark.parametrize("deferred", [0, 1, 7])
async def test_look_up_that_finds_nothing_allows_the_last_send_and_no_more(deferred: int) -> None:
    def asked() -> Asked:
        return Asked(Failed("503"), answers=[NotThere()])

    last = QUICK.max_attempts - 1 + deferred
    counts = {"attempt_count": last, "attempt": last + 1, "deferred_count": deferred}

    assert await sends(asked(), in_doubt=True, **counts) == 1
    assert await sends(asked(), in_doubt=True, **{**counts, "attempt_count": last + 1, "attempt": last + 2}) == 0


@pytest.mark.parametrize(
    ("seconds_left", "sent"), [(None, 1), (0.000001, 1), (0.0, 0), (-0.000001, 0)]
)  # fmt: skip
async def test_delivery_that_expires_now_is_not_sent(seconds_left: float | None, sent: int) -> None:
    assert await sends(Told(Delivered()), seconds_left=seconds_left) == sent


@pytest.mark.parametrize(("seconds", "sent"), [(0.000001, 1), (0.0, 0), (-1.0, 0)])
async def test_attempt_is_not_sent_with_nothing_left_of_its_lease(seconds: float, sent: int) -> None:
    assert await sends(Told(Delivered()), seconds=seconds) == sent


@pytest.mark.parametrize(
    ("payload", "content", "sent"), [(None, None, 0), ("", None, 1), (None, "", 1), ("{}", "x", 1)]
)
async def test_content_is_gone_only_where_nothing_can_be_said(
    payload: str | None, content: str | None, sent: int
) -> None:
    assert await sends(Told(Delivered()), payload=payload, content=content) == sent


async def test_time_of_sending_is_kept_from_this_century_to_tomorrow(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)

    class Still(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return now

    monkeypatch.setattr(attempt, "datetime", Still)
    us, day = timedelta(microseconds=1), timedelta(days=1)
    first = Still(2000, 1, 1, tzinfo=UTC)

    likely = [attempt._is_likely(Still.fromtimestamp(each.timestamp(), UTC)) for each in (first - us, first)]
    late = [attempt._is_likely(each) for each in (_still(Still, now + day), _still(Still, now + day + us))]

    assert (likely, late) == ([False, True], [True, False])


def _still(kind: type[datetime], moment: datetime) -> datetime:
    return kind.combine(moment.date(), moment.timetz())
