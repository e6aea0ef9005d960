"""Names that others call: what has to be awaited begins with an a, and says so when it is called without."""

import asyncio
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import sendonce
from tests.frozen.surface import PUBLIC

# What users write and we call.
_THEIRS = "sendonce.channels."
# What takes an async connection or engine, so that there is nothing to do without an event loop.
_WITHOUT_TWIN = {"sendonce.contrib.sqlalchemy.ain_transaction", "sendonce.contrib.sqlalchemy.areading"}


def callables() -> Iterator[tuple[str, object]]:
    for module_name in PUBLIC:
        module = import_module(module_name)
        for name in getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]):
            found = getattr(module, name)
            if getattr(found, "__module__", module_name).partition(".")[0] != "sendonce":
                continue
            yield f"{module_name}.{name}", found
            if inspect.isclass(found):
                yield from (
                    (f"{module_name}.{name}.{member}", getattr(found, member))
                    for member in vars(found)
                    if not member.startswith("_")
                )


def has_to_be_awaited(found: object) -> bool:
    plain = inspect.unwrap(found) if callable(found) else found
    return inspect.iscoroutinefunction(found) or inspect.isasyncgenfunction(plain)


AWAITED = [name for name, found in callables() if has_to_be_awaited(found) and not name.startswith(_THEIRS)]


@pytest.mark.parametrize("name", AWAITED)
def test_name_of_what_is_awaited_begins_with_an_a_and_has_its_twin(name: str) -> None:
    owner, _, last = name.rpartition(".")

    assert last.startswith("a"), f"{name} has to be awaited, and its name does not say so"
    assert f"{owner}.{last[1:]}" in dict(callables()) or name in _WITHOUT_TWIN


def test_names_of_both_kinds_are_there() -> None:
    assert {"sendonce.amigrate", "sendonce.Outbox.apublish", "sendonce.testing.aoutbox", *_WITHOUT_TWIN} <= set(AWAITED)


def test_migrate_is_done_when_it_returns(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"

    assert sendonce.migrate(url)
    assert asyncio.run(sendonce.amigrate(url)) == []


async def test_migrate_in_an_event_loop_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(sendonce.ConfigError, match=r"write: await sendonce\.amigrate"):
        sendonce.migrate(f"sqlite:///{tmp_path / 'shop.db'}")
