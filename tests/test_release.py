"""The wheel that a release would upload holds the whole package, and works in an environment that has nothing else."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.processes import ROOT

PACKAGE = ROOT / "src/sendonce"
TRY = """
import sqlite3, sendonce
connection = sqlite3.connect("shop.db")
with connection:
    sendonce.Outbox().publish(connection, "order.placed", {"id": 1}, key="order/1", to="https://shop.example/orders")
connection.close()
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where nothing of the checkout is found."""
    return tmp_path_factory.mktemp("release")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
        folder=folder,
    )
    [made] = folder.glob("sendonce-*.whl")
    return made


@pytest.fixture(scope="module")
def programs(folder: Path, wheel: Path) -> Path:
    """The programs of a new environment that has the wheel and none of the packages that extras name."""
    run(sys.executable, "-m", "venv", str(folder / "empty"), folder=folder)
    python = str(folder / "empty/bin/python")
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel), folder=folder)
    return folder / "empty/bin"


def run(*command: str, folder: Path, code: int = 0) -> str:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SENDONCE_"))}
    ran = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    ours = {f"sendonce/{path.relative_to(PACKAGE)}" for path in PACKAGE.rglob("*.*") if path.suffix != ".pyc"}

    with zipfile.ZipFile(wheel) as opened:
        packed = set(opened.namelist())

    assert {name for name in packed if ".dist-info/" not in name} == {
        name for name in ours if "__pycache__" not in name
    }
    assert any(name.endswith("licenses/LICENSE") for name in packed)


def test_wheel_records_an_event_in_an_empty_environment(programs: Path, tmp_path: Path) -> None:
    address = "sqlite:///shop.db"

    run(str(programs / "sendonce"), "--database", address, "migrate", folder=tmp_path)
    run(str(programs / "python"), "-c", TRY, folder=tmp_path)
    shown = run(str(programs / "sendonce"), "--database", address, "explain", "order/1", folder=tmp_path)

    assert "order.placed" in shown


def test_wheel_says_which_extra_a_command_needs(programs: Path, tmp_path: Path) -> None:
    said = run(str(programs / "sendonce"), "demo", folder=tmp_path, code=1)

    assert "pip install 'sendonce[" in said
