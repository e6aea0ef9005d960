"""What the applications share: their command line, their tables, and the server."""

import argparse
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from alembic import command
from alembic.config import Config
from fastapi import FastAPI

import sendonce
from sendonce.contrib.sqlalchemy import async_engine

LOG_LINE = "%(asctime)s %(levelname)s %(message)s"


def main(name: str, build: Callable[[str], FastAPI], migrations: Path) -> int:
    """Bring the tables up to date and serve until told to stop; 1 with a sentence when that cannot be."""
    parser = argparse.ArgumentParser(prog=f"python -m apps.{name}")
    parser.add_argument(
        "--database", default=f"sqlite:///{name}.db", metavar="URL", help="sqlite:///… or postgresql://…"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
    args = parser.parse_args()
    logging.basicConfig(format=LOG_LINE)
    try:
        prepare(args.database, migrations)
        listener = listen(args.host, args.port)
    except (sendonce.SendonceError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    failures = serve(name, build(args.database), listener)
    for each in failures:
        print(f"{name}: {each}", file=sys.stderr)
    return 1 if failures else 0


def serve(name: str, app: FastAPI, listener: socket.socket) -> list[sendonce.SendonceError]:
    """Serve until told to stop; what was wrong with the settings or the database, if it could not begin or end."""
    failures: list[sendonce.SendonceError] = []
    lifespan = app.router.lifespan_context
    address = "http://{}:{}".format(*listener.getsockname())

    @asynccontextmanager
    async def noted(app: FastAPI) -> AsyncIterator[object]:
        try:
            async with lifespan(app) as state:
                print(f"{name} is at {address}, its description at {address}/docs", file=sys.stderr)
                yield state
        except sendonce.SendonceError as error:
            failures.append(error)
            raise

    app.router.lifespan_context = noted  # type: ignore[assignment]
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    # What is told in one sentence needs no trace beside it.
    logging.getLogger("uvicorn.error").addFilter(lambda _: not failures)
    try:
        server.run([listener])
    except SystemExit:
        if not failures:
            raise
    return failures


def prepare(url: str, migrations: Path) -> None:
    """Make or update the tables: those of sendonce first, because the application's views look at them."""
    sendonce.migrate(url)
    command.upgrade(alembic_config(url, migrations), "head")


def alembic_config(url: str, migrations: Path) -> Config:
    """What Alembic's commands take."""
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["engine"] = async_engine(url)
    return config


def listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except (OSError, UnicodeError) as error:
        # Only the system's own numbers are above zero; those below are of the search for the name.
        number = getattr(error, "errno", None) or 0
        why = os.strerror(number) if number > 0 else "there is no such host"
        raise OSError(f"cannot listen on {host}:{port}: {why}") from None
    except OverflowError:
        raise OSError(f"a port is from 0 to 65535, not {port}") from None
