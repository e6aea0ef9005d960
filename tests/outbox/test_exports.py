"""What `import sendonce` gives, and what it leaves alone."""

import importlib.metadata
import subprocess
import sys
from types import ModuleType

import sendonce


def test_names_that_are_public_are_listed_and_no_others() -> None:
    visible = {
        name for name, value in vars(sendonce).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }

    later = {"__version__", *sendonce._LATER}
    assert visible - {"TYPE_CHECKING"} | later == set(sendonce.__all__)
    assert len(sendonce.__all__) == len(set(sendonce.__all__))
    assert all(getattr(sendonce, name) is not None for name in sendonce.__all__)


def test_version_is_the_distributions() -> None:
    assert importlib.metadata.version("sendonce") == sendonce.__version__


def test_import_brings_no_other_package_and_no_event_loop() -> None:
    script = (
        "import sys; before = set(sys.modules); import sendonce; new = set(sys.modules) - before\n"
        "names = {name.partition('.')[0] for name in new}\n"
        "print(*sorted(names - sys.stdlib_module_names - {'sendonce'}), *names & {'asyncio', 'sqlite3', 'logging'})"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert answer.stdout.split() == []


def test_publish_on_sqlite_imports_no_other_package() -> None:
    script = (
        "import sqlite3, sys; import sendonce; before = set(sys.modules)\n"
        "try: sendonce.Outbox().publish(sqlite3.connect(':memory:'), 'a', {}, key='a', to=None)\n"
        "except sendonce.SchemaMismatch: pass\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(names - sys.stdlib_module_names - {'sendonce'}), *names & {'asyncio', 'logging'})"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert answer.stdout.split() == []
