"""The folder of a pipeline tells whether it runs, also after its process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from warren.errors import WarrenError
from warren.spark.pipelines.state import State

RUNNER = """
import os, signal, sys, time
from pathlib import Path
from warren.spark.pipelines.state import State
with State(Path(sys.argv[1])) as state:
    state.write({"state": "running", "pid": os.getpid()})
    print("ready", flush=True)
    signal.pause()
"""


def start(folder: Path) -> subprocess.Popen[str]:
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    assert runner.stdout.readline() == "ready\n"
    return runner


def end(runner: subprocess.Popen[str], number: signal.Signals) -> None:
    runner.send_signal(number)
    runner.wait(10)
    assert runner.stdout is not None
    runner.stdout.close()


def test_a_pipeline_that_never_ran_has_no_status(tmp_path: Path) -> None:
    assert State(tmp_path / "nowhere").read() is None
    assert not State(tmp_path / "nowhere").is_locked()
    assert not State(tmp_path / "nowhere").stop(1)


def test_only_one_may_run_it_at_a_time(tmp_path: Path) -> None:
    runner = start(tmp_path)
    try:
        with pytest.raises(WarrenError, match=f"is running already as process {runner.pid}"), State(tmp_path):
            pass
    finally:
        end(runner, signal.SIGKILL)


def test_one_that_was_killed_is_told_from_one_that_runs_and_can_be_run_again(tmp_path: Path) -> None:
    runner = start(tmp_path)
    found = State(tmp_path).read()
    assert found is not None
    assert found["state"] == "running"
    end(runner, signal.SIGKILL)
    found = State(tmp_path).read()
    assert found is not None
    assert found["state"] == "killed"
    assert not State(tmp_path).stop(1)
    with State(tmp_path) as state:
        state.write({"state": "finished", "pid": os.getpid()})
    found = State(tmp_path).read()
    assert found is not None
    assert found["state"] == "finished"


def test_stopping_waits_until_the_process_is_gone(tmp_path: Path) -> None:
    runner = start(tmp_path)
    assert State(tmp_path).stop(10)
    assert runner.wait(10) == -signal.SIGTERM
    assert runner.stdout is not None
    runner.stdout.close()


def test_a_status_that_was_cut_off_is_no_status(tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text('{"state": "run')
    assert State(tmp_path).read() is None
