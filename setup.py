"""Compiles the pure folders with mypyc; everything else is in pyproject.toml.

Without a C compiler, or with WARREN_PURE=1, the same source is installed uncompiled: slower, never different.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import setup

SOURCE = Path("src")
COMPILED_FOLDERS = ("warren/amqp", "warren/broker")


def find_modules() -> list[str]:
    return sorted(str(path) for folder in COMPILED_FOLDERS for path in (SOURCE / folder).rglob("*.py"))


def has_compiler() -> bool:
    command = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    return any(shutil.which(name) for name in (command.split()[0], "cc", "gcc", "clang"))


def reason_to_stay_pure() -> str | None:
    if os.environ.get("WARREN_PURE") == "1":
        return "WARREN_PURE=1"
    if not has_compiler():
        return "there is no C compiler"
    return None


def compiled_modules() -> list[object]:
    reason = reason_to_stay_pure()
    if reason is not None:
        print(f"warren: installed without compiling because {reason}; the broker will be slower", file=sys.stderr)
        return []
    from mypyc.build import mypycify

    # mypy names modules from the folders on this path, as src/ is not a package.
    os.environ["MYPYPATH"] = str(SOURCE)
    options = ["--explicit-package-bases", "--config-file="]
    extensions = mypycify([*options, *find_modules()], opt_level="3", debug_level="1", multi_file=True)
    for extension in extensions:
        # A compiler that is there but broken (no Python headers) must not keep anyone from installing.
        extension.optional = True
    return list(extensions)


if __name__ == "__main__":
    setup(ext_modules=compiled_modules())
