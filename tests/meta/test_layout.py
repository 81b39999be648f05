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
    # Copies of the store's files on several nodes: it knows disks, and nothing of what is in them.
    "replication": {"store"},
    "server": {"amqp", "broker", "store", "replication"},
    "management": {"amqp", "broker", "client"},
    "spark": {"amqp", "broker", "store", "client"},
    # Clients: they may know the wire, and nothing of the broker that they talk to.
    "client": {"amqp"},
    "perf": {"amqp", "client"},
    "migrate": {"amqp", "client"},
    "cli": {"amqp", "store", "server", "spark", "perf", "client", "migrate"},
    # Examples stand where a user's own extensions would: on the core alone.
    "extensions": {"amqp", "broker", "extend"},
    # The names of the core that they are promised.
    "extend": {"broker"},
}
# Nobody imports these: users call the one, the configuration names the other.
ENDS = {"cli", "extensions"}
FOUNDATIONS = {
    "checksum", "core", "errors", "extras", "config", "config_loading", "plugins", "strict_json", "__version__",
}  # fmt: skip
# Whole brokers are put together in these; only the command line stands above them.
ASSEMBLIES = {"assembly", "cluster", "testing", "pytest_plugin", "__init__"}
MAY_IMPORT_ASSEMBLIES = {"cli"}

# The rooms of the broker, along the way of a message. Each may import from those before it that are named here, and
# from the files that stand beside the rooms and know none. What is imported only for its types counts too.
ROOMS = {
    "rules": set[str](),
    "exchanges": {"rules"},
    "queue": {"rules", "exchanges"},
    "stream": {"rules", "exchanges", "queue"},
    "vhost": {"rules", "exchanges", "queue", "stream"},
    "session": {"rules", "exchanges", "queue", "vhost"},
    "consume": {"rules", "queue", "stream", "session"},
    "publish": {"rules", "exchanges", "queue", "vhost", "session", "consume"},
    "declare": {"rules", "exchanges", "queue", "vhost", "session", "consume"},
    "wire": {"rules", "queue", "vhost", "session", "consume", "publish", "declare"},
    "watch": {"exchanges", "queue", "vhost", "session", "publish"},
}
# Beside the rooms: what all may know, and what stands on all of them.
GROUND = {"message", "metrics", "settings", "terms", "timers", "world"}
ROOF = {"node", "turns"}
# Operators work on the whole node, and nobody else knows of them.
OPERATORS = "operate"

PURE_FOLDERS = {"amqp", "broker", "replication"}
IMPURE_MODULES = {
    "asyncio", "concurrent", "datetime", "io", "logging", "multiprocessing", "os", "pathlib", "queue", "random",
    "secrets", "selectors", "signal", "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
# Of all that is a client, only the session looks at frames: everybody else takes methods, contents and rows from it.
CLIENTS = {"client", "perf", "migrate", "spark", "management", "cli"}
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


def rooms_imported(path: Path) -> set[str]:
    """What a file of the broker imports from the broker: rooms, and files that stand beside them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "warren.broker":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("warren.broker."):
            found.add(str(node.module).split(".")[2])
    return found


@pytest.mark.parametrize("path", sorted((PACKAGE / "broker").rglob("*.py")), ids=lambda path: str(path.name))
def test_rooms_of_the_broker_know_only_those_below_them(path: Path) -> None:
    room = path.relative_to(PACKAGE / "broker").parts[0].removesuffix(".py")
    if room == "__init__":
        assert path.read_text() == ""
        return
    if room == OPERATORS:
        allowed = {room, *GROUND, *ROOMS, *ROOF}
    elif room in ROOF:
        allowed = {*GROUND, *ROOMS, *ROOF}
    elif room in GROUND:
        allowed = GROUND
    else:
        allowed = {room, *GROUND, *ROOMS[room]}
    assert rooms_imported(path) <= allowed, f"{room} must not import {rooms_imported(path) - allowed}"


def test_what_no_file_makes_use_of_is_not_allowed_any_more() -> None:
    used: dict[str, set[str]] = {}
    for path in SOURCES:
        modules = [module.split(".") for module in imported_modules(path) if module.startswith("warren.")]
        used.setdefault(place_of(path), set()).update(module[1] for module in modules)
    for path in (PACKAGE / "broker").rglob("*.py"):
        used.setdefault(path.parent.name, set()).update(rooms_imported(path))
    for place, allowed in {**MAY_IMPORT, **ROOMS}.items():
        assert allowed <= used[place], f"{place} does not import {allowed - used[place]}"


def test_no_room_of_the_broker_leads_back_to_itself() -> None:
    below: dict[str, set[str]] = {}
    for room, known in ROOMS.items():
        assert known <= below.keys(), f"{room} knows a room that comes after it"
        below[room] = known


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


def test_a_class_name_means_one_thing() -> None:
    """Those with an underscore are known to their own file only."""
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_plans_are_left_in_the_source() -> None:
    for path in SOURCES:
        for word in PLAN_WORDS:
            assert word not in path.read_text(), f"{path.relative_to(ROOT)} holds a {word}"
