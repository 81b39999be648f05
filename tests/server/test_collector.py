"""The collector of garbage looks at little at a time: in a process of its own, since it is set for all of it."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import gc, json, sys
from warren.server.collector import spare_everyone

sizes = {0: 0, 1: 0, 2: 0}
counts = {0: 0, 1: 0, 2: 0}

def collected(phase, info):
    if phase == "start":
        generation = info["generation"]
        counts[generation] += 1
        sizes[generation] = max(sizes[generation], sum(len(gc.get_objects(young)) for young in range(generation + 1)))

if sys.argv[1] == "spared":
    spare_everyone()
gc.callbacks.append(collected)
kept = [[] for _ in range(300_000)]
print(json.dumps([counts, sizes]))
"""


def collections(how: str) -> tuple[dict[str, int], dict[str, int]]:
    """How many of each generation while very many objects come to stay, and of how many objects the largest was."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True, timeout=60)
    counts, sizes = json.loads(done.stdout)
    return counts, sizes


def test_nobody_waits_until_all_objects_are_looked_through() -> None:
    counts, sizes = collections("spared")
    assert counts["0"] > 10
    assert counts["2"] == 0
    assert max(sizes["0"], sizes["1"]) <= 25_000


def test_python_by_itself_looks_through_all_of_them() -> None:
    """The negative control."""
    assert collections("as it is")[0]["2"] > 0
