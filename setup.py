"""Compiles the pure folders with mypyc; everything else is in pyproject.toml.

Without a C compiler, or with WARREN_PURE=1, the same source is installed uncompiled: slower, never different.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext

SOURCE = Path("src")
COMPILED_FOLDERS = ("warren/amqp", "warren/broker", "warren/store", "warren/server/turn")
# Silent about what is only imported: pip builds where Warren's own dependencies (starlette, ...) are not installed.
MYPY_OPTIONS = ("--explicit-package-bases", "--config-file=", "--follow-imports=silent")


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
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's headers are missing (Debian: python3-dev)"
    return None


def tell(text: str, end: str = "\n") -> None:
    """pip shows it with --verbose, make always."""
    print(f"warren: {text}", end=end, flush=True)


def compiled_modules() -> list[object]:
    reason = reason_to_stay_pure()
    if reason is not None:
        tell(f"installed without compiling because {reason}; the broker will be about five times slower")
        return []
    from mypyc.build import mypycify

    # mypy names modules from the folders on this path, as src/ is not a package.
    os.environ["MYPYPATH"] = str(SOURCE)
    modules = find_modules()
    tell(f"translating {len(modules)} modules to C, which takes a minute or so")
    extensions = mypycify([*MYPY_OPTIONS, *modules], opt_level="3", debug_level="1", multi_file=True)
    for extension in extensions:
        # A compiler that is there but broken (no Python headers) must not keep anyone from installing.
        extension.optional = True
    return list(extensions)


def tell_progress(number: int, count: int) -> None:
    """In place on a terminal; elsewhere a line now and then. The core is one library of many files; beside it stand
    libraries of one, which only lead to it."""
    if count == 1:
        return
    if sys.stdout.isatty():
        tell(f"compiled {number} of {count} files", "\r" if number < count else "\n")
    elif number % 10 == 0 or number == count:
        tell(f"compiled {number} of {count} files")


class BuildOnAllCores(build_ext):
    """Compiles the C files side by side, and only those that changed: setuptools takes all of them in turn."""

    def build_extensions(self) -> None:
        self.compiler.compile = self._compile_changed
        super().build_extensions()

    def _compile_changed(
        self,
        sources: list[str],
        output_dir: str | None = None,
        macros: list[Any] | None = None,
        include_dirs: list[str] | None = None,
        debug: bool = False,
        extra_preargs: list[str] | None = None,
        extra_postargs: list[str] | None = None,
        depends: list[str] | None = None,
    ) -> list[str]:
        compiler = self.compiler
        _, objects, postargs, options, build = compiler._setup_compile(
            output_dir, macros, include_dirs, sources, depends, extra_postargs
        )
        arguments = compiler._get_cc_args(options, debug, extra_preargs)
        # mypyc leaves files that would not change untouched, so their times can be trusted.
        shared = [Path(__file__), *Path("build").glob("**/*.h")]
        newest_shared = max(path.stat().st_mtime for path in shared)

        def is_old(made: str) -> bool:
            needed = max(Path(build[made][0]).stat().st_mtime, newest_shared)
            return not Path(made).exists() or Path(made).stat().st_mtime < needed

        def compile_one(made: str) -> None:
            compiler._compile(made, *build[made], arguments, postargs, options)

        old = [made for made in objects if is_old(made)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for number, _ in enumerate(pool.map(compile_one, old), 1):
                tell_progress(number, len(old))
        return list(objects)


if __name__ == "__main__":
    setup(ext_modules=compiled_modules(), cmdclass={"build_ext": BuildOnAllCores})
