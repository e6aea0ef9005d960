"""Every behaviour of `sendonce receive`, on the real process."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.processes import until
from tests.provider import Provider
from tests.receive.sending import CUT, REFUSED, Answered, found, post, statuses


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


def give_up(provider: Provider, token: str) -> None:
    """Post, and go away when it has been taken up. It must be slow enough for that."""
    place = urlsplit(provider.url)
    with socket.create_connection((place.hostname, place.port), 50) as connection:
        head = f"POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: {token}\r\nSendonce-Attempt: 1\r\nContent-Length: 2"
        connection.sendall(f"{head}\r\n\r\n{{}}".encode())
        until(lambda: provider.totals().get("in_flight"), "it to be taken up")


@pytest.fixture
def provider(running: Provider) -> Iterator[Provider]:
    """One process for all tests here, made well and empty after each."""
    yield running
    names = (
        "slow",
        "fail",
        "retry_after",
        "drop",
        "drop_after_accept",
        "late",
        "twice",
        "look_up_slow",
        "look_up_fail",
    )
    running.control(**dict.fromkeys(names), deduplicate=None, ids=None, forget=False, closed=False)
    running.clear()


def test_receiver_accepts_answers_with_its_id_and_can_be_asked(provider: Provider) -> None:
    answer = post(f"{provider.url}/orders", "t1")
    asked = found(provider.look_up, "t1")

    assert isinstance(answer, Answered)
    assert answer.status == asked.status == 200
    assert answer.document["id"] == asked.document["id"]
    assert asked.document["sent_at"] == provider.messages()["t1"]["sent_at"]
    assert found(provider.look_up, "t2").status == 404
    assert provider.received() == {"t1": 1}


def test_message_that_comes_twice_is_accepted_once_with_deduplicate(provider: Provider) -> None:
    assert statuses(provider.url, "t1", "t1") == [200, 200]
    assert provider.doubled() == {"t1": 2}
    provider.control(deduplicate=True)

    assert statuses(provider.url, "t1", "t2", "t2") == [200, 200, 200]
    assert provider.received() == {"t1": 2, "t2": 1}
    assert {key: each["recognised"] for key, each in provider.messages().items()} == {"t1": 1, "t2": 1}


def test_message_without_a_token_is_known_by_its_content(provider: Provider) -> None:
    for body in (b"one", b"one", b"two"):
        post(provider.url, body=body)

    assert sorted(provider.received().values()) == [1, 2]


def test_receiver_fails_as_told(provider: Provider) -> None:
    provider.control(fail="503:first:1", retry_after="7s")
    answer = post(provider.url, "t1")
    provider.control(fail="422", path="/blocked")

    assert isinstance(answer, Answered)
    assert (answer.status, answer.headers["retry-after"]) == (503, "7")
    assert statuses(provider.url, "t1") == [200]
    assert statuses(f"{provider.url}/blocked", "t2") == [422]
    assert provider.received() == {"t1": 1}
    assert provider.messages()["t1"]["failed"] == provider.messages()["t2"]["refused"] == 1


def test_receiver_drops_after_accepting_and_can_be_asked(provider: Provider) -> None:
    provider.control(drop_after_accept="first:1")

    assert statuses(provider.url, "t1", "t2") == [CUT, 200]
    assert provider.received() == {"t1": 1, "t2": 1}
    assert found(provider.look_up, "t1").status == 200


def test_receiver_drops_without_accepting(provider: Provider) -> None:
    provider.control(drop=True)

    assert statuses(provider.url, "t1") == [CUT]
    assert provider.received() == {}
    assert found(provider.look_up, "t1").status == 404


def test_receiver_that_answers_late_has_what_was_given_up(provider: Provider) -> None:
    provider.control(late="3s")

    give_up(provider, "t1")
    assert provider.received() == {"t1": 1}
    until(lambda: provider.totals()["unheard"], "the answer to be found unheard")


def test_receiver_that_reads_slowly_does_not_have_what_was_given_up(provider: Provider) -> None:
    provider.control(slow="3s:first:1")

    give_up(provider, "t1")
    assert provider.totals()["in_flight"] == 1
    until(lambda: provider.totals()["unheard"], "it to look at the request")
    assert provider.received() == {}


def test_receiver_that_forgets_still_counts_truly(provider: Provider) -> None:
    provider.control(deduplicate=True)
    post(provider.url, "t1")
    provider.control(forget=True)

    assert found(provider.look_up, "t1").status == 404
    assert statuses(provider.url, "t1") == [200]
    assert provider.received() == {"t1": 2}
    provider.control(forget=False)
    assert found(provider.look_up, "t1").status == 404
    assert statuses(provider.url, "t2", "t2") == [200, 200]
    assert provider.received() == {"t1": 2, "t2": 1}


def test_look_ups_fail_and_are_slow_as_told_to_the_receiver(provider: Provider) -> None:
    post(provider.url, "t1")
    provider.control(look_up_fail="503:first:1", look_up_slow="50ms")

    assert [found(provider.look_up, "t1").status for _ in range(2)] == [503, 200]
    assert provider.messages()["t1"]["asked"] == 1


def test_receiver_counts_what_was_sent_after_asking(provider: Provider) -> None:
    found(provider.look_up, "t1")
    statuses(provider.url, "t1", "t2")

    assert [provider.messages()[token]["after_asking"] for token in ("t1", "t2")] == [1, 0]


def test_receiver_answers_without_an_id(provider: Provider) -> None:
    provider.control(ids=False)
    answer = post(provider.url, "t1")

    assert isinstance(answer, Answered)
    assert answer.document == {}


def test_receiver_answers_twice(provider: Provider) -> None:
    provider.control(twice=True)
    address = urlsplit(provider.url)
    with socket.create_connection((address.hostname, address.port), 10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        said = b"".join(iter(lambda: connection.recv(65536), b""))

    assert said.count(b"HTTP/1.1 200 OK") == 2
    assert list(provider.received().values()) == [1]


def test_receiver_that_is_closed_opens_again_on_the_same_port(provider: Provider) -> None:
    address = urlsplit(provider.url)
    with socket.create_connection((address.hostname, address.port), 10) as kept:
        provider.control(closed=True)
        assert kept.recv(1) == b""

    assert statuses(provider.url, "t1") == [REFUSED]
    provider.control(closed=False)
    assert statuses(provider.url, "t1") == [200]


def test_receiver_shows_the_last_of_what_arrived(provider: Provider) -> None:
    post(f"{provider.url}/orders", "t1", b'{"order": 1}')

    [arrival] = provider.last()
    assert (arrival["method"], arrival["path"], arrival["token"], arrival["attempt"]) == ("POST", "/orders", "t1", 1)
    assert arrival["body"] == '{"order": 1}'


def test_counts_set_to_zero_still_know_what_is_in_flight(provider: Provider) -> None:
    provider.control(slow="3s")
    give_up(provider, "t1")
    provider.clear()

    assert provider.received() == {}
    until(lambda: provider.totals()["in_flight"] == 0, "the request to end")
    assert provider.totals() == dict.fromkeys(provider.totals(), 0) | {"unheard": 1}


def test_order_that_is_wrong_changes_nothing_and_is_explained(provider: Provider) -> None:
    with pytest.raises(AssertionError, match="fail cannot be '9'"):
        provider.control(fail="9", closed=True)

    assert statuses(provider.url, "t1") == [200]


def test_request_that_is_cut_before_its_end_has_not_arrived(provider: Provider) -> None:
    address = urlsplit(provider.url)
    with socket.create_connection((address.hostname, address.port), 10) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n{}")

    assert statuses(provider.url, "t1") == [200]
    assert provider.received() == {"t1": 1}
    assert provider.said.count("\n") == 1
