"""What can be wrong with a SQLite file. Pure."""

from sendonce.admin.doctor import Diagnosis, Limits, of_every_database, ok, problem, shown, warning
from sendonce.admin.wording import one_line
from sendonce.store.examining import ExaminedSqlite, Work

MEGABYTE = 2**20
LITTLE_SPACE, NO_SPACE = 1024 * MEGABYTE, 100 * MEGABYTE
LARGE_WAL = 100 * MEGABYTE
# Their locks do not hold between machines, or not surely.
_REMOTE = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "fuse.glusterfs", "ceph", "afs", "lustre")


def diagnose(examined: ExaminedSqlite, limits: Limits) -> list[Diagnosis]:
    return [
        *of_every_database(examined, limits),
        _file(examined),
        _journal(examined),
        _integrity(examined),
        *([_references(examined)] if examined.version else []),
        _space(examined),
        _place(examined),
        *([_hosts(examined.work)] if examined.work else []),
    ]


def _file(examined: ExaminedSqlite) -> Diagnosis:
    if examined.is_writable and examined.is_open_to_all:
        said = "everybody on this machine can read or write the file: payloads, addresses, secrets"
        return warning("file", said, "run: chmod o-rwx FILE FILE-wal FILE-shm")
    if examined.is_writable:
        return ok("file", f"{examined.size / MEGABYTE:,.1f} MB, and this user may write it")
    return problem("file", "this user may not write the file or its folder", "give the workers' user both")


def _journal(examined: ExaminedSqlite) -> Diagnosis:
    if examined.damage and examined.journal_mode != "wal":
        return warning("journal", "the journal mode cannot be told of a damaged file", "see integrity")
    if examined.journal_mode != "wal" and not examined.version:
        return ok("journal", f"the journal mode is {examined.journal_mode}; sendonce migrate makes it WAL")
    if examined.journal_mode != "wal":
        return problem(
            "journal",
            f"the journal mode is {examined.journal_mode}: readers and the writer wait for each other",
            "a worker switches it back when it starts; find out what switches it off",
        )
    if examined.wal_size > max(LARGE_WAL, examined.size):
        said = f"the write-ahead log has grown to {examined.wal_size // MEGABYTE:,} MB"
        return warning("journal", said, "some reader keeps it from being folded in: end its transaction")
    return ok("journal", "the journal mode is WAL")


def _integrity(examined: ExaminedSqlite) -> Diagnosis:
    if examined.damage:
        said = f"the file is damaged: {shown(one_line(each, 100) for each in examined.damage)}"
        return problem("integrity", said, "stop the workers and restore a backup; then run: sendonce doubt --open")
    if not examined.was_checked:
        return warning(
            "integrity", "the file is too large to look at all of it here", "run: sqlite3 FILE 'pragma quick_check'"
        )
    return ok("integrity", "the file is sound")


def _references(examined: ExaminedSqlite) -> Diagnosis:
    if not examined.broken_references:
        return ok("references", "every subscription's types and secrets belong to one that is there")
    said = f"{examined.broken_references:,} rows belong to a subscription that is not there"
    return problem("references", said, "somebody deleted it past sendonce; see: pragma foreign_key_check")


def _space(examined: ExaminedSqlite) -> Diagnosis:
    said = f"{examined.free_space // MEGABYTE:,} MB are free on its disk"
    if examined.free_space < NO_SPACE:
        return problem("space", said, "make room: when it is full nothing can be recorded")
    if examined.free_space < LITTLE_SPACE:
        return warning("space", said, "make room, or run: sendonce prune")
    return ok("space", said)


def _place(examined: ExaminedSqlite) -> Diagnosis:
    if examined.file_system.startswith(_REMOTE):
        said = f"it is on a file system of the network ({examined.file_system}), whose locks cannot be relied on"
        return problem("place", said, "move it to a local disk, or use PostgreSQL")
    return ok("place", f"it is on a local file system ({examined.file_system})" if examined.file_system else "unknown")


def _hosts(work: Work) -> Diagnosis:
    hosts = sorted({one_line(worker.name.rpartition(":")[0], 60) for worker in work.workers})
    if len(hosts) > 1:
        said = f"workers of several hosts use this one file: {shown(hosts)}"
        return problem("hosts", said, "a SQLite file is for one host: stop the others, or use PostgreSQL")
    return ok("hosts", "no second host's workers are on this file")
