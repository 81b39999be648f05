"""Installs a wheel as a user would: a fresh environment, no compiler within reach, and a message through its broker.

python -m tests.try_wheel FILE
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 300
# Both ends in one: it prints what it got, and where the core comes from.
MESSAGE = """
from warren import Broker
from warren.amqp.methods import QueueDeclare, QueueDeclareOk
from warren.client.address import parse_uri
from warren.client.connection import Client
from warren.core import describe_core

with Broker(http=True) as broker, Client(parse_uri(broker.url), "wheel") as client:
    client.call(QueueDeclare(queue="q"), QueueDeclareOk)
    assert broker.call(lambda node: list(node.vhosts["/"].queues)) == ["q"]
    print("core:", describe_core())
"""


def call(*command: str, folder: Path) -> str:
    """With the system's own commands, but none that could compile."""
    paths = folder / "commands"
    paths.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WARREN"))}
    run = subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PATH": str(paths), "CC": "no-compiler"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{run.stdout}")
    return run.stdout


def main(wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        call(sys.executable, "-m", "venv", "environment", folder=folder)
        python, warren = (str(folder / "environment" / "bin" / each) for each in ("python", "warren"))
        call(python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel.resolve()), folder=folder)
        version = call(warren, "--version", folder=folder)
        said = call(python, "-c", MESSAGE, folder=folder)
    if "core: compiled\n" not in version or said != "core: compiled\n":
        sys.exit(f"{wheel.name} is not compiled:\n{version}{said}")
    sys.stdout.write(f"{wheel.name} works in an environment of its own: {' '.join(version.split())}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
