"""The lowest versions that our extras allow, read from pyproject.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What users install; the rest is for the applications and for us.
EXTRAS = (
    "postgres",
    "http",
    "email",
    "secrets",
    "apprise",
    "receive",
    "metrics",
    "amqp",
    "nats",
    "kafka",
    "redis",
    "speed",
)
_BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[a-z,]+\])?>=(?P<version>[0-9.]+)(?:;.*)?")


def lower_bounds() -> dict[str, set[str]]:
    """By package: the lower bounds that extras give for it. One, if all is well."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    bounds: dict[str, set[str]] = {}
    for requirement in (each for extra in EXTRAS for each in extras[extra]):
        found = _BOUND.fullmatch(requirement)
        assert found is not None, f"{requirement} has no lower bound"
        bounds.setdefault(found["name"].lower(), set()).add(found["version"])
    return bounds


def exact_versions() -> dict[str, str]:
    """By package: the version that constraints.txt names."""
    lines = (ROOT / "constraints.txt").read_text().split()
    return {name.lower().replace("_", "-"): version for name, _, version in (line.partition("==") for line in lines)}


def as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
