"""Named points between two writes that belong together. Nothing happens there, unless a test installs a hook."""

from collections.abc import Callable

POINTS = (
    "worker.after_claim",
    "sender.before_look_up",
    "sender.after_look_up",
    "sender.before_send",
    "sender.after_send",
    "worker.before_settle",
    "worker.after_settle",
    "keeper.before_renew",
    "keeper.before_expire",
    "keeper.after_expire",
)
# Those of `sendonce migrate`.
MIGRATING = ("migrate.before_commit", "migrate.after_commit", "backfill.before_commit", "backfill.after_commit")
# Those of `sendonce consume`.
CONSUMING = (
    "consumer.after_begin",
    "consumer.before_handle",
    "consumer.after_commit",
    "consumer.before_acknowledge",
    "consumer.after_acknowledge",
)


def _nothing(point: str) -> None:
    return None


_hook: Callable[[str], None] = _nothing


def checkpoint(point: str) -> None:
    """Say that this point has been reached."""
    _hook(point)


def install(hook: Callable[[str], None] | None) -> None:
    """Call `hook` with the name of every point that is reached from now on; None takes it out."""
    global _hook
    _hook = hook or _nothing
