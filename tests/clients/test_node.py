"""Node's amqplib, installed with npm for the occasion: confirms, prefetch, returns, cancels, closes, TLS."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import Secured
from warren import Broker

SCRIPT = Path(__file__).with_name("amqplib.js")
# Kept between runs: what npm downloads does not change.
FOLDER = Path(__file__).parents[2] / "build" / "clients" / "node"
EXPECTED = {"bodies": 500, "returned": "NO_ROUTE", "cancelled": None, "refused": 404, "closed": True}

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="node and npm are not installed")


@pytest.fixture(scope="module")
def modules() -> Path:
    installed = FOLDER / "node_modules"
    if not (installed / "amqplib").is_dir():
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--prefix", str(FOLDER), "--no-audit", "--no-fund", "amqplib@2"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50)
        if done.returncode != 0:
            pytest.skip(f"npm cannot install amqplib: {done.stderr.strip().splitlines()[-1:]}")
    return installed


def run(modules: Path, *arguments: str) -> object:
    # With its messages as its standard error: they are what a failure shows.
    done = subprocess.run(
        ["node", str(SCRIPT), *arguments],
        env={"NODE_PATH": str(modules), "PATH": str(Path(shutil.which("node") or "node").parent)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=30,
    )
    return json.loads(done.stdout)


def test_amqplib_finds_all_that_it_needs(warren_broker: Broker, modules: Path) -> None:
    assert run(modules, warren_broker.url) == EXPECTED


def test_amqplib_over_tls(secured: Secured, modules: Path) -> None:
    assert run(modules, f"amqps://guest:guest@localhost:{secured.broker.tls_port}/", secured.ca) == EXPECTED
