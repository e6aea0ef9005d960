"""SQL in files: one name per query, loaded once, with `:name` parameters turned into what a driver wants."""

import re
from collections.abc import Callable, Sequence
from importlib.resources import files

_HEADER = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_SPACES = re.compile(r"\s+")


def split(text: str) -> dict[str, str]:
    """Split a .sql file at its `-- name:` lines."""
    parts = _HEADER.split(text)[1:]
    names, bodies = parts[::2], parts[1::2]
    if len(set(names)) != len(names):
        raise ValueError("two queries share one name")
    # One space instead of many: psycopg caches its reading of a query only when that is short enough.
    bodies = [_SPACES.sub(" ", _COMMENT.sub("", body)).strip().rstrip(";") for body in bodies]
    return dict(zip(names, bodies, strict=True))


def load(package: str, folder: str = "sql") -> dict[str, str]:
    """Every query of a package's .sql files, by name."""
    queries: dict[str, str] = {}
    for file in sorted(files(package).joinpath(folder).iterdir(), key=lambda each: each.name):
        if file.name.endswith(".sql"):
            found = split(file.read_text("utf-8"))
            if repeated := queries.keys() & found.keys():
                raise ValueError(f"two queries share the name {sorted(repeated)[0]}")
            queries |= found
    return queries


def parameters(sql: str) -> list[str]:
    """The names of a query's parameters, each once, in order."""
    return list(dict.fromkeys(_PARAMETER.findall(sql)))


def with_parameters(sql: str, spell: Callable[[str], str]) -> str:
    """The query with every `:name` spelled the way a driver wants it; doubling a `%` is the caller's part."""
    return _PARAMETER.sub(lambda match: spell(match[1]), sql)


def array(values: Sequence[object]) -> str | None:
    """PostgreSQL's spelling of a list of texts and numbers; None when there is nothing in it but None.

    As one text it is much cheaper, here and in the database, than a list that a driver turns into an array.
    """
    if not any([value is not None for value in values]):
        return None
    if type(values[0]) is int:
        return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    text = str(value)
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    return '"' + text.replace('"', '\\"') + '"'
