"""For the tests of those who use sendonce: the real engine, once, on the test's own connection.

def test_a_memo_is_mailed_once(connection):
    box = testing.outbox(connection)
    save_memo(connection, title="Board meeting")
    assert [each.destination for each in box.drain()] == ["mailto:ada@example.com"]
    assert box.drain() == []
"""

from sendonce.testing.box import Box, Clock, aoutbox, outbox
from sendonce.testing.crash import Crashed
from sendonce.testing.receiver import Receiver, Sent

__all__ = ["Box", "Clock", "Crashed", "Receiver", "Sent", "aoutbox", "outbox"]
