"""A follower has loaded what it needs to lead: when it is elected, clients wait for it."""

from __future__ import annotations

import os
import subprocess
import sys

STORY = """
import asyncio, sys
from warren.assembly import Assembly, preload
from warren.config import Config

async def lead():
    assembly = Assembly(config)
    await assembly.server.start()
    before = set(sys.modules)
    await assembly._start_management()
    print(sorted(set(sys.modules) - before))
    await assembly.stop(0)

config = Config(amqp_port=0, http_port=0)
preload(config)
asyncio.run(lead())
"""


def test_who_follows_has_loaded_what_the_management_side_needs() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", STORY], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert done.stdout.splitlines()[-1] == "[]"
