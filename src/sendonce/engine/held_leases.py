"""The leases a worker holds, shared between its sender and its lease keeper, which run in two threads."""

import sys
import threading
import time


def lease_time() -> float:
    """Seconds by a clock of this machine that never goes back, and goes on while it is suspended, as the database's."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class HeldLease:
    """One claim's lease by `lease_time`: what a sender looks at before it writes to the wire."""

    __slots__ = ("good_until", "id", "open_attempts")

    def __init__(self, id: int, good_until: float, open_attempts: int) -> None:
        self.id = id
        self.good_until = good_until
        self.open_attempts = open_attempts

    def seconds_left(self) -> float:
        return self.good_until - lease_time()


class HeldLeases:
    """Who holds what. Every method may be called from either thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, HeldLease] = {}
        self._done: list[int] = []
        self._settled = 0

    def enter(self, id: int, good_until: float, attempts: int) -> HeldLease:
        """A new lease, good until this moment unless it is renewed."""
        lease = HeldLease(id, good_until, attempts)
        with self._lock:
            self._held[id] = lease
        return lease

    def settled(self, lease_ids: list[int]) -> None:
        """One attempt of each of these leases is settled; a lease without open ones is done."""
        with self._lock:
            self._settled += len(lease_ids)
            for id in lease_ids:
                lease = self._held.get(id)
                if lease is not None:
                    lease.open_attempts -= 1
                    if lease.open_attempts <= 0:
                        del self._held[id]
                        self._done.append(id)

    def held(self) -> list[int]:
        """What to renew: a lease that was lost stays lost."""
        with self._lock:
            return [id for id, lease in self._held.items() if lease.good_until > 0]

    def renewed(self, asked: list[int], granted: set[int], good_until: float) -> int:
        """Note what a renewal came to: those not granted are lost, and good for nothing from now on."""
        lost = 0
        with self._lock:
            for id in asked:
                lease = self._held.get(id)
                if lease is None:
                    continue
                if id in granted:
                    lease.good_until = good_until
                else:
                    lease.good_until = 0.0
                    lost += 1
        return lost

    def take_done(self) -> list[int]:
        """Leases to release; each is given out once."""
        with self._lock:
            done, self._done = self._done, []
        return done

    def give_back_done(self, ids: list[int]) -> None:
        """They could not be released: later."""
        with self._lock:
            self._done += ids

    def take_progress(self) -> bool:
        """True when something was settled since the last time."""
        with self._lock:
            settled, self._settled = self._settled, 0
        return settled > 0
