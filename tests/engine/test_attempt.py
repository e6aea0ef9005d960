"""One attempt: every branch between a claim and an outcome."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from sendonce.domain.answers import HELD
from sendonce.domain.attempts import Claim, resolve
from sendonce.domain.deliveries import ReasonClass
from sendonce.domain.outcomes import (
    FOUND,
    Accepted,
    CannotTell,
    Deferred,
    Delivered,
    Failed,
    Found,
    NoAnswer,
    NotThere,
    Outcome,
    Refused,
    Unknown,
)
from sendonce.domain.policies import IfUnsure, Policy
from sendonce.engine.attempt import AttemptRunner
from tests.domain.values import a_claim
from tests.engine.rig import QUICK, Asked, Told, serving

HOLDING = Policy(if_unsure=IfUnsure.HOLD)
BAD_WAITS = [Failed("503", retry_after=30), Deferred("429", again_in="soon")]  # type: ignore[arg-type]

NO_TIMES = [
    "yesterday",
    1_800_000_000,
    datetime(2026, 5, 4),  # noqa: DTZ001
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=12))),
    datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12))),
    datetime.now(UTC) + timedelta(days=2),
]


def claim_of(**changes: object) -> Claim:
    return a_claim(destination="test:a", address="test:a", **changes)


async def attempted(
    channel: Told, claim: Claim, policy: Policy = QUICK, *, seconds: float = 5.0
) -> tuple[Outcome, bool]:
    attempted = await AttemptRunner(serving(channel), "here").attempt(claim, 1, policy, lambda _: seconds)
    return attempted.outcome, attempted.cleared


@pytest.mark.parametrize(
    "outcome",
    [Delivered("n-1"), Accepted("n-1"), Refused("410"), Failed("503"), Unknown("reset"), Deferred("429")],
)
async def test_channels_outcome_is_the_attempts(outcome: Outcome) -> None:
    channel = Told(outcome)

    assert await attempted(channel, claim_of()) == (outcome, False)
    assert channel.timeouts == [5.0]


@pytest.mark.parametrize("rubbish", [None, True, "Delivered", 200, Delivered])
async def test_outcome_of_a_wrong_type_is_unknown_because_it_may_have_been_sent(rubbish: object) -> None:
    async def answer() -> object:
        return rubbish

    outcome, _ = await attempted(Told(answer), claim_of())

    assert isinstance(outcome, Unknown)
    assert outcome.code == "bad_outcome"


@pytest.mark.parametrize("outcome", BAD_WAITS)
async def test_wait_that_is_none_is_left_out(outcome: Outcome) -> None:
    found, _ = await attempted(Told(outcome), claim_of())

    assert type(found) is type(outcome)
    assert found in (Failed("503"), Deferred("429"))


@pytest.mark.parametrize("outcome", [Refused(404), Failed(503), Unknown(None), Deferred(["429"])])  # type: ignore[arg-type]
async def test_code_that_is_no_text_is_made_one(outcome: Refused | Failed | Unknown | Deferred) -> None:
    found, _ = await attempted(Told(outcome), claim_of())

    assert found == type(outcome)(str(outcome.code))


@pytest.mark.parametrize("moment", NO_TIMES)
async def test_time_that_cannot_be_is_left_out(moment: datetime) -> None:
    """It could not be written, or not be read again: the same result would come to every worker, and end it."""
    found, _ = await attempted(Told(Delivered("n-1", sent_at=moment)), claim_of())
    asked, _ = await attempted(Asked(answers=[Found("n-1", moment)]), claim_of(in_doubt=True))

    assert (found, asked) == (Delivered("n-1"), Delivered("n-1", FOUND))


async def test_proven_delivery_is_completed_without_a_send() -> None:
    channel = Told(Delivered("second"))

    outcome, _ = await attempted(channel, claim_of(is_proven=True, in_doubt=True, notification_id="first"))

    assert outcome == Delivered("first")
    assert channel.sent == []


async def test_delivery_of_a_removed_subscription_is_refused() -> None:
    channel = Told(Delivered())

    outcome, _ = await attempted(channel, claim_of(subscription_id=4, subscription_state="removed"))

    assert isinstance(outcome, Refused)
    assert outcome.code == "subscription_removed"
    assert channel.sent == []


async def test_content_that_was_erased_is_not_sent_empty() -> None:
    channel = Told(Delivered())

    outcome, _ = await attempted(channel, claim_of(payload=None))

    assert isinstance(outcome, Refused)
    assert channel.sent == []


async def test_delivery_past_its_deadline_is_not_sent() -> None:
    channel = Told(Delivered())

    outcome, _ = await attempted(channel, claim_of(seconds_left=-1.0))

    assert isinstance(outcome, Deferred)
    assert outcome.code == "expired"
    assert channel.sent == []


async def test_scheme_without_a_channel_waits_for_another_worker() -> None:
    outcome, cleared = await attempted(Told(Delivered()), a_claim(address="fax:1", in_doubt=True))

    assert isinstance(outcome, Deferred)
    assert outcome.code == "no_channel"
    assert not cleared


async def test_attempt_is_not_sent_with_too_little_left_of_its_lease() -> None:
    channel = Told(Delivered())

    outcome, _ = await attempted(channel, claim_of(), seconds=0.0)

    assert isinstance(outcome, Deferred)
    assert outcome.code == "lease_too_short"
    assert channel.sent == []


class TestInDoubt:
    async def test_look_up_that_finds_it_completes_without_a_send(self) -> None:
        at = datetime(2026, 5, 4, tzinfo=UTC)
        channel = Asked(Delivered("second"), answers=[Found("first", at)])

        found = Delivered("first", FOUND, sent_at=at)
        assert await attempted(channel, claim_of(in_doubt=True)) == (found, False)
        assert channel.sent == []

    async def test_look_up_that_finds_it_without_an_id_keeps_the_known_one(self) -> None:
        channel = Asked(Delivered("second"), answers=[Found()])

        outcome, _ = await attempted(channel, claim_of(in_doubt=True, notification_id="known"))

        assert outcome == Delivered("known", FOUND)

    async def test_R18_delivery_found_without_an_id_is_known_by_the_token(self) -> None:
        channel = Asked(Delivered("second"), answers=[Found()])

        outcome, _ = await attempted(channel, claim_of(in_doubt=True))

        assert outcome == Delivered(channel.asked[0].token, FOUND)

    async def test_R18_what_can_be_asked_about_is_not_sent_without_an_id(self) -> None:
        outcome, _ = await attempted(Asked(Delivered(), answers=[NotThere()]), claim_of())

        assert isinstance(outcome, Unknown)
        assert outcome.code == "no_provider_id"

    async def test_look_up_that_can_never_tell_repeats_where_that_is_safe(self) -> None:
        channel = Asked(Delivered("n-1"), answers=[CannotTell("no_id", is_safe_to_repeat=True)])

        assert await attempted(channel, claim_of(in_doubt=True), HOLDING) == (Delivered("n-1"), False)

    async def test_look_up_that_can_never_tell_holds_where_a_repeat_is_not_wanted(self) -> None:
        channel = Asked(Delivered("n-1"), answers=[CannotTell("too_old")])
        attempting = AttemptRunner(serving(channel), "here")

        told = await attempting.attempt(claim_of(in_doubt=True), 1, HOLDING, lambda _: 5.0)

        assert (told.outcome, told.cannot_be_asked, channel.sent) == (HELD, True, [])
        assert resolve(told, HOLDING, can_look_up=True).decision.reason is ReasonClass.IN_DOUBT

    async def test_look_up_that_finds_nothing_clears_the_doubt_and_sends(self) -> None:
        channel = Asked(Failed("503"), answers=[NotThere()])

        assert await attempted(channel, claim_of(in_doubt=True)) == (Failed("503"), True)
        assert len(channel.sent) == 1

    async def test_look_up_that_finds_nothing_with_all_attempts_used_does_not_send(self) -> None:
        channel = Asked(Delivered(), answers=[NotThere()])
        spent = claim_of(in_doubt=True, attempt=6, attempt_count=5)

        outcome, cleared = await attempted(channel, spent)

        assert isinstance(outcome, Failed)
        assert cleared
        assert channel.sent == []

    async def test_look_up_that_finds_nothing_after_the_deadline_does_not_send(self) -> None:
        channel = Asked(Delivered(), answers=[NotThere()])

        outcome, cleared = await attempted(channel, claim_of(in_doubt=True, seconds_left=-1.0))

        assert isinstance(outcome, Deferred)
        assert (outcome.code, cleared) == ("expired", True)
        assert channel.sent == []

    async def test_look_up_without_an_answer_is_repeated_when_the_receiver_says(self) -> None:
        channel = Asked(Delivered(), answers=[NoAnswer("503", "later", timedelta(minutes=2))])

        outcome, cleared = await attempted(channel, claim_of(in_doubt=True))

        assert outcome == Deferred("503", "later", timedelta(minutes=2))
        assert not cleared
        assert channel.sent == []

    async def test_look_up_with_an_invalid_wait_leaves_it_out(self) -> None:
        channel = Asked(Delivered(), answers=[NoAnswer("503", "later", 120)])  # type: ignore[arg-type]

        outcome, _ = await attempted(channel, claim_of(in_doubt=True))

        assert outcome == Deferred("503", "later")

    async def test_look_up_result_of_a_wrong_type_sends_nothing(self) -> None:
        async def answer() -> object:
            return "yes"

        channel = Asked(Delivered(), answers=[answer])

        outcome, cleared = await attempted(channel, claim_of(in_doubt=True))

        assert isinstance(outcome, Deferred)
        assert not cleared
        assert channel.sent == []

    async def test_look_up_is_not_made_with_too_little_left_of_the_lease(self) -> None:
        channel = Asked(Delivered(), answers=[Found()])

        outcome, _ = await attempted(channel, claim_of(in_doubt=True), seconds=0.0)

        assert isinstance(outcome, Deferred)
        assert channel.asked == []

    async def test_look_up_is_not_made_without_doubt(self) -> None:
        channel = Asked(Delivered("first"), answers=[NotThere()])

        assert await attempted(channel, claim_of()) == (Delivered("first"), False)
        assert channel.asked == []

    async def test_doubt_stays_with_a_resend_where_nobody_can_be_asked(self) -> None:
        channel = Told(Failed("503"))

        assert await attempted(channel, claim_of(in_doubt=True)) == (Failed("503"), False)

    @pytest.mark.parametrize(
        ("if_unsure", "policy", "is_sent"),
        [
            (None, HOLDING, False),
            ("hold", QUICK, False),
            ("resend", HOLDING, True),
            ("hold", HOLDING, False),
            (None, QUICK, True),
        ],
    )
    async def test_publish_call_goes_before_the_policy(
        self, if_unsure: str | None, policy: Policy, is_sent: bool
    ) -> None:
        channel = Told(Delivered())

        outcome, _ = await attempted(channel, claim_of(in_doubt=True, if_unsure=if_unsure), policy)

        assert len(channel.sent) == is_sent
        assert isinstance(outcome, Delivered if is_sent else Unknown)

    async def test_hold_does_not_matter_where_somebody_can_be_asked(self) -> None:
        channel = Asked(Delivered("second"), answers=[NotThere()])

        assert await attempted(channel, claim_of(in_doubt=True), HOLDING) == (Delivered("second"), True)


async def test_attempt_carries_the_same_token() -> None:
    channel = Told(Failed("503"))

    for attempt in (1, 2):
        await attempted(channel, claim_of(attempt=attempt, generation=attempt))

    assert len({message.token for message in channel.sent}) == 1
    assert [message.attempt for message in channel.sent] == [1, 2]
