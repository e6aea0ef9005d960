"""What a setting is, and the kinds of values: what is allowed, how one is read, and how it is shown."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from sendonce.domain.destinations import BROKERS, normalise, scheme_of
from sendonce.domain.durations import parse_duration, spell_duration
from sendonce.domain.policies import DEFAULT_POLICY, override
from sendonce.errors import BadDestination, ConfigError
from sendonce.signing import key_of
from sendonce.store.urls import check_url

SECRET_FILE_CAP = 1_000_000
NEVER = "never"
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True, repr=False)
class Source:
    """Where settings come from. Files that they name are looked for beside the settings file."""

    label: str
    folder: Path
    environment: Mapping[str, str]


class Wrong(ValueError):
    """How the sentence about a value goes on: `is missing`, `must begin with https:`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`read` gives the value, or ValueError: then it must be `wanted`. `of_text` is for options and variables.

    What may be secret is never repeated when it is wrong, and `shown` hides it. `of_nothing`: None is a value too.
    """

    wanted: str
    read: Callable[[object, Source], object]
    of_text: Callable[[str], object] = str
    shown: Callable[[object], str] = str
    is_secret: bool = False
    of_nothing: bool = False
    metavar: str = "TEXT"


def _text(value: object, source: Source) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _flag(value: object, source: Source) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _whole(value: object, source: Source) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    return value


def _number(value: object, source: Source) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    return float(value)


def _duration(value: object, source: Source) -> timedelta:
    return parse_duration(value)


def _duration_or_never(value: object, source: Source) -> str | timedelta:
    return NEVER if value is False or value == NEVER else parse_duration(value)


def _texts(value: object, source: Source) -> list[str]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError
    return found


def _secret(value: object, source: Source) -> str:
    match value:
        case str() if value.strip():
            return value
        case {"env": str(name), **rest} if not rest:
            if found := source.environment.get(name, "").strip():
                return found
            raise Wrong(f"is to come from the environment, but {name} is not set")
        case {"file": str(path), **rest} if not rest:
            return _content(path, source)
    raise ValueError


def _secrets(value: object, source: Source) -> list[str]:
    """Each in any of the three spellings, and several in one text with commas between them."""
    found = [_secret(each, source) for each in (value if isinstance(value, list) else [value])]
    return [part for text in found for part in _split(text)]


def _signing(value: object, source: Source) -> str:
    secret = _secret(value, source)
    try:
        key_of(secret)
    except ConfigError as error:
        raise Wrong(f"cannot be used: {error}") from None
    return secret


def _file(value: object, source: Source) -> str:
    match value:
        case {"file": str(path), **rest} if not rest:
            _content(path, source)
            return str(source.folder / path)
    raise ValueError


def _content(path: str, source: Source) -> str:
    try:
        with open(source.folder / path, encoding="utf-8") as file:
            found = file.read(SECRET_FILE_CAP).strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise Wrong(f"is to come from the file {path}, which cannot be read ({why})") from None
    if not found:
        raise Wrong(f"is to come from the file {path}, which is empty")
    return found


def _headers(value: object, source: Source) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError
    try:
        return {name: _secret(each, source) for name, each in value.items()}
    except Wrong:
        raise
    except ValueError:
        raise Wrong('must have values that are texts, { env = "NAME" } or { file = "path" }') from None


def _policy(value: object, source: Source) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError
    try:
        override(DEFAULT_POLICY, value)
    except ConfigError as error:
        raise Wrong(f"cannot be used: {error}") from None
    return value


def _database(value: object, source: Source) -> str:
    try:
        return check_url(value if isinstance(value, str) else _secret(value, source))
    except ConfigError as error:
        raise Wrong(f"cannot be used: {error}") from None


def _address(value: object, source: Source) -> tuple[str, int]:
    host, _, port = _text(value, source).strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65535:
        raise ValueError
    return host, int(port)


def _app(value: object, source: Source) -> str:
    module, _, name = _text(value, source).partition(":")
    if not module or not name:
        raise ValueError
    return f"{module}:{name}"


def choice(*among: str) -> Kind:
    """One of a few words."""

    def read(value: object, source: Source) -> str:
        if value not in among:
            raise ValueError
        return str(value)

    return Kind(wanted=f"one of {', '.join(among)}", read=read, metavar="|".join(among))


def destination(*schemes: str) -> Kind:
    """A destination in its one spelling; an address of e-mail may stand without its scheme."""

    def read(value: object, source: Source) -> str:
        text = _text(value, source)
        if "mailto" in schemes and not text.startswith("mailto:"):
            text = f"mailto:{text}"
        try:
            uri = normalise(text)
        except BadDestination as error:
            raise Wrong(f"is no destination: {error}") from None
        if scheme_of(uri) not in schemes:
            raise Wrong(f"must begin with {' or '.join(f'{each}:' for each in schemes)}")
        return uri

    return Kind(wanted="an address", read=read, shown=lambda value: str(value).partition("?")[0], metavar="URL")


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _as_whole(text: str) -> object:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else text


def _as_number(text: str) -> object:
    try:
        return float(text)
    except ValueError:
        return text


def _shown_duration(value: object) -> str:
    return spell_duration(value) if isinstance(value, timedelta) else NEVER


def _shown_names(value: object) -> str:
    return ", ".join(value) if isinstance(value, Mapping) else ""


def _shown_list(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, Sequence) else ""


def _shown_policy(value: object) -> str:
    return ", ".join(f"{name} = {each}" for name, each in value.items()) if isinstance(value, Mapping) else ""


def _shown_place(value: object) -> str:
    match value:
        case (str(host), int(port)):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return str(value)


def _set(value: object) -> str:
    return "set"


def _shown_address(value: object) -> str:
    """Without a password, whatever it is made of, and without options, where secrets stand too."""
    return re.sub(r"^([a-z][a-z0-9+.-]*://[^:/?#@]*):.*@", r"\1@", str(value)).partition("?")[0]


_SPELLINGS = 'a text, { env = "NAME" } or { file = "path" }'

TEXT = Kind(wanted="a text", read=_text)
FLAG = Kind(
    wanted="true or false",
    read=_flag,
    of_text=lambda text: _FLAGS.get(text.lower(), text),
    shown=lambda value: "true" if value else "false",
)
WHOLE = Kind(wanted="a whole number", read=_whole, of_text=_as_whole, metavar="N")
NUMBER = Kind(wanted="a number", read=_number, of_text=_as_number, metavar="NUMBER")
DURATION = Kind(wanted='a time like "30s", "5m" or "2h"', read=_duration, shown=_shown_duration, metavar="TIME")
DURATION_OR_NEVER = Kind(
    wanted='a time like "30d" or "2h", or "never"',
    read=_duration_or_never,
    of_text=lambda text: NEVER if text.lower() in (NEVER, "false") else text,
    shown=_shown_duration,
    of_nothing=True,
    metavar="TIME",
)
TEXTS = Kind(wanted="a list of texts", read=_texts, of_text=_split, shown=_shown_list)
SECRET = Kind(wanted=_SPELLINGS, read=_secret, shown=_set, is_secret=True)
SECRETS = Kind(wanted=_SPELLINGS, read=_secrets, shown=_set, is_secret=True)
SIGNING = Kind(wanted=_SPELLINGS, read=_signing, shown=_set, is_secret=True)
SECRET_ADDRESS = Kind(wanted=_SPELLINGS, read=_secret, shown=_shown_address, is_secret=True, metavar="URL")
DATABASE = Kind(wanted=_SPELLINGS, read=_database, shown=_shown_address, is_secret=True, metavar="URL")
FILE = Kind(wanted='{ file = "path" }', read=_file)
HEADERS = Kind(wanted='names and values, like { X-Team = "shop" }', read=_headers, shown=_shown_names, is_secret=True)
POLICY = Kind(wanted="settings of a policy, like { max_attempts = 5 }", read=_policy, shown=_shown_policy)
ADDRESS = Kind(wanted="a host and a port, like 127.0.0.1:9464", read=_address, shown=_shown_place, metavar="HOST:PORT")
APP = Kind(wanted="a module and a name in it, like shop.channels:channels", read=_app, metavar="MODULE:NAME")


PREFIX = "SENDONCE_"
# Named by whoever writes the file, as in [http.shop]; for these there are no variables.
NAMED = ("http", "apprise", *BROKERS, "consumers")


@dataclass(frozen=True, slots=True)
class Setting:
    """`part` is the dataclass, as module:name, that has the default: in the field of the key, or in `field`.

    `usual` is the default of what belongs to no part; `example`, a value as it is written in the file, for those that
    have no default; `variable`, the name of its variable where it is not SENDONCE_TABLE_KEY.
    """

    key: str
    kind: Kind
    about: str
    _: KW_ONLY
    table: str
    part: str = ""
    field: str = ""
    usual: object = None
    example: str = ""
    is_required: bool = False
    variable: str = ""
    option: str = ""

    @property
    def systematic(self) -> str:
        """The variable that it has by the rule."""
        return f"{PREFIX}{self.table}_{self.key}".upper()

    @property
    def environment(self) -> str:
        """The variable that it has; empty when it has none."""
        return self.variable or ("" if self.table in NAMED else self.systematic)

    @property
    def default(self) -> object:
        """What holds when nobody sets it; None when that is nothing, or when its part is not installed."""
        if not self.part:
            return self.usual
        module, _, name = self.part.partition(":")
        try:
            made_of = getattr(import_module(module), name)
        except ModuleNotFoundError:
            return None
        [found] = [each for each in fields(made_of) if each.name == (self.field or self.key)]
        return None if found.default is MISSING else found.default
