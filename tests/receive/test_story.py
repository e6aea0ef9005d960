"""The page about the receiver: its settings, and the story it tells, with the real worker."""

import re
from pathlib import Path

from tests.processes import sendonce, until
from tests.provider import Provider

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "receive.md"
POLICY = '{"first_delay": "100ms", "doubt_wait": "100ms"}'


def test_R11_what_was_accepted_and_not_answered_is_asked_about_and_not_sent_again(tmp_path: Path) -> None:
    [settings] = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    database, config = f"sqlite:///{tmp_path / 'shop.db'}", tmp_path / "sendonce.toml"
    with Provider("--drop-after-accept", "first:1") as provider:
        config.write_text(settings.replace("http://127.0.0.1:8080", provider.url), "utf-8")
        to = f"{provider.url}/orders"
        for command in (["migrate"], ["publish", "order.placed", "--key", "order-1", "--to", to]):
            with sendonce(*command, database=database) as done:
                assert done.ended() == 0, done.said
        with sendonce("worker", "--config", str(config), "--policy", POLICY, database=database):
            until(lambda: any(each["found"] for each in provider.messages().values()), "the look-up")

        assert list(provider.received().values()) == [1]
        assert provider.totals("/orders")["requests"] == 1
