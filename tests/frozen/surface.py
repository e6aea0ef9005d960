"""What users and databases see of the package, as text: public names, help texts, and the SQL of each database."""

import inspect
import io
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from typing import Any
from unittest.mock import patch

from sendonce.cli import main
from sendonce.cli.parser import NOUNS
from sendonce.outbox.entries import queries
from sendonce.sql.queries import load

PUBLIC = (
    "sendonce", "sendonce.channels", "sendonce.consumer", "sendonce.inbox.asgi", "sendonce.inbox.providers",
    "sendonce.inbox.webhooks", "sendonce.testing", "sendonce.contrib.fastapi", "sendonce.contrib.sqlalchemy",
)  # fmt: skip
_INNER = re.compile(r"\s((?:[a-z-]+\|)+[a-z-]+)\s+\.\.\.")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def names() -> str:
    """Every public name with its signature, and of classes the public members."""
    return "".join(f"{line}\n" for module in PUBLIC for line in _names_of(module))


def _names_of(module: str) -> Iterator[str]:
    found = import_module(module)
    listed = getattr(found, "__all__", None) or sorted(
        name for name, value in vars(found).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    )  # fmt: skip
    for name in sorted(listed):
        value = getattr(found, name)
        yield f"{module}.{name}{_signature(value)}"
        if inspect.isclass(value):
            for member in sorted(vars(value)):
                if not member.startswith("_"):
                    yield f"{module}.{name}.{member}{_signature(vars(value)[member])}"


def _signature(value: Any) -> str:
    plain = getattr(value, "__func__", value)
    if not callable(plain):
        return "" if isinstance(value, property) or not isinstance(value, str | int) else f" = {value!r}"
    try:
        return _ADDRESS.sub("", str(inspect.signature(plain)))
    except (TypeError, ValueError):
        return ""


def helps() -> str:
    """The help of every command, one after the other."""
    return "".join(f"$ sendonce {' '.join(words)}\n{text}\n" for words, text in _helps(()))


def _helps(words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    text = _help(words)
    yield (*words, "--help"), text
    inner = _INNER.search(text.partition("\n\n")[0])
    for command in inner[1].split("|") if inner else () if words else NOUNS:
        yield from _helps((*words, command))


def _help(words: tuple[str, ...]) -> str:
    said = io.StringIO()
    with (
        redirect_stdout(said),
        redirect_stderr(said),
        suppress(SystemExit),
        patch.dict("os.environ", {"COLUMNS": "100", "NO_COLOR": "1"}),
    ):
        main([*words, "--help"])
    return said.getvalue()


def sql(database: str) -> str:
    """Every statement of one database by its name, in one line each, without comments."""
    texts = load(f"sendonce.store.{database}") | queries(database)
    return "".join(f"{name}: {_in_one_line(texts[name])}\n" for name in sorted(texts))


def _in_one_line(text: str) -> str:
    return " ".join(" ".join(line for line in text.splitlines() if not line.lstrip().startswith("--")).split())
