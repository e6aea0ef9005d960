"""What a worker remembers of its database: the newest claim that it has seen committed, and which server that was on.

A database that no longer has that claim has lost commits. Kept in a small file too, so that a worker that begins anew
knows it.
"""

import json
import os
import time
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from sendonce.domain.attempts import Fence, Lease, Witness
from sendonce.errors import ConfigError

# Which server, which of its lives, and when it was started.
Server: TypeAlias = tuple[str, str, str]
# Written no more often than this: a claim costs little, a file for each of them would not.
SAVE_SECONDS = 0.2


class Memory:
    """What one worker remembers of its database. Without a `path` it is lost with the process."""

    def __init__(self, path: str | None = None, *, namespace: str = "", instance: str | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._namespace = namespace
        self._instance = instance
        self._witness: Witness | None = None
        self._heard: Witness | None = None
        self._server: Server | None = None
        self._is_saved = True
        self._saved_at = 0.0
        if self._path is not None:
            self._read(self._path)
            self._save(self._path)

    @property
    def witness(self) -> Witness | None:
        return self._witness

    @property
    def fence(self) -> Fence:
        """Return what the database must be for this worker to claim from it."""
        return Fence(self._instance, self._witness)

    def note(self, lease: Lease) -> None:
        """Remember a committed claim."""
        claim = lease.claims[0]
        self._remember(Witness(claim.delivery_id, claim.attempt, lease.id, claim.event_id, lease.at))

    def hear(self, witness: Witness | None) -> None:
        """Note a claim of any worker that the database has. May be called from any thread; `learn` remembers it."""
        self._heard = witness

    def learn(self) -> None:
        """Remember the noted claim if it is newer: its worker may be away when it is missing."""
        heard, self._heard = self._heard, None
        if heard is None or (self._witness is not None and heard.at <= self._witness.at):
            return
        self._remember(heard)

    def forget(self) -> None:
        """Forget the witness: its claim is lost, and every worker knows that."""
        self._witness = self._heard = None
        self._is_saved = False
        self.close()

    def see(self, server: Server | None) -> tuple[bool, bool]:
        """Remember where the database is now: whether it was elsewhere before, and whether it was started anew."""
        was, self._server = self._server, server
        self._is_saved = self._is_saved and was == server
        self.close()
        if was is None or server is None:
            return False, False
        return was[:2] != server[:2], was != server

    def close(self) -> None:
        """Write the state file if something has changed."""
        if self._path is not None and not self._is_saved:
            self._save(self._path)

    def _remember(self, witness: Witness) -> None:
        self._witness = witness
        self._is_saved = False
        if self._path is not None and time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self._save(self._path)

    def _read(self, path: Path) -> None:
        try:
            said = json.loads(path.read_text("utf-8"))
            if said["namespace"] != self._namespace:
                return  # that was another database
            if said["claim"] is not None:
                *numbers, at = said["claim"]
                delivery_id, attempt, lease_id, event_id = map(int, numbers)
                self._witness = Witness(delivery_id, attempt, lease_id, event_id, datetime.fromisoformat(at))
            if said["server"] is not None:
                system, timeline, started = map(str, said["server"])
                self._server = (system, timeline, started)
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(f"the worker's state file {path} cannot be read ({error.strerror})") from None
        except (ValueError, KeyError, TypeError, IndexError):
            raise ConfigError(
                f"{path} is not the state file of a worker; name another file, or remove it if commits of this database"
                " cannot have been lost"
            ) from None

    def _save(self, path: Path) -> None:
        """Replace the file at once: a reader never finds half of it."""
        claim = None if self._witness is None else [*self._witness[:4], self._witness.at.isoformat()]
        said = {"namespace": self._namespace, "claim": claim, "server": self._server}
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(said) + "\n", "utf-8")
            beside.replace(path)
        except OSError as error:
            if self._saved_at == 0.0:
                raise ConfigError(f"the worker's state file {path} cannot be written ({error.strerror})") from None
            return  # a full disk stops nobody: what is not written is known in here
        self._is_saved = True
        self._saved_at = time.monotonic()
