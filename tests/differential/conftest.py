"""Plays the sessions that the chosen tests need, once per broker, both brokers at the same time."""

from __future__ import annotations

import fcntl
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.differential import archive, rabbitmq, runner, warren_node
from tests.differential.brokers import Broker
from tests.differential.recording import Recording


@dataclass
class Recordings:
    warren: dict[str, Recording]
    # RabbitMQ's as played just now where it is installed, else as kept in the repository.
    rabbitmq: dict[str, Recording]
    # Why RabbitMQ was not played, or nothing.
    absence: str


@pytest.fixture(scope="session")
def recordings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    """Made by the first worker that comes here; the others wait for its file."""
    worker = hasattr(request.config, "workerinput")
    base = tmp_path_factory.getbasetemp()
    file = (base.parent if worker else base) / "differential.json"
    with open(file.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_text(json.dumps(asdict(_record(_needed(request.session.items)))))
    return Recordings(**json.loads(file.read_text()))


def _record(names: list[str]) -> Recordings:
    absence = _absence()
    with ThreadPoolExecutor(2) as pool:
        warren = pool.submit(_play, warren_node.start(), names)
        other = None if absence else pool.submit(_play, rabbitmq.start(), names)
        return Recordings(warren.result(), other.result() if other else archive.load(), absence)


def _play(start: AbstractContextManager[Broker], names: list[str]) -> dict[str, Recording]:
    with start as broker:
        return runner.play(broker, names)


def _needed(items: list[pytest.Item]) -> list[str]:
    """The sessions of the tests that were asked for, in no particular order but each once."""
    here = [item for item in items if isinstance(item, pytest.Function) and item.path.parent == Path(__file__).parent]
    callspecs = [item.callspec for item in here if hasattr(item, "callspec")]
    return sorted({str(spec.params["name"]) for spec in callspecs if "name" in spec.params})


def _absence() -> str:
    if os.environ.get("DIFFERENTIAL_RECORDED"):
        return "DIFFERENTIAL_RECORDED is set: RabbitMQ is not played"
    version = rabbitmq.installed_version()
    if not version:
        return "rabbitmq-server is not installed"
    if version != archive.VERSION:
        return f"rabbitmq-server is {version}, the sessions were reviewed with {archive.VERSION}"
    return ""
