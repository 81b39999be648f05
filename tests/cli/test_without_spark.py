"""A plain installation has no Spark: its help is whole, and what needs Spark says so in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.serving import environment

MISSING = ("deltalake", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "yaml")
PROGRAM = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
from warren.cli.main import main
main()
"""


def run_without_spark(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, ",".join(MISSING), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment(), cwd=cwd)


@pytest.mark.parametrize("command", [[], ["pipeline"], ["pipeline", "run"], ["archive"], ["replay"], ["redrive"]])
def test_help_is_there(command: list[str]) -> None:
    run = run_without_spark(*command, "--help")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("Usage: warren")


@pytest.mark.parametrize(
    "command",
    [
        ["pipeline", "validate", __file__],
        ["archive", "--queue", "q", "--to", "t"],
        ["replay", "--stream", "s"],
        ["redrive", "q"],
    ],
)
def test_what_is_missing_is_said_in_one_line(command: list[str], tmp_path: Path) -> None:
    run = run_without_spark(*command, cwd=tmp_path)
    assert run.returncode == 1
    assert run.stderr.startswith("error: ")
    assert run.stderr.endswith(": pip install '.[spark]' in a clone of Warren\n")
    assert len(run.stderr.splitlines()) == 1
