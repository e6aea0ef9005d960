"""Say of an examined database what is well, what is doubtful and what is wrong, and what to do. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from sendonce.admin.advice import GO_ON_MIGRATING, MIGRATE, START_WORKER, Advice
from sendonce.admin.status import DUE_FOR_LONG, late_message
from sendonce.admin.text import counted, listed, missing_tables, one_line
from sendonce.domain.durations import format_duration
from sendonce.domain.serving import shown as shown_name
from sendonce.store.examining import EVERY_ROLE, Examined, ExaminedPostgres, ExaminedSqlite, Holder, Work

CLOCK_DOUBTFUL, CLOCK_WRONG = 2.0, 60.0
# Retention passes by once an hour and takes its time.
RETENTION_LATE = timedelta(days=1)
_SHOWN = 8


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One look at one thing. `to_do` and `advice` are empty where nothing is to be done."""

    name: str
    level: Level
    sentence: str
    to_do: str = ""
    advice: tuple[Advice, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that what is seen is compared with: of sends, and how long each part of retention keeps things."""

    lease: timedelta
    timeout: timedelta
    retention: Mapping[str, timedelta] = field(default_factory=dict)


async def examine(url: str, limits: Limits) -> "list[Diagnosis]":
    """Say what is well and what is wrong with a database and its surroundings, whatever its schema."""
    from sendonce import compose

    examined = await compose.examine(url)
    if isinstance(examined, ExaminedSqlite):
        return diagnose_sqlite(examined, limits)
    return diagnose_postgres(examined, limits)


def ok(name: str, sentence: str) -> Diagnosis:
    return Diagnosis(name, Level.OK, sentence)


def warning(name: str, sentence: str, to_do: str = "", *advice: Advice) -> Diagnosis:
    return Diagnosis(name, Level.WARNING, sentence, to_do, advice)


def problem(name: str, sentence: str, to_do: str = "", *advice: Advice) -> Diagnosis:
    return Diagnosis(name, Level.PROBLEM, sentence, to_do, advice)


def of_every_database(examined: Examined, limits: Limits) -> Iterator[Diagnosis]:
    """Check what can be wrong on either database."""
    yield _schema(examined)
    yield _clock(examined.clock_ahead)
    if examined.work is not None:
        yield _rules(examined.work)
        yield _backfill(examined.work)
        yield _workers(examined.work)
        yield _channels(examined.work)
        yield _sends(examined.work, limits)
        yield _retention(examined.work, limits)
        yield _inbox(examined.work)


def shown(names: Iterable[str]) -> str:
    """Return the first few of many, and how many more there are."""
    every = list(names)
    rest = [f"{len(every) - _SHOWN} more"] if len(every) > _SHOWN else []
    return listed([*every[:_SHOWN], *rest])


def _schema(examined: Examined) -> Diagnosis:
    version, known = examined.version, examined.known_version
    if version is None:
        return problem("schema", "which schema this is cannot be read", "see what is wrong below")
    if version == 0:
        elsewhere = "" if isinstance(examined, ExaminedSqlite) else ", or not where this role looks for them"
        return problem("schema", f"there are no sendonce tables{elsewhere}", "", MIGRATE)
    if examined.missing_tables:
        said, _, to_do = missing_tables(list(examined.missing_tables)).partition("; ")
        return problem("schema", said, to_do)
    if version < known:
        return problem("schema", f"the schema is {version}, and this program needs {known}", "", MIGRATE)
    if version > known + 1:
        return problem("schema", f"the schema is {version}, too new for this program", "install a newer sendonce")
    if version > known:
        return warning(
            "schema",
            f"the schema is {version}, one newer than this program knows",
            "install the newer sendonce here too",
        )
    return ok("schema", f"the schema is {version}, the newest")


def _clock(ahead: float) -> Diagnosis:
    size = abs(ahead)
    if size < CLOCK_DOUBTFUL:
        return ok("clock", "the database's clock and this machine's agree")
    which = "ahead of" if ahead > 0 else "behind"
    said = f"the database's clock is {format_duration(timedelta(seconds=round(size)))} {which} this machine's"
    to_do = "set both by NTP: scheduled sends and times in signatures are off by as much"
    return (problem if size >= CLOCK_WRONG else warning)("clock", said, to_do)


def _rules(work: Work) -> Diagnosis:
    if not work.broken_rules:
        return ok("rules", "every trigger, index and constraint of the schema is there and acts")
    to_do = "; ".join(each.to_do for each in work.broken_rules[:_SHOWN])
    then = Advice(verb="verify", why="then run")
    return problem("rules", shown(str(each) for each in work.broken_rules), to_do, then)


def _backfill(work: Work) -> Diagnosis:
    open_ones = [each for each in work.backfills if not each.is_finished]
    if not open_ones:
        return ok("back-fill", "what was there when the tables were migrated is filled in")
    said = listed([f"{each.migration} has come to {each.done:,} of {each.bound:,}" for each in open_ones])
    return warning("back-fill", f"an upgrade is not finished: {said}", "", GO_ON_MIGRATING)


def _workers(work: Work) -> Diagnosis:
    waiting = timedelta(0) if work.oldest_due_at is None or work.is_stopped else work.now - work.oldest_due_at
    if work.workers:
        return ok("workers", f"{counted(len(work.workers), 'worker')} alive")
    if waiting >= DUE_FOR_LONG:
        said = f"no worker is alive, and work has been due for {format_duration(waiting)}"
        return problem("workers", said, "", START_WORKER)
    return ok("workers", "no worker is alive, and nothing has been due for long")


def _channels(work: Work) -> Diagnosis:
    if not work.unserved:
        return ok("channels", "nothing waits for a channel that no live worker serves")
    waiting = counted(sum(row.waiting for row in work.unserved), "delivery waits", "deliveries wait")
    names = shown(shown_name(row.name) for row in work.unserved)
    to_do = "start a worker that has the channel; until then it waits, spends nothing, and ends by its deadline alone"
    return warning("channels", f"{waiting} for {names}, which no live worker serves", to_do)


def _sends(work: Work, limits: Limits) -> Diagnosis:
    if work.expired_leases:
        said = f"of the newest attempts, {counted(work.expired_leases, 'lease')} ran out before an answer came"
        to_do = "workers died or were stopped hard; if not, make [worker] lease longer than sends take"
        return warning("lease", said, to_do)
    if not work.send_seconds:
        return ok("lease", "nothing has been sent yet that a lease could be compared with")
    ordered = sorted(work.send_seconds)
    most = timedelta(seconds=round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], 3))
    said = f"99 of 100 sends take at most {format_duration(most)}, and the lease is {format_duration(limits.lease)}"
    if most > limits.lease:
        to_do = (
            "make [worker] lease longer, or [policy] timeout shorter: a longer send may be taken for dead and repeated"
        )
        return problem("lease", said, to_do)
    if most > limits.lease / 2:
        return warning("lease", said, "make [worker] lease longer: one slow renewal away from being taken for dead")
    return ok("lease", said)


def _retention(work: Work, limits: Limits) -> Diagnosis:
    """How far the pass is behind that is furthest behind."""
    behind = {
        each.part: each.behind(work.now, limits.retention[each.part])
        for each in work.retention
        if each.part in limits.retention
    }
    if not behind:
        return ok("retention", "everything is kept for ever")
    part = max(behind, key=lambda each: behind[each])
    if behind[part] < RETENTION_LATE:
        return ok("retention", "what has been kept long enough goes within a day")
    kept, late = format_duration(limits.retention[part]), format_duration(behind[part])
    said = f"retention is behind: {part} should go after {kept}, and some may have been due for that for {late}"
    to_do = "let a worker run all the time"
    prune = Advice(verb="prune", why="if one does, it cannot keep up; in quiet hours, run", needs=("reason",))
    return warning("retention", said, to_do, prune)


def _inbox(work: Work) -> Diagnosis:
    if late := late_message(work.inbox, work.now):
        return problem("inbox", late.sentence, "", *late.advice)
    if work.inbox.dead:
        said = f"{counted(work.inbox.dead, 'message')} that came in were given up and wait for a person"
        return warning("inbox", said, "", Advice(verb="messages", why="see", given={"dead": True}))
    return ok("inbox", "no message that came in is late or waits for a person")


ENCODING = "UTF8"
# What a worker opens, with room for --notify and --metrics.
CONNECTIONS_EACH = 8
HELD_DOUBTFUL, HELD_WRONG = timedelta(minutes=5), timedelta(hours=1)
# So many dead rows, and this part of all, before a word is said; the same for what a table takes up in bytes.
DEAD_ROWS, DEAD_PART = 10_000, 0.2
BLOATED_BYTES, BLOATED_TIMES = 64 * 1024 * 1024, 3.0


def diagnose_postgres(examined: ExaminedPostgres, limits: Limits) -> list[Diagnosis]:
    return [
        *of_every_database(examined, limits),
        _writable(examined),
        _encoding(examined),
        _durability(examined),
        _commits(examined),
        *_vacuum(examined),
        _bloat(examined),
        _connections(examined),
        *_rights(examined),
    ]


def _writable(examined: ExaminedPostgres) -> Diagnosis:
    if not examined.is_read_only:
        return ok("writable", "this server can be written to")
    return problem(
        "writable", "this server only reads: a standby, or set to", "point workers and publishers at the primary"
    )


def _encoding(examined: ExaminedPostgres) -> Diagnosis:
    if examined.encoding == ENCODING:
        return ok("encoding", "every text can be kept")
    return problem(
        "encoding",
        f"the database's encoding is {examined.encoding}, which cannot keep every text: no worker begins here",
        f"make a database with encoding '{ENCODING}' and template template0, and move to it with pg_dump",
    )


def _durability(examined: ExaminedPostgres) -> Diagnosis:
    off = [
        name
        for name, is_on in (("fsync", examined.has_fsync), ("full_page_writes", examined.has_full_page_writes))
        if not is_on
    ]
    if not off:
        return ok("durability", "what is committed survives a crash of the machine")
    said = f"{shown(off)} {'is' if len(off) == 1 else 'are'} off: a crash of the machine can lose or damage everything"
    return problem("durability", said, "switch it on in postgresql.conf and reload")


def _commits(examined: ExaminedPostgres) -> Diagnosis:
    whose = (
        ["this session", *examined.careless] if examined.synchronous_commit in ("off", "local") else examined.careless
    )
    if not whose:
        return ok("commits", "commits wait for the disk")
    said = (
        f"synchronous_commit is off for {shown(whose)}: a crash of the server can lose the last events that publishers"
        " were told are committed; workers switch it on for themselves"
    )
    resets = [f"alter role {role} reset synchronous_commit" for role in examined.careless if role != EVERY_ROLE]
    if len(resets) < len(whose):
        resets.append("alter database … set synchronous_commit = on")
    return problem("commits", said, f"switch it on where events are published: {'; '.join(resets[:3])}")


def _vacuum(examined: ExaminedPostgres) -> Iterator[Diagnosis]:
    off = [table.name for table in examined.tables if not table.is_vacuumed]
    if not examined.has_autovacuum:
        yield problem(
            "autovacuum", "autovacuum or track_counts is off: dead rows pile up until claims crawl", "switch it on"
        )
    elif off:
        yield problem("autovacuum", f"autovacuum is off for {shown(off)}", "alter table … reset (autovacuum_enabled)")
    else:
        yield ok("autovacuum", "it runs, and is on for every table")
    worst = [_held(holder) for holder in examined.holders]
    bad = [each for each in worst if each is not None]
    yield from bad[:3]
    if not bad:
        blind = "" if examined.sees_everybody else ", as far as this role sees (grant pg_read_all_stats to see all)"
        yield ok("vacuum", f"nothing holds it back{blind}")


def _held(holder: Holder) -> Diagnosis | None:
    age = timedelta(seconds=round(holder.seconds or 0))
    since = "" if holder.seconds is None else f" for {format_duration(age)}"
    said = f"{holder.kind} {one_line(holder.name, 60)} holds vacuum back{since}, {holder.age:,} transactions behind"
    match holder.kind:
        case "unused replication slot":
            return problem(
                "vacuum", said, f"drop it if nobody comes back for it: pg_drop_replication_slot('{holder.name}')"
            )
        case "prepared transaction" if age >= HELD_DOUBTFUL:
            return problem("vacuum", said, "commit or roll it back: rollback prepared '…'")
        case "transaction" if age >= HELD_WRONG:
            return problem("vacuum", said, f"end it: select pg_terminate_backend({holder.name})")
        case "transaction" if age >= HELD_DOUBTFUL:
            return warning(
                "vacuum", said, "find out what it waits for; idle_in_transaction_session_timeout ends such by itself"
            )
    return None


def _bloat(examined: ExaminedPostgres) -> Diagnosis:
    dead = [
        f"{table.name} ({table.dead:,} dead of {table.live + table.dead:,})"
        for table in examined.tables
        if table.dead > DEAD_ROWS and table.dead > DEAD_PART * (table.live + table.dead)
    ]
    if dead:
        return warning(
            "bloat", f"dead rows wait for vacuum in {shown(dead)}", "see what holds vacuum back, or run: vacuum"
        )
    large = [
        f"{table.name} ({table.size // 2**20:,} MB, about {table.wanted_size // 2**20:,} needed)"
        for table in examined.tables
        if table.size > BLOATED_BYTES and table.size > BLOATED_TIMES * table.wanted_size
    ]
    if large:
        return warning(
            "bloat", f"mostly empty: {shown(large)}", "it is filled again in time; vacuum full needs a pause"
        )
    return ok("bloat", "no table has many dead rows or much empty room")


def _connections(examined: ExaminedPostgres) -> Diagnosis:
    free = examined.most_connections - examined.used_connections
    workers = len(examined.work.workers) if examined.work else 0
    said = f"{free} of {examined.most_connections} connections are free; a worker takes up to {CONNECTIONS_EACH}"
    if workers * CONNECTIONS_EACH > examined.most_connections:
        many = counted(workers, "worker")
        to_do = "raise max_connections, run fewer workers with a higher concurrency, or put PgBouncer in between"
        return problem("connections", f"{said}, and {many} want {workers * CONNECTIONS_EACH}", to_do)
    if free < CONNECTIONS_EACH:
        return warning(
            "connections", said, "one more worker could not connect: raise max_connections, or use PgBouncer"
        )
    return ok("connections", said)


def _rights(examined: ExaminedPostgres) -> Iterator[Diagnosis]:
    roles = sorted({right.role for right in examined.missing_rights})
    for role in roles:
        lacks = [f"{each.privilege} on {each.object}" for each in examined.missing_rights if each.role == role]
        grants = Advice(verb="grants_sql", why="grant what this prints")
        yield problem("rights", f"role {role} lacks {shown(lacks)}", "", grants)
    if examined.strangers:
        said = (
            f"{shown(examined.strangers)} may create functions in schema {examined.schema}: what is planted there can"
            " be run with the rights of whoever uses our tables"
        )
        yield warning("rights", said, f"revoke create on schema {examined.schema} from {', '.join(examined.strangers)}")
    elif not roles and examined.version:
        yield ok("rights", "this role may look at everything, and our roles have the rights they need")


MEGABYTE = 2**20
LITTLE_SPACE, NO_SPACE = 1024 * MEGABYTE, 100 * MEGABYTE
LARGE_WAL = 100 * MEGABYTE
# Their locks do not hold between machines, or not surely.
_REMOTE = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "fuse.glusterfs", "ceph", "afs", "lustre")


def diagnose_sqlite(examined: ExaminedSqlite, limits: Limits) -> list[Diagnosis]:
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
        doubt = Advice(verb="doubt", why="then run", needs=("reason",))
        return problem("integrity", said, "stop the workers and restore a backup", doubt)
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
        return warning("space", said, "make room", Advice(verb="prune", why="or run", needs=("reason",)))
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
