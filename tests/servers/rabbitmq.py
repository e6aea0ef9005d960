"""RabbitMQ from Debian's packages, unpacked without root, as no service; or the one that SENDONCE_TEST_AMQP names.

Two traps of Debian's packages: Erlang's launcher has its folder written into it, so that what was unpacked elsewhere
needs one of its own; and Erlang's name service, epmd, is not started by itself.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.processes import SECONDS
from tests.servers.daemons import Daemon, left_running
from tests.servers.debian import Program, program
from tests.servers.postgres import free_port

EXTERNAL = "SENDONCE_TEST_AMQP"
_GREETING = b"AMQP\x00\x00\x09\x01"
_SETTINGS = {
    "disk_free_limit.absolute": "50MB",
    "vm_memory_high_watermark.absolute": "2GB",
    "log.console": "false",
    "heartbeat": "60",
}


class RabbitMQ(Daemon):
    """`settings` are those of rabbitmq.conf, over ours. User and password are guest, the virtual host is /."""

    name = "rabbitmq"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._settings = {**_SETTINGS, **(settings or {})}
        self._program = program("rabbitmq-server")
        self._environment: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def ctl(self, *arguments: str) -> str:
        """What its operator's command line answers; a call takes a second."""
        answer = subprocess.run(
            [self._scripts / "rabbitmqctl", "--quiet", *arguments],
            env=self._environment, cwd=self.folder, capture_output=True, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    def _launch(self) -> None:
        erlang = self._root / "usr/lib/erlang"
        [*_, epmd] = sorted(erlang.glob("erts-*/bin/epmd"))
        if not self._environment:
            self._environment = self._named(_launcher(self._program, erlang, self.folder / "bin"))
        values = {"listeners.tcp.1": f"127.0.0.1:{self.port}", **self._settings}
        (self.folder / "rabbitmq.conf").write_text("".join(f"{key} = {value}\n" for key, value in values.items()))
        self.run(epmd, environment=self._environment)
        epmd_port = int(self._environment["ERL_EPMD_PORT"])
        self._wait(lambda: bool(self.asked(b"\x00\x01n", epmd_port)))
        self.run(self._scripts / "rabbitmq-server", environment=self._environment)

    def answers(self) -> bool:
        return self.asked(_GREETING).startswith(b"\x01")

    @property
    def _root(self) -> Path:
        return self._program.root or Path("/")

    @property
    def _scripts(self) -> Path:
        [*_, found] = sorted((self._root / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin"))
        return found

    def _named(self, launcher: str) -> dict[str, str]:
        """The variables that name everything which has a fixed place otherwise; HOME has the cookie."""
        base = self.folder
        return self._program.environment() | {
            "HOME": str(base),
            "PATH": os.pathsep.join([launcher, os.environ.get("PATH", os.defpath)]),
            "ERL_EPMD_PORT": str(free_port()),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "r1@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(base / "mnesia"),
            "RABBITMQ_LOG_BASE": str(base / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(base / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(base / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }


def shared_url() -> str:
    """The address of the broker that is named to us, else of a new one."""
    return os.environ.get(EXTERNAL) or left_running(RabbitMQ()).url


def _launcher(found: Program, erlang: Path, own: Path) -> str:
    """The folder of an Erlang launcher that knows where Erlang is."""
    if found.root is None:
        return str(erlang / "bin")
    own.mkdir()
    launcher = own / "erl"
    launcher.write_text((erlang / "bin/erl").read_text().replace("ROOTDIR=/usr/lib/erlang", f"ROOTDIR={erlang}"))
    launcher.chmod(0o755)
    return os.pathsep.join([str(own), str(erlang / "bin")])
