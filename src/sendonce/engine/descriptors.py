"""How many files a worker may have open: what it needs for all its sends is there before it claims anything."""

from importlib.util import find_spec

from sendonce.errors import ConfigError

# The program itself, its connections to the database, and what serves its metrics.
BESIDES = 40


def check_descriptors(concurrency: int) -> None:
    """Raise the soft limit as far as it takes; ConfigError where the hard one forbids that."""
    if find_spec("resource") is None:  # not on this system
        return
    import resource

    needed = concurrency + BESIDES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _covers(soft, needed):
        return
    if not _covers(hard, needed):
        raise ConfigError(
            f"this process may open {hard} files, and {concurrency} sends at once need {needed}; raise its limit"
            " (ulimit -n, LimitNOFILE=) or lower concurrency"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _covers(limit: int, needed: int) -> bool:
    import resource

    return limit == resource.RLIM_INFINITY or limit >= needed
