"""An archive: a file of JSON lines, one for each event, on the disk before what it holds is deleted."""

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from sendonce.admin.plain import plain
from sendonce.errors import ConfigError, SendonceError


class ArchiveFile:
    """A new file that only its owner may read. Compressed when its name ends in .gz, each step by itself, so that a
    crash spoils no more than the last one."""

    def __init__(self, path: Path) -> None:
        self._is_compressed = path.suffix == ".gz"
        self._file = _new(path)
        self.documents = 0

    def write(self, documents: Sequence[Mapping[str, object]]) -> None:
        """Write a step; when this returns it is on the disk."""
        lines = "".join(f"{json.dumps(plain(each), ensure_ascii=False)}\n" for each in documents).encode()
        try:
            self._file.write(gzip.compress(lines) if self._is_compressed else lines)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            said = error.strerror or type(error).__name__
            raise SendonceError(f"the archive cannot be written ({said}); what was to go next is still there") from None
        self.documents += len(documents)

    def close(self) -> None:
        self._file.close()


def _new(path: Path) -> BinaryIO:
    try:
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        folder = os.open(path.parent, os.O_RDONLY)
    except FileExistsError:
        raise ConfigError(f"{path} is there already; name a new file, nothing is added to an old archive") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror or type(error).__name__})") from None
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return file
