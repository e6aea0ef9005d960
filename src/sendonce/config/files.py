"""The settings file itself: found, parsed, and where in it each key stands."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from sendonce.errors import ConfigError

DEFAULT_FILE = "sendonce.toml"
VARIABLE = "SENDONCE_CONFIG"
_HEAD = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")


def find(given: str | None, environment: Mapping[str, str]) -> Path | None:
    """The settings file to read, if there is one: the one that is named, else of SENDONCE_CONFIG, else ours here."""
    if named := given or environment.get(VARIABLE):
        return Path(named)
    default = Path(DEFAULT_FILE)
    return default if default.is_file() else None


def read(path: Path) -> str:
    """The text of a settings file; ConfigError says why there is none."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no settings file {path}") from None
    except OSError as error:
        raise ConfigError(f"the settings file {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"the settings file {path} is not UTF-8 text") from None


def parse(label: str, text: str) -> dict[str, object]:
    """The tables of the text; ConfigError when it is not TOML."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{label} is not TOML: {error}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{label} cannot be read: a number in it is too large, or it is nested too deeply") from None
    check_numbers(label, tables)
    return tables


def check_numbers(label: str, value: object) -> None:
    """Raise ConfigError for whole numbers of more than 64 bits: TOML has none, and nothing here could show them."""
    if any(isinstance(each, int) and abs(each) >= 2**63 for each in _values_in(value)):
        raise ConfigError(f"{label} cannot be read: a number in it is too large")


def names_in(value: object) -> set[str]:
    """The variables that are named in it as { env = "NAME" }."""
    named = (each.get("env") for each in _values_in(value) if isinstance(each, dict))
    return {each for each in named if isinstance(each, str)}


def lines_of(text: str) -> dict[tuple[str, str], int]:
    """The line of each key on a line of its own, by table and key; not of one that seems to stand twice."""
    found: dict[tuple[str, str], int] = {}
    twice: set[tuple[str, str]] = set()
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := _HEAD.fullmatch(line):
            table = head[1].replace(" ", "").replace('"', "").replace("'", "")
        elif key := _KEY.match(line):
            twice |= {(table, key[1])} & found.keys()
            found[table, key[1]] = number
    return {place: number for place, number in found.items() if place not in twice}


def _values_in(value: object) -> Iterator[object]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
