"""How tests are spread over the workers of xdist, and what all processes of tests inherit.

One worker runs a file, so that what its tests share is made once. So it is with all files that share a Spark session, a
browser or a cluster. What takes longest begins first: begun last, it would keep one worker busy while the others have
nothing to do. And what waits begins beside what computes.
"""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests import quick_spark

ROOT: Final = Path(__file__).parents[1]
# What one worker runs, by its files. Two sessions of Spark, because with one for all its worker would be busy longest.
SHARING: Final = {
    # Which listens on a port of its own choice, and a second one would choose the same.
    "a Connect server": ("tests/spark/pipelines/test_declarative.py", "tests/spark/test_connect.py"),
    "the message path": ("tests/spark/path/",),
    "spark": ("tests/spark/",),
    "the page": ("tests/page/",),
    "three nodes": ("tests/replication/test_fa", "tests/replication/test_fo", "tests/replication/test_spark"),
}
# Tests that share little with others of their file, and take long enough to be spread.
APART: Final = (
    "tests/clients/test_suites.py",
    "tests/docs/test_examples.py",
    "tests/faults/",
    "tests/replication/test_simulation.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_doctor.py",
)
# Schemathesis calls all its tests the same, and of those that are told apart by name workers would be given one: run by
# itself, in the usual way.
SAME_NAMES: Final = "tests/management/test_openapi_sent.py"
FIRST: Final = (
    "spark",
    "the message path",
    "tests/docs/test_examples.py::test_the_examples_run_and_print_what_they_say[docs/spark.md]",
    "tests/differential/",
    "the page",
    "three nodes",
    "a Connect server",
    "tests/spark/",
    "tests/replication/",
    "tests/docs/",
    "tests/faults/",
    "tests/cli/",
    "tests/store/",
    "tests/perf/",
)


# A shell starts what it puts into the background with Ctrl-C ignored, and so would be every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@cache
def uses_spark(file: str) -> bool:
    return "mark.spark" in (ROOT / file).read_text()


def unit_of(nodeid: str) -> str:
    """Tests of one unit run in one worker."""
    file = nodeid.partition("::")[0]
    if file.startswith(APART):
        return nodeid
    for unit, files in SHARING.items():
        if file.startswith(files):
            # Most tests of what works with Spark need none, nor RabbitMQ.
            is_shared = not file.startswith("tests/spark/") or uses_spark(file) or "rabbitmq" in nodeid
            return unit if is_shared else file
    return file


def has_same_names(config: pytest.Config) -> bool:
    return any(SAME_NAMES in argument for argument in config.args)


def turn_of(unit: str) -> int:
    return next((turn for turn, first in enumerate(FIRST) if unit.startswith(first)), len(FIRST))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where long tests are left out: these are hundreds of cases, which every worker would make up for nothing."""
    is_left_out = "not long" in str(config.option.markexpr)
    return True if is_left_out and collection_path == ROOT / SAME_NAMES else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    units = [unit_of(item.nodeid) for item in items]
    places = {unit: (turn_of(unit), place) for place, unit in reversed(list(enumerate(units)))}
    items.sort(key=lambda item: places[unit_of(item.nodeid)])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    if has_same_names(config):
        return None
    # Not by marks of xdist's own: with this pytest they get lost on the way to whoever schedules.
    config.option.loadscopereorder = False
    scheduler: Any = LoadScopeScheduling(config, log)
    scheduler._split_scope = unit_of
    return cast("object", scheduler)


def pytest_collection_finish(session: pytest.Session) -> None:
    names = [item.nodeid for item in session.items]
    if hasattr(session.config, "workerinput") and not has_same_names(session.config):
        assert len(names) == len(set(names)), f"tests of the same name: {SAME_NAMES} has to be run by itself"
    # Thousands of tests stay until the end, and need not be looked through for garbage.
    gc.freeze()


@pytest.fixture
def leaky() -> Iterator[None]:
    """For clients that leave sockets to the garbage collector: so that no other test is blamed for them."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("spark") is not None and quick_spark.VARIABLE not in os.environ:
        quick_spark.prepare()
