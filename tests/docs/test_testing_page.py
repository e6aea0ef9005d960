"""The page on testing is a file of tests: they pass as they are printed."""

import os
import subprocess
import sys
from pathlib import Path

from sendonce.testing.crash import CRASH_POINTS
from tests.docs.test_examples import ROOT, examples

PAGE = "docs/how-to/testing.md"


def test_examples_are_tests_that_pass(tmp_path: Path) -> None:
    blocks = examples(PAGE)
    (tmp_path / "test_memos.py").write_text("\n\n".join(blocks))

    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_memos.py"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=50)

    assert run.returncode == 0, run.stdout
    assert f"{sum(block.count('def test_') for block in blocks)} passed" in run.stdout


def test_point_to_crash_at_is_on_the_page() -> None:
    text = (ROOT / PAGE).read_text()

    assert [point for point in CRASH_POINTS if f"`{point}`" not in text] == []
