"""What one service is told: by options, else by the environment; keys by the environment alone."""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from apps.chancepay.peer import Address
from sendonce import ConfigError

PREFIX = "CHANCEPAY_"


class Mode(StrEnum):
    """`chance` is the document to the letter; `sure` closes what it leaves open."""

    SURE = "sure"
    CHANCE = "chance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`peer` is the other service, and None when nobody has named it; `config` is the settings file of sendonce."""

    database: str
    mode: Mode
    config: Path
    peer: Address | None
    broker: str

    def needed_peer(self) -> Address:
        if self.peer is None:
            raise ConfigError(
                "name the other service: --peer http://…, and CHANCEPAY_PEER_KEY for the key it has given"
            )
        return self.peer


def add_options(parser: argparse.ArgumentParser, name: str) -> None:
    """The options that every command of a service takes."""
    told = os.environ.get
    parser.add_argument(
        "--database", default=told(PREFIX + "DATABASE", f"sqlite:///{name}.db"), metavar="URL",
        help="sqlite:///… or postgresql://…",
    )  # fmt: skip
    parser.add_argument("--mode", choices=[each.value for each in Mode], default=told(PREFIX + "MODE", "sure"))
    parser.add_argument("--peer", default=told(PREFIX + "PEER"), metavar="URL", help="where the other service is")
    parser.add_argument(
        "--broker", default=told(PREFIX + "BROKER", "nats:main/payments"), metavar="ADDRESS",
        help="where orders go (amqp:main//payments), or come from (amqp:main/payments); nats:main/payments is both",
    )  # fmt: skip


def settings_of(args: argparse.Namespace, place: Path, environment: Mapping[str, str]) -> Settings:
    """What was given, checked; ConfigError says what is wrong."""
    if args.mode not in list(Mode):
        raise ConfigError(f"{PREFIX}MODE is sure or chance, not {args.mode!r}")
    key = environment.get(PREFIX + "PEER_KEY", "")
    if args.peer is not None and not args.peer.startswith(("http://", "https://")):
        raise ConfigError("--peer is an address like http://127.0.0.1:8001")
    if args.peer is not None and not (key.isascii() and key.isprintable() and key.strip() == key != ""):
        raise ConfigError(f"the other service needs a key of ours: {PREFIX}PEER_KEY, one line of ASCII")
    return Settings(
        database=args.database,
        mode=Mode(args.mode),
        config=Path(environment.get("SENDONCE_CONFIG") or place / f"{args.mode}.toml"),
        peer=None if args.peer is None else Address(args.peer, key),
        broker=args.broker,
    )
