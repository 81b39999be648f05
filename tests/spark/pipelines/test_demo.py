"""What `make run` starts, where things go wrong: the broker runs on, and the reason is told in one line, once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.serving import environment

DEMO = Path(__file__).parents[3] / "examples" / "demo" / "run.py"
PATIENCE = 100.0

pytestmark = pytest.mark.timeout(2 * PATIENCE)


@contextmanager
def demo(folder: Path, *commands: str, **variables: str) -> Iterator[Path]:
    """The file that its output goes to; at the end it is stopped, and must exit 0."""
    output = folder / "output"
    with output.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, DEMO, *commands],
            stdout=written,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment(WARREN_AMQP_PORT="0", WARREN_HTTP_PORT="0", **variables),
        )
    try:
        yield output
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()


def wait_for(text: str, output: Path, times: int = 1) -> str:
    deadline = time.monotonic() + PATIENCE
    while output.read_text().count(text) < times:
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.1)
    return output.read_text()


def test_a_pipeline_that_cannot_start_says_why_and_what_to_do_once(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\n[ "$1" != -version ] || echo \'openjdk version "17.0.2"\' >&2\nexit 2\n')
    java.chmod(0o755)
    with demo(tmp_path, JAVA_HOME=str(tmp_path), DEMO_LINE_SECONDS="0.5") as output:
        wait_for("the pipeline has ended: Spark does not start: ", output)
        # Three of its lines later nothing more has been said.
        before = output.read_text()
        time.sleep(1.5)
        assert output.read_text() == before
    lines = output.read_text().splitlines()
    assert lines[0].startswith("warren ready amqp=127.0.0.1:")
    (told,) = [line for line in lines if "has ended" in line]
    assert "pipeline.log has all of it" in told
    assert told.endswith("warren doctor` looks for the cause")


def test_the_broker_is_ready_before_what_is_installed_beside_it(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with demo(tmp_path, f"sh -c 'echo fetching; cat {gate}; exit 3'") as output:
        said = wait_for("fetching", output)
        assert said.startswith("warren ready amqp=127.0.0.1:")
        assert "failed" not in said
        gate.write_text("no room on the disk\n")
        told = wait_for("failed: no room on the disk; it can be run by itself", output).splitlines()
        assert sum("failed" in line for line in told) == 1


def test_ctrl_c_ends_what_is_installed_beside_it(tmp_path: Path) -> None:
    with demo(tmp_path, "sh -c 'echo $$; exec sleep 1000'") as output:
        number = int(wait_for("\n", output, times=8).splitlines()[-1])
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
