"""What can be wrong with a PostgreSQL. Pure."""

from collections.abc import Iterator
from datetime import timedelta

from sendonce.admin.doctor import Diagnosis, Limits, of_every_database, ok, problem, shown, warning
from sendonce.admin.wording import counted, one_line
from sendonce.domain.durations import format_duration
from sendonce.store.examining import EVERY_ROLE, ExaminedPostgres, Holder

ENCODING = "UTF8"
# What a worker opens, with room for --notify and --listen.
CONNECTIONS_EACH = 8
HELD_DOUBTFUL, HELD_WRONG = timedelta(minutes=5), timedelta(hours=1)
# So many dead rows, and this part of all, before a word is said; the same for what a table takes up in bytes.
DEAD_ROWS, DEAD_PART = 10_000, 0.2
BLOATED_BYTES, BLOATED_TIMES = 64 * 1024 * 1024, 3.0


def diagnose(examined: ExaminedPostgres, limits: Limits) -> list[Diagnosis]:
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
        yield problem(
            "rights", f"role {role} lacks {shown(lacks)}", "grant it: sendonce grants --sql prints the rights"
        )
    if examined.strangers:
        said = (
            f"{shown(examined.strangers)} may create functions in schema {examined.schema}: what is planted there can"
            " be run with the rights of whoever uses our tables"
        )
        yield warning("rights", said, f"revoke create on schema {examined.schema} from {', '.join(examined.strangers)}")
    elif not roles and examined.version:
        yield ok("rights", "this role may look at everything, and our roles have the rights they need")
