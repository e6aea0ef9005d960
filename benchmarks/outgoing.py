"""Signed webhooks and mails end to end, against the same client alone; and a healthy destination behind a dead one.

Everything is counted by a receiver in a process of its own, from the first arrival to the last.
"""

import os
import subprocess
import sys

import psycopg

from benchmarks.alone import IN_FLIGHT
from benchmarks.measures import Figures, fresh
from benchmarks.sinks import Sinks
from sendonce import Draft, Email, Outbox
from tests.servers.postgres import Server

TEXT = "x" * 1000
POLICY = '{"timeout": "5s"}'


def webhooks(server: Server, count: int) -> Figures:
    """Signed webhooks to ten subscriptions, with one worker process and with two."""
    found: Figures = {}
    for processes in (1, 2):
        with Sinks() as sinks:
            _alone("http", sinks.ports["quick"], count, processes)
            bare = sinks.rate("quick", count)
            dsn = fresh(server)
            for number in range(10):
                _run(dsn, "subscriptions", "add", "--type", f"order.t{number}", "--to",
                     f"http://127.0.0.1:{sinks.ports['quick']}/hook/{number}")  # fmt: skip
            _publish(
                dsn, [Draft(f"order.t{n % 10}", {"order": n, "text": TEXT}, key=str(n), to=None) for n in range(count)]
            )
            _work(dsn, processes, concurrency=IN_FLIGHT)
            ours = sinks.rate("quick", count)
        found |= {
            f"webhooks x{processes}: client alone per second": bare,
            f"webhooks x{processes}: ours per second": ours,
            f"webhooks x{processes}: ours / client alone": ours / bare,
        }
    return found


def mails(server: Server, count: int) -> Figures:
    """Mails over SMTP, ten connections each."""
    with Sinks() as sinks:
        _alone("smtp", sinks.ports["smtp"], count, 1)
        bare = sinks.rate("smtp", count)
        dsn = fresh(server)
        mail = [Email(f"user{n}@example.com", subject="benchmark", text=TEXT) for n in range(count)]
        _publish(dsn, [Draft("memo.created", {}, key=str(n), to=mail[n]) for n in range(count)])
        _work(dsn, 1, concurrency=IN_FLIGHT, smtp=sinks.ports["smtp"])
        ours = sinks.rate("smtp", count)
    return {
        "mails: client alone per second": bare,
        "mails: ours per second": ours,
        "mails: ours / client alone": ours / bare,
    }


def fairness(server: Server, dead: int, healthy: int) -> Figures:
    """How long the healthy ones take alone, and behind a queue for a destination that never answers."""
    alone, behind = (_healthy_seconds(server, amount, healthy) for amount in (0, dead))
    return {
        f"fairness: {healthy:,} healthy alone, seconds": alone,
        f"fairness: the same behind {dead:,} dead, seconds": behind,
        "fairness: behind dead / alone": behind / alone,
    }


def _healthy_seconds(server: Server, dead: int, healthy: int) -> float:
    with Sinks() as sinks:
        dsn = fresh(server)
        for name, amount in (("silent", dead), ("slow", healthy)):
            to = f"http://127.0.0.1:{sinks.ports[name]}/hook"
            _publish(dsn, [Draft("order.created", {"order": n}, key=f"{name}{n}", to=to) for n in range(amount)])
        worker = _start(dsn, concurrency=IN_FLIGHT)
        try:
            while _scalar(dsn, "select count(*) from sendonce_deliveries where status = 'Completed'") < healthy:
                if worker.poll() is not None:
                    raise RuntimeError("the worker ended early")
        finally:
            worker.kill()
            worker.wait()
        counts = sinks.counts()
        begun = min(first for amount, first, _ in counts.values() if amount)
        return counts["slow"][2] - begun


def _publish(dsn: str, drafts: list[Draft]) -> None:
    outbox = Outbox()
    with psycopg.connect(dsn) as connection:
        for first in range(0, len(drafts), 1000):
            outbox.publish_many(connection, drafts[first : first + 1000])
            connection.commit()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("analyze")


def _alone(kind: str, port: int, count: int, processes: int) -> None:
    shares = [count // processes + (number < count % processes) for number in range(processes)]
    command = [sys.executable, "-m", "benchmarks.alone", kind, str(port)]
    _all_well([subprocess.Popen([*command, str(share)]) for share in shares])


def _work(dsn: str, processes: int, *, concurrency: int, smtp: int | None = None) -> None:
    _all_well([_start(dsn, "--until-idle", concurrency=concurrency, smtp=smtp) for _ in range(processes)])


def _start(dsn: str, *options: str, concurrency: int, smtp: int | None = None) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "SENDONCE_ALLOW_NETWORKS": "127.0.0.0/8", "SENDONCE_POLICY": POLICY}
    if smtp is not None:
        environment |= {"SENDONCE_SMTP_URL": f"smtp+plain://127.0.0.1:{smtp}", "SENDONCE_MAIL_SENDER": "a@example.com"}
    command = [sys.executable, "-m", "sendonce", "worker", "--database", dsn, "--concurrency", str(concurrency)]
    return subprocess.Popen([*command, *options], env=environment, stderr=subprocess.DEVNULL)


def _run(dsn: str, *arguments: str) -> None:
    command = [sys.executable, "-m", "sendonce", *arguments, "--database", dsn]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _all_well(started: "list[subprocess.Popen[bytes]]") -> None:
    if any([each.wait() for each in started]):
        raise RuntimeError("a benchmark process has failed")


def _scalar(dsn: str, sql: str) -> int:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(sql.encode()).fetchone()
        assert row is not None
        return int(row[0])
