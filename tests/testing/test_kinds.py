"""The same on every kind of connection: the real engine in the caller's own transaction, which is left as it was."""

from sendonce import testing
from tests.outbox.callers import Caller


async def test_what_was_recorded_is_sent_once(caller: Caller) -> None:
    box = await testing.aoutbox(caller.connection)
    await caller.publish("memo.created", {"id": 7}, key="7", to=["https://a.example/", "mailto:ada@example.com"])

    sent, again = await box.adrain(), await box.adrain()

    assert [(each.destination, each.content, each.attempt) for each in sent] == [
        ("https://a.example/", {"id": 7}, 1),
        ("mailto:ada@example.com", {"id": 7}, 1),
    ]
    assert again == []
    assert [each.status for each in await box.adesk(lambda desk: desk.deliveries())] == ["Completed", "Completed"]


async def test_a_rollback_leaves_nothing_and_the_box_can_be_used_again(caller: Caller) -> None:
    box = await testing.aoutbox(caller.connection)
    await caller.do("insert into memos (id, body) values (1, 'mine')")
    await caller.publish("memo.created", {"id": 1}, key="1", to="https://a.example/")
    await box.adrain()

    await caller.end("rollback")
    after = await box.adrain()

    assert after == []
    assert await box.adesk(lambda desk: desk.events()) == []
