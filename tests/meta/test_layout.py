"""The rules of the layout that no linter knows: who may import whom, and what the pure folders must not touch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "warren"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# A folder may import from itself, from those named here, and from the modules that stand on no folder.
MAY_IMPORT = {
    "amqp": set[str](),
    "broker": {"amqp"},
    "store": {"amqp", "broker"},
    "server": {"amqp", "broker", "store"},
    "management": {"amqp", "broker", "store", "client"},
    "spark": {"amqp", "broker", "store", "client"},
    # Clients: they may know the wire, and nothing of the broker that they talk to.
    "client": {"amqp"},
    "perf": {"amqp", "client"},
    "cli": {"amqp", "broker", "store", "server", "management", "spark", "perf", "client"},
    # Examples stand where a user's own extensions would: on the core alone.
    "extensions": {"amqp", "broker"},
}
# Nobody imports these: users call the one, the configuration names the other.
ENDS = {"cli", "extensions"}
FOUNDATIONS = {"checksum", "errors", "config", "__version__"}
# Whole brokers are put together in these; only the command line stands above them.
ASSEMBLIES = {"assembly", "testing", "pytest_plugin", "__init__"}
MAY_IMPORT_ASSEMBLIES = {"cli"}

PURE_FOLDERS = {"amqp", "broker"}
IMPURE_MODULES = {
    "asyncio", "concurrent", "datetime", "io", "logging", "multiprocessing", "os", "pathlib", "queue", "random",
    "secrets", "selectors", "signal", "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
# Of all that is a client, only the session looks at frames: everybody else takes methods, contents and rows from it.
CLIENTS = {"client", "perf", "spark", "management", "cli"}
FRAMES = ("FRAME_METHOD", "FRAME_HEADER", "FRAME_BODY", "FRAME_HEARTBEAT", "FRAME_OVERHEAD", '">BHI')
PLAN_WORDS = ("TO" + "DO", "FIX" + "ME", "X" * 3)


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            # `from warren import x` names a module one level further down, and of `io` not all touches files.
            is_split = module in ("warren", "io")
            yield from (f"{module}.{alias.name}" for alias in node.names) if is_split else (module,)


def place_of(path: Path) -> str:
    """The folder that a file is in, or its own name when it is directly in the package."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    place = place_of(path)
    allowed = {place, *FOUNDATIONS, *MAY_IMPORT.get(place, set())}
    if place in MAY_IMPORT_ASSEMBLIES:
        allowed |= ASSEMBLIES
    if place in ASSEMBLIES:
        allowed |= ASSEMBLIES | (MAY_IMPORT.keys() - ENDS)
    if place in FOUNDATIONS:
        allowed |= {"amqp", "broker"}
    if place == "__main__":
        allowed |= {"cli"}
    for module in imported_modules(path):
        if module.startswith("warren."):
            assert module.split(".")[1] in allowed, f"{place} must not import {module}"


@pytest.mark.parametrize("folder", sorted(PURE_FOLDERS))
def test_the_core_touches_nothing_of_the_world(folder: str) -> None:
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        imported = set(imported_modules(path)) - {"io.BytesIO"}
        touched = {module.split(".")[0] for module in imported} & IMPURE_MODULES
        assert not touched, f"{path.relative_to(PACKAGE)} imports {touched}"


def test_clients_leave_frames_to_the_session() -> None:
    for path in SOURCES:
        if place_of(path) in CLIENTS and path != PACKAGE / "client" / "session.py":
            walked = [word for word in FRAMES if word in path.read_text()]
            assert not walked, f"{path.relative_to(PACKAGE)} walks over frames: {walked}"


def test_every_file_says_what_it_is() -> None:
    tests = sorted((ROOT / "tests").rglob("*.py"))
    silent = [
        str(path.relative_to(ROOT))
        for path in [*SOURCES, *tests]
        if path.read_text().strip() and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert silent == []


def test_no_plans_are_left_in_the_source() -> None:
    for path in SOURCES:
        for word in PLAN_WORDS:
            assert word not in path.read_text(), f"{path.relative_to(ROOT)} holds a {word}"
