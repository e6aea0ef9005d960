"""A process whose clock can be moved: libfaketime, from its Python package, reads the offset from a file."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

_LIBRARY = Path("vendor/libfaketime/src/libfaketime.so.1")


class MovedClock:
    """The clock of one process: how far it is off. Its monotonic clock stays as it is, as on a real machine."""

    def __init__(self, path: Path, seconds: int = 0) -> None:
        self._path = path
        self.move(seconds)

    def move(self, seconds: int) -> None:
        """From now on the clock is off by so much; written whole, because the process may read it at any time."""
        new = self._path.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._path)

    @property
    def environment(self) -> dict[str, str]:
        """What the process is started with."""
        return {
            "LD_PRELOAD": ":".join(filter(None, [str(library()), os.environ.get("LD_PRELOAD")])),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }


def library() -> Path:
    """The shared library; skips the test where the package has none for this machine."""
    spec = find_spec("libfaketime")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(place) / _LIBRARY).exists() and os.uname().machine == "x86_64":
            return path
    pytest.skip("libfaketime has no library for this machine")
