"""Plays the sessions that the chosen tests need on Warren, once for all workers."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from tests.differential import runner, warren_node
from tests.differential.recording import Recording


@pytest.fixture(scope="session")
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    """Made by the first worker that comes here; the others wait for its file."""
    worker = hasattr(request.config, "workerinput")
    base = tmp_path_factory.getbasetemp()
    file = (base.parent if worker else base) / "differential.json"
    with open(file.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            with warren_node.start() as broker:
                file.write_text(json.dumps(runner.play(broker, _needed(request.session.items))))
    found: dict[str, Recording] = json.loads(file.read_text())
    return found


def _needed(items: list[pytest.Item]) -> list[str]:
    """The sessions of the tests that were asked for, in no particular order but each once."""
    here = [item for item in items if isinstance(item, pytest.Function) and item.path.parent == Path(__file__).parent]
    callspecs = [item.callspec for item in here if hasattr(item, "callspec")]
    return sorted({str(spec.params["name"]) for spec in callspecs if "name" in spec.params})
