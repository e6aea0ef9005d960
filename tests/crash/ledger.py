"""What a receiver of millions of messages remembers: a few bytes for each, and the whole story of what was doubtful."""

import json
from array import array
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Self

FOUND, NOT_FOUND = "found", "not found"
_GROW = 100_000
_MOST = 255


class Ledger:
    """Messages are known by their numbers, which are dense, and recognised by their tokens.

    `accepted` and `recognised` count up to 255. `stories` has, by token, every step of a message since somebody first
    asked about it: "found", "not found", or the number of the attempt that was accepted.
    """

    def __init__(self) -> None:
        self.accepted = bytearray()
        self.recognised = bytearray()
        self.tokens = array("Q")
        self.stories: dict[int, list[str]] = defaultdict(list)
        self.distinct = 0
        self._known: set[int] = set()

    def take(self, number: int, token: str, attempt: int, *, deduplicate: bool, is_asked: bool) -> bool:
        """Accept a message, or recognise its token; True when it is accepted."""
        if number >= len(self.accepted):
            self._grow(number)
        short = _short(token)
        if self.accepted[number] and deduplicate and self.tokens[number] == short:
            self.recognised[number] = min(self.recognised[number] + 1, _MOST)
            return False
        self.distinct += not self.accepted[number]
        self.accepted[number] = min(self.accepted[number] + 1, _MOST)
        self.tokens[number] = short
        if is_asked:
            self._known.add(short)
            if short in self.stories:
                self.stories[short].append(str(attempt))
        return True

    def look_up(self, token: str) -> bool:
        """Whether it has the message of this token."""
        is_known = _short(token) in self._known
        self.stories[_short(token)].append(FOUND if is_known else NOT_FOUND)
        return is_known

    def save(self, path: Path) -> None:
        """Write all of it to files beside this path."""
        path.with_suffix(".accepted").write_bytes(self.accepted)
        path.with_suffix(".recognised").write_bytes(self.recognised)
        path.with_suffix(".tokens").write_bytes(self.tokens.tobytes())
        path.with_suffix(".stories").write_text(json.dumps(self.stories))

    @classmethod
    def load(cls, path: Path) -> Self:
        """What was saved there."""
        ledger = cls()
        ledger.accepted = bytearray(path.with_suffix(".accepted").read_bytes())
        ledger.recognised = bytearray(path.with_suffix(".recognised").read_bytes())
        ledger.tokens.frombytes(path.with_suffix(".tokens").read_bytes())
        stories = json.loads(path.with_suffix(".stories").read_text())
        ledger.stories.update({int(token): story for token, story in stories.items()})
        return ledger

    def story(self, number: int) -> list[str]:
        """What happened to this one since it was first asked about."""
        return self.stories.get(self.tokens[number], [])

    def times(self, number: int) -> int:
        """How often it has accepted this one."""
        return self.accepted[number] if number < len(self.accepted) else 0

    def numbers(self) -> Iterable[int]:
        """What it has accepted at all."""
        return (number for number, times in enumerate(self.accepted) if times)

    def _grow(self, number: int) -> None:
        more = number + 1 - len(self.accepted) + _GROW
        self.accepted.extend(bytes(more))
        self.recognised.extend(bytes(more))
        self.tokens.frombytes(bytes(8 * more))


def _short(token: str) -> int:
    return int(token[:16], 16)
