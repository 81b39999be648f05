"""Packs what tasks of Spark import, so that executors elsewhere need no more than Spark and the same Python.

    python -m warren.spark.executors warren.tar.gz

The archive holds Warren and the libraries that it needs in a task, in the versions that are installed here; Spark
unpacks it beside each executor (docs/spark-cluster.md).
"""

from __future__ import annotations

import re
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import pyspark_warren
import warren

# Of Warren's own, without those of a broker; and those that Spark's tasks over Arrow ask for.
_NEEDED: Final = ("isal", "librt", "mypy-extensions", "numpy", "pandas", "pyarrow", "fastavro")
# The half of it; what lies in other folders (..) are programs.
_NOT_FOR_TASKS: Final = {"__pycache__", "tests", "include"}
_NAME: Final = re.compile(r"[\w.-]+")


def pack(target: Path) -> int:
    """How many files are in it."""
    count = 0
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for path, name in _files():
            archive.add(path, name, recursive=False)
            count += 1
    return count


def _files() -> Iterator[tuple[Path, str]]:
    for package in (warren, pyspark_warren):
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path, path.relative_to(folder.parent).as_posix()
    # What all compiled modules share lies beside their package.
    for path in sorted(Path(str(warren.__file__)).parents[1].glob("*__mypyc*.so")):
        yield path, path.name
    for found in _distributions():
        for file in found.files or []:
            if ".." not in file.parts and not _NOT_FOR_TASKS & set(file.parts):
                yield Path(str(found.locate_file(file))), file.as_posix()


def _distributions() -> Iterator[Distribution]:
    """Those that are needed, with all that they need themselves. Some are not there on every machine."""
    waiting, seen = list(_NEEDED), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        yield found
        for required in found.requires or []:
            match = _NAME.match(required)
            if match is not None and "extra ==" not in required:
                waiting.append(match[0])


if __name__ == "__main__":
    given = sys.argv[1:]
    if len(given) != 1:
        sys.exit("usage: python -m warren.spark.executors FILE.tar.gz")
    sys.stdout.write(f"{given[0]}: {pack(Path(given[0]))} files\n")
