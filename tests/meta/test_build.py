"""What a build needs, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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
