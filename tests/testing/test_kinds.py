"""The same on every kind of connection: the real engine in the caller's own transaction, which is left as it was."""

import pytest

from sendonce import Failed, Unknown, testing
from tests.outbox.callers import POSTGRES, Caller
from tests.outbox.databases import Address
from tests.testing.recording import HOOK, MAIL


async def test_event_that_was_recorded_is_sent_once(caller: Caller) -> None:
    box = await testing.aoutbox(caller.connection)
    await caller.publish("memo.created", {"id": 7}, key="7", to=["https://a.example/", "mailto:ada@example.com"])

    sent, again = await box.adrain(), await box.adrain()

    assert [(each.destination, each.content, each.attempt) for each in sent] == [
        ("https://a.example/", {"id": 7}, 1),
        ("mailto:ada@example.com", {"id": 7}, 1),
    ]
    assert again == []
    assert [each.status for each in await box.aadmin(lambda admin: admin.adeliveries())] == ["Completed", "Completed"]


async def test_rollback_leaves_nothing_and_the_box_can_be_used_again(caller: Caller) -> None:
    box = await testing.aoutbox(caller.connection)
    await caller.do("insert into memos (id, body) values (1, 'mine')")
    await caller.publish("memo.created", {"id": 1}, key="1", to="https://a.example/")
    await box.adrain()

    await caller.end("rollback")
    after = await box.adrain()

    assert after == []
    assert len(await box.aadmin(lambda admin: admin.aevents())) == 0


async def test_receiver_and_the_clock_do_as_they_are_told(caller: Caller) -> None:
    box = await testing.aoutbox(caller.connection, can_be_asked=True, policy={"first_delay": "20m", "jitter": 0})
    box.receiver.answer(Failed("busy"), to=HOOK)
    box.receiver.answer(Unknown("timeout"), to=MAIL)
    await caller.publish("memo.created", {}, key="1", to=[HOOK, MAIL])

    tried = [len(await box.adrain())]
    for minutes in (10, 10, 60):
        box.clock.advance(minutes=minutes)
        tried.append(len(await box.adrain()))

    assert tried == [2, 0, 1, 0]
    assert (box.receiver.asked, box.received(HOOK), box.received(MAIL)) == (1, 1, 1)
    assert {each.status for each in await box.aadmin(lambda admin: admin.adeliveries())} == {"Completed"}


@pytest.mark.parametrize("kind", POSTGRES)
async def test_times_may_be_spelled_in_any_way_and_stay_so(without_tables: Address, kind: str) -> None:
    """A delivery that waits for its time is read, claimed and settled; the connection's own spelling is untouched."""
    async with POSTGRES[kind](without_tables) as caller:
        await caller.do("set datestyle = 'SQL, DMY'")
        box = await testing.aoutbox(caller.connection, policy={"first_delay": "10s", "jitter": 0})
        box.receiver.answer(Failed("busy"), to=HOOK)
        await caller.publish("memo.created", {}, key="1", to=HOOK)

        tried = [len(await box.adrain())]
        box.clock.advance(seconds=10)
        tried.append(len(await box.adrain()))

        assert tried == [1, 1]
        await caller.do("do $$ begin assert current_setting('datestyle') = 'SQL, DMY'; end $$")
        await caller.end("rollback")
