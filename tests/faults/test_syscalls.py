"""A sample of the points at which a broker is killed or its disk fails; `make faults` takes all of them.

Twice: with our own library loaded into the broker, and with strace, which knows nothing of it.
"""

from __future__ import annotations

import errno
import shutil
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults import syscalls
from tests.faults.checker import check
from tests.faults.history import History
from tests.faults.kill9_broker import DidNotBoot, spawn
from tests.faults.kill9_client import Client, Gone
from tests.faults.kill9_load import drain
from tests.faults.syscalls import DEAD_LETTERS, OPTIONS, QUEUES, Fault, Points, Script, declare_queues

needs_gcc = pytest.mark.skipif(syscalls.reason_to_skip() is not None, reason=str(syscalls.reason_to_skip()))
needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="there is no strace")
EIO = str(errno.EIO)


@needs_gcc
@pytest.mark.long
@pytest.mark.timeout(120)
def test_whatever_the_call_at_which_it_is_killed_or_the_disk_fails_nothing_promised_is_lost() -> None:
    report = syscalls.run(sample=25, seed=1)
    assert report.is_good(), report.complaints()
    assert report.points - report.unreached > 15


@needs_gcc
def test_a_failed_sync_is_final(tmp_path: Path) -> None:
    with Points(tmp_path) as points:
        # The first ones are SQLite's, at the start.
        for at in (20, 30):
            points.run(Fault(at, EIO, "fdatasync", sticky=True))
        points.run(Fault(12, EIO, "fsync", sticky=True))
    assert points.report.is_good(), points.report.complaints()
    assert points.report.unreached == 0


@needs_gcc
def test_a_write_that_takes_only_half_is_continued(tmp_path: Path) -> None:
    with Points(tmp_path) as points:
        points.run(Fault(1, "short", "write", sticky=True))
    assert points.report.is_good(), points.report.complaints()
    assert points.report.unreached == 0
    assert points.report.verdict.confirmed > 30


def calls_of_script(folder: Path, sabotage: str = "") -> list[str]:
    with Points(folder, sabotage) as points:
        return points.log_of(Fault(0, "kill"))


def unnamed_segments(calls: list[str], folder: Path) -> list[str]:
    """Those whose directory entry was not synced before the next began."""
    begun = [index for index, line in enumerate(calls) if line.startswith("open ") and line.endswith(".log")]
    assert len(begun) > 3
    return [calls[start] for start, end in pairwise(begun) if f"fsync {folder}" not in calls[start:end]]


def unsynced_segments(calls: list[str]) -> list[str]:
    """Those that were written to and not synced after it. Giving back unused room may be forgotten."""
    made = [line.split(" ", 1) for line in calls]
    last = {path: name for name, path in made if path.endswith(".log") and name not in ("unlink", "ftruncate")}
    return [path for path, name in last.items() if name != "fdatasync"]


@needs_gcc
def test_segments_are_synced_and_named_on_disk(tmp_path: Path) -> None:
    calls = calls_of_script(tmp_path)
    assert unnamed_segments(calls, tmp_path / "data" / "messages") == []
    assert unsynced_segments(calls) == []


@needs_gcc
def test_a_broker_that_does_not_sync_files_is_found_out(tmp_path: Path) -> None:
    assert unsynced_segments(calls_of_script(tmp_path, "nofsync"))


@needs_gcc
def test_a_broker_that_does_not_sync_names_is_found_out(tmp_path: Path) -> None:
    calls = calls_of_script(tmp_path, "no-dirsync")
    assert unnamed_segments(calls, tmp_path / "data" / "messages")


@needs_strace
@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("injection", "code"),
    [
        ("fdatasync:signal=SIGKILL:when=15", -signal.SIGKILL),
        ("fsync:signal=SIGKILL:when=9", -signal.SIGKILL),
        ("rename:signal=SIGKILL:when=2", -signal.SIGKILL),
        ("unlink:signal=SIGKILL:when=4", -signal.SIGKILL),
        ("fdatasync:error=EIO:when=15+", 1),
        ("fsync:error=EIO:when=9+", 1),
        ("rename:error=ENOSPC:when=2+", 1),
    ],
)
def test_strace_finds_nothing_else(tmp_path: Path, injection: str, code: int) -> None:
    data_dir = tmp_path / "data"
    call = injection.partition(":")[0]
    strace = ("strace", "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", f"trace={call}", "-e", f"inject={injection}")
    broker = spawn(data_dir, *OPTIONS, wrapper=strace)
    script = Script(History(), lambda: False)
    try:
        broker.wait_ready()
        script.run(broker.port)
    except (DidNotBoot, Gone):
        pass
    assert broker.wait() == code, broker.text()
    assert "Traceback" not in broker.text()
    after = spawn(data_dir, *OPTIONS)
    try:
        after.wait_ready()
        with Client(after.port) as client:
            declare_queues(client)
        drain(script.load, after.port, QUEUES)
    finally:
        after.kill()
    verdict = check(script.history, DEAD_LETTERS)
    assert verdict.is_good(), verdict.violations()
