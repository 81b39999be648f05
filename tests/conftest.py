"""Which tests begin, and how those that start Spark or RabbitMQ share them: one worker of xdist has the session and the
node that most of them use, another the session of the message path, and tests that start processes of their own run
beside them. And what all processes of tests inherit."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, cast

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests import quick_spark

# With a session for each. One for both would keep one worker busy for longer than the other.
SHARING = ("tests/spark/path/", "tests/spark/")
# Each starts what it needs, and may run in any worker.
ALONE = ("test_cluster.py", "test_connect.py", "test_declarative.py", "test_doctor.py")
# Those that take half a minute, begun as soon as the ones that share what they need: begun last, one of them would keep
# one worker busy while the other has nothing to do.
LONG = ("::test_every_message_arrives_once", "docs/spark.md", "docs/message-path.md")
# The first of them waits half a minute until all sessions are played. Where they stand in the alphabet all workers come
# to them at once, and would wait together.
WAITING = "tests/differential/test_differential.py::test_warren_answers_as_rabbitmq"


# A shell starts what it puts into the background with Ctrl-C ignored, and so would be every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def scope_of(nodeid: str) -> str:
    """Tests of one scope run in one worker."""
    if any(part in nodeid for part in ALONE):
        return nodeid
    return next((folder for folder in SHARING if nodeid.startswith(folder)), nodeid)


def turn_of(item: pytest.Item) -> int:
    if scope_of(item.nodeid) in SHARING:
        return 0
    return 1 if any(part in item.nodeid for part in LONG) else 2


def is_run_of_spark(config: pytest.Config) -> bool:
    return str(config.option.markexpr).startswith("spark")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where long tests are left out: these are hundreds of cases, which every worker would make up for nothing."""
    is_left_out = "not long" in str(config.option.markexpr)
    return True if is_left_out and collection_path.name == "test_openapi_sent.py" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if is_run_of_spark(config):
        items.sort(key=turn_of)
        return
    first = next((item for item in items if item.nodeid.startswith(WAITING)), None)
    if first is not None:
        items.remove(first)
        items.insert(0, first)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    # Not by marks of xdist's own: with this pytest they get lost on the way to whoever schedules.
    if not is_run_of_spark(config):
        return None
    scheduler: Any = LoadScopeScheduling(config, log)
    scheduler._split_scope = scope_of
    return cast("object", scheduler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("spark") is not None and quick_spark.VARIABLE not in os.environ:
        quick_spark.prepare()
