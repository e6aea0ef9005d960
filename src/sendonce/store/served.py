"""What workers have entered that they serve, as both databases read it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sendonce.domain.serving import Served, Serving
from sendonce.errors import ConfigError
from sendonce.store.records import Room, UnservedRow


def served_of(rows: Iterable[Sequence[Any]]) -> dict[str, bool]:
    """The names in these lists, each with whether one of its workers is alive."""
    found: dict[str, bool] = {}
    for text, is_alive in rows:
        for name in json.loads(text):
            if _is_name(name):
                found[name] = found.get(name, False) or bool(is_alive)
    return found


def known_served(rooms: Iterable[Room], served: Mapping[str, bool]) -> tuple[Room, ...]:
    """These rooms, and whether a live worker takes out of those that are channels'."""
    view = Served((), served)
    return tuple(replace(room, is_served=_is_served(room, view)) for room in rooms)


def unserved_of(rows: Iterable[Sequence[Any]], served: Mapping[str, bool]) -> tuple[UnservedRow, ...]:
    """Of the rooms of channels (their names, how many wait, since when) those that no live worker takes out of."""
    view = Served((), served)
    named = [(room.partition(":")[2], waiting, since) for room, waiting, since in rows]
    return tuple(
        UnservedRow(name=name, waiting=waiting, since=since) for name, waiting, since in named if not view.is_live(name)
    )


def _is_served(room: Room, view: Served) -> bool:
    kind, _, name = room.name.partition(":")
    return kind != "channel" or view.is_live(name)


def _is_name(name: object) -> bool:
    """Whatever somebody has written into that column, nobody stumbles over it."""
    try:
        Serving([str(name)])
    except ConfigError:
        return False
    return isinstance(name, str)
