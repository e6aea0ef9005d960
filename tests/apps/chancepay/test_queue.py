"""Where orders go through: the commands that make the stream and the queue, again and again."""

import subprocess
import sys

import pytest

from tests.processes import ROOT, SECONDS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("command", "broker"), [("stream", "nats_url"), pytest.param("queue", "rabbitmq_url", marks=pytest.mark.more)]
)
def test_stream_or_queue_is_made_once(command: str, broker: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(broker)

    done = [run(command, url) for _ in range(2)]

    assert [(each.returncode, each.stdout, each.stderr) for each in done] == [(0, "", "")] * 2


@pytest.mark.parametrize(("command", "scheme"), [("stream", "nats"), ("queue", "amqp")])
def test_command_says_that_the_broker_is_away(command: str, scheme: str) -> None:
    done = run(command, f"{scheme}://secret:password@127.0.0.1:1")

    assert done.returncode == 1
    assert done.stderr.startswith(f"{command}: the broker does not answer, or refuses (")
    assert "password" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def run(command: str, url: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "apps.chancepay", command, "--broker", url],
        cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
