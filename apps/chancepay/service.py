"""The command line of a service: migrate, new-key, revoke-key, serve, and what is its own."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import FastAPI
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.ext.asyncio import AsyncEngine

import sendonce
from apps.chancepay.guards import check_tables
from apps.chancepay.keys import new_key, revoke_keys
from apps.chancepay.settings import Settings, add_options, settings_of
from apps.serving import LOG_LINE, listen, prepare, serve
from sendonce.contrib.fastapi import Line
from sendonce.contrib.sqlalchemy import async_engine


@dataclass(frozen=True, slots=True)
class Service:
    """A service by the name of its folder. `others` are commands of its own: until they end, or are told to stop."""

    name: str
    place: Path
    build: Callable[[Settings], FastAPI]
    others: Mapping[str, Callable[[Settings], Awaitable[None]]] = field(default_factory=dict)

    @property
    def migrations(self) -> Path:
        return self.place / "migrations"


def main(service: Service) -> int:
    """Do what the command line says; 1 with a sentence when that cannot be."""
    args = _parser(service).parse_args()
    logging.basicConfig(format=LOG_LINE)
    try:
        return _run(service, args, settings_of(args, service.place, os.environ))
    except (sendonce.SendonceError, OSError) as error:
        print(f"{service.name}: {error}", file=sys.stderr)
    except ValidationError:
        print(f"{service.name}: a key's name is one line of up to 100 characters, and not empty", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


def _parser(service: Service) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m apps.chancepay.{service.name}")
    commands = parser.add_subparsers(dest="command", required=True)
    said = {
        "migrate": "make or update the tables; nothing else does",
        "serve": "answer over HTTP, and send what is recorded",
        "new-key": "make an API key and print it, this once",
        "revoke-key": "end every key of a name",
        **dict.fromkeys(service.others, "take orders from the broker"),
    }
    for command, help in said.items():
        added = commands.add_parser(command, help=help, description=help)
        add_options(added, service.name)
        if command == "serve":
            added.add_argument("--host", default="127.0.0.1")
            added.add_argument("--port", type=int, default=8000, help="0 takes a free one")
        if command.endswith("-key"):
            added.add_argument("name", help="whose key it is")
        if command == "new-key":
            added.add_argument("--role", choices=("caller", "internal"), default="caller")
    return parser


def _run(service: Service, args: argparse.Namespace, settings: Settings) -> int:
    if args.command == "migrate":
        prepare(settings.database, service.migrations)
    elif args.command == "new-key":
        name = TypeAdapter(Line).validate_python(args.name[:101])
        print(asyncio.run(_with_tables(service, settings, lambda engine: new_key(engine, name, args.role))))
    elif args.command == "revoke-key":
        ended = asyncio.run(_with_tables(service, settings, lambda engine: revoke_keys(engine, args.name)))
        print(f"{ended} keys of {args.name} ended", file=sys.stderr)
    elif args.command == "serve":
        failures = serve(service.name, service.build(settings), listen(args.host, args.port))
        for each in failures:
            print(f"{service.name}: {each}", file=sys.stderr)
        return 1 if failures else 0
    else:
        asyncio.run(_other(service, args.command, settings))
    return 0


async def _with_tables(
    service: Service, settings: Settings, work: Callable[[AsyncEngine], Awaitable[object]]
) -> object:
    engine = async_engine(settings.database)
    try:
        await check_tables(engine, service.migrations)
        return await work(engine)
    finally:
        await engine.dispose()


async def _other(service: Service, command: str, settings: Settings) -> None:
    await service.others[command](settings)
