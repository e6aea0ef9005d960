"""The receiver answers as it is told, and knows what it has."""

from typing import Any

import pytest

from sendonce import Accepted, ConfigError, Failed, Refused, Unknown, testing
from sendonce.channels import CannotTell, NoAnswer
from tests.testing.recording import HOOK, MAIL, publish


def test_receiver_refuses_as_told_for_one_destination_alone(connection: Any) -> None:
    box = testing.outbox(connection)
    box.receiver.answer(Refused("no_such_user"), to=MAIL)
    publish(connection, to=[HOOK, MAIL])

    outcomes = {each.destination: (type(each.outcome).__name__, each.arrived) for each in box.drain()}

    assert outcomes == {HOOK: ("Delivered", True), MAIL: ("Refused", False)}
    [letter] = box.dead_letters()
    assert (letter.destination, letter.reason) == (MAIL, "refused")


def test_answer_that_is_lost_is_a_message_that_arrived(connection: Any) -> None:
    box = testing.outbox(connection, can_be_asked=True)
    box.receiver.answer(Unknown("timeout"))
    publish(connection)

    [lost] = box.drain()
    box.clock.advance(minutes=1)

    assert lost.arrived
    assert box.drain() == []
    assert [each.status for each in box.deliveries()] == ["Completed"]


def test_message_that_is_lost_on_its_way_is_sent_again_when_it_is_not_found(connection: Any) -> None:
    box = testing.outbox(connection, can_be_asked=True)
    box.receiver.answer(Unknown("timeout"), arrives=False)
    publish(connection)
    box.drain()

    box.clock.advance(minutes=1)
    [again] = box.drain()

    assert (again.attempt, box.receiver.asked, box.received(HOOK)) == (2, 1, 1)


def test_receiver_that_has_forgotten_is_sent_it_again(connection: Any) -> None:
    box = testing.outbox(connection, can_be_asked=True)
    box.receiver.answer(Unknown("timeout"))
    publish(connection)
    box.drain()

    box.receiver.forget()
    box.clock.advance(minutes=1)
    box.drain()

    assert box.received(HOOK) == 2


def test_look_up_without_an_answer_is_made_again(connection: Any) -> None:
    box = testing.outbox(connection, can_be_asked=True)
    box.receiver.answer(Accepted("id-1"))
    box.receiver.answer_look_up(NoAnswer("busy"))
    publish(connection)
    box.drain()

    box.clock.advance(minutes=1)
    first = (box.drain(), box.deliveries()[0].in_doubt)
    box.clock.advance(minutes=5)
    box.drain()

    assert first == ([], True)
    assert (box.receiver.asked, box.received(HOOK)) == (2, 1)
    assert box.deliveries()[0].status == "Completed"


def test_receiver_that_cannot_tell_leaves_it_to_the_policy(connection: Any) -> None:
    box = testing.outbox(connection, can_be_asked=True)
    box.receiver.answer(Unknown("timeout"), times=2)
    box.receiver.answer_look_up(CannotTell("too_old"), times=2)
    publish(connection, to=[HOOK, MAIL])
    box.drain()

    box.clock.advance(minutes=1)
    again = box.drain()

    assert [each.destination for each in again] == [HOOK]
    assert [(each.destination, each.reason) for each in box.dead_letters()] == [(MAIL, "in_doubt")]


def test_dead_letter_is_requeued_through_admin(connection: Any) -> None:
    box = testing.outbox(connection, policy={"max_attempts": 1})
    box.receiver.answer(Failed("down"))
    publish(connection)
    box.drain()
    [letter] = box.dead_letters()

    box.admin(lambda admin: admin.arequeue([letter.id], reason="it is up again"))
    sent = box.drain()

    assert [each.destination for each in sent] == [HOOK]
    assert box.dead_letters() == []


@pytest.mark.parametrize(
    ("given", "shown"), [("Failed", "'Failed'"), (None, "None"), (Failed, "the class Failed itself")]
)
def test_answer_that_is_none_is_refused_and_the_valid_ones_are_named(connection: Any, given: Any, shown: str) -> None:
    receiver = testing.outbox(connection).receiver

    with pytest.raises(ConfigError, match=f"a send with one of Delivered, Accepted, Refused, .*, not {shown}$"):
        receiver.answer(given)
    with pytest.raises(ConfigError, match=f"a look-up with one of Found, NotThere, .*, not {shown}$"):
        receiver.answer_look_up(given)


@pytest.mark.parametrize("times", [0, -1, True, 1.0, "2"])
def test_answer_is_given_at_least_once(connection: Any, times: Any) -> None:
    receiver = testing.outbox(connection).receiver

    with pytest.raises(ConfigError, match="times must be a whole number of at least 1"):
        receiver.answer(Failed("busy"), times=times)
    with pytest.raises(ConfigError, match="times must be a whole number of at least 1"):
        receiver.answer_look_up(NoAnswer("busy"), times=times)
