"""Which build is under test: what is installed, compiled where that is possible, or the source as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from warren.core import IS_COMPILED

ROOT = Path(__file__).parents[2]


def test_the_installed_package_is_the_kind_that_was_asked_for() -> None:
    expected = os.environ.get("WARREN_EXPECT")
    if expected is None:
        pytest.skip("WARREN_EXPECT is not set: any build will do")
    assert (expected == "compiled") == IS_COMPILED


@pytest.mark.timeout(180)
def test_the_compiled_folders_need_none_of_the_dependencies_to_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What `pip install .` meets: an environment with the build's requirements and nothing else.
    monkeypatch.chdir(ROOT)
    setup = import_module("setup")
    monkeypatch.setenv("MYPYPATH", str(setup.SOURCE))
    command = [sys.executable, "-m", "mypy", "--no-site-packages", "--cache-dir", str(tmp_path)]
    run = subprocess.run([*command, *setup.MYPY_OPTIONS, *setup.find_modules()], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
