"""Whether the tests would notice: small changes to functions, one at a time, each against the tests that run its line.

    python -m tools.mutants [--sample 40] [--seed 1] [--json FILE] [src/warren/store/log.py ...]

One process collects the tests and learns which of them run which lines; every mutant is a fork of it in which one
function has another code. A mutant that no test notices has survived: either a test is missing, or it changes nothing
that can be seen. The latter are in tools/mutants_accepted.json, each with its reason. Only interpreted code can change.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol

SOURCE: Final = Path("src")
ACCEPTED: Final = Path(__file__).with_name("mutants_accepted.json")
STORE: Final = "tests/store"
ON_DISK: Final = "tests/server/test_streams.py"
# The weakest, and the tests that are theirs.
FILES: Final = {
    "src/warren/broker/stream/stream.py": [
        "tests/broker/test_streams.py",
        f"{STORE}/test_stream_readers.py",
        f"{STORE}/test_stream_runs.py",
        ON_DISK,
    ],
    "src/warren/store/stream.py": [
        "tests/faults/test_stream_damage.py",
        f"{STORE}/test_stream_files.py",
        f"{STORE}/test_stream_runs.py",
        f"{STORE}/test_space.py",
        f"{STORE}/test_seen.py",
        f"{STORE}/test_unreadable.py",
        ON_DISK,
    ],
    "src/warren/store/lane.py": [
        f"{STORE}/test_lane.py",
        f"{STORE}/test_log_store.py",
        f"{STORE}/test_browse.py",
        f"{STORE}/test_space.py",
        f"{STORE}/test_unreadable.py",
        f"{STORE}/test_seen.py",
        f"{STORE}/test_returned.py",
    ],
    "src/warren/store/log.py": [
        f"{STORE}/test_syncing.py",
        f"{STORE}/test_stopping.py",
        f"{STORE}/test_lost_segments.py",
        f"{STORE}/test_mirror.py",
        f"{STORE}/test_stream_files.py",
        f"{STORE}/test_definitions_log.py",
        f"{STORE}/test_log_store.py",
        f"{STORE}/test_space.py",
        f"{STORE}/test_unreadable.py",
        f"{STORE}/test_seen.py",
        f"{STORE}/test_returned.py",
    ],
    "src/warren/store/format.py": [f"{STORE}/test_format.py", f"{STORE}/test_walk.py"],
    "src/warren/store/returned.py": [f"{STORE}/test_returned.py", f"{STORE}/test_lost_segments.py"],
    "src/warren/store/definitions.py": [
        f"{STORE}/test_definitions_log.py",
        f"{STORE}/test_definitions_files.py",
        f"{STORE}/test_stopping.py",
        f"{STORE}/test_golden.py",
        f"{STORE}/test_mirror.py",
    ],
    "src/warren/replication/committed.py": ["tests/replication/test_committed.py"],
    "src/warren/replication/files.py": ["tests/replication/test_copying.py", "tests/replication/test_files.py"],
}
COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES: Final = {"min": "max", "max": "min"}
# A test that takes longer is left to those that are shorter, and one that takes longer than it did by far never ends.
SLOW: Final = 20.0
PATIENCE: Final = 10


@dataclass
class Mutant:
    file: str
    function: str
    line: int
    was: str
    becomes: str
    code: CodeType | None = field(default=None, repr=False)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names it also when lines have moved."""
        return self.file, self.function, self.was, self.becomes


# -- making them -------------------------------------------------------------------------------------------------------


def changed(node: ast.AST) -> Iterator[ast.AST | None]:
    """What this node could be instead; None for nothing at all."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        other = copy.deepcopy(node)
        other.ops[0] = COMPARISONS[type(node.ops[0])]()
        yield other
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPERATORS:
        twin = copy.deepcopy(node)
        twin.op = OPERATORS[type(node.op)]()
        yield twin
    elif isinstance(node, ast.BoolOp):
        turned = copy.deepcopy(node)
        turned.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        yield turned
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield ast.Name(NAMES[node.id], ast.Load())
    elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or (
        isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Attribute, ast.Subscript))
    ):
        yield None


def functions(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield f"{name}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{name}{node.name}.")


def mutants_of(file: str) -> list[Mutant]:
    tree = ast.parse(Path(file).read_text())
    found: list[Mutant] = []
    for name, function in functions(tree):
        for parent in ast.walk(function):
            if isinstance(parent, (ast.arguments, ast.AnnAssign)):
                continue
            for attribute, value in ast.iter_fields(parent):
                if attribute in ("returns", "annotation", "decorator_list", "args" if parent is function else ""):
                    continue
                for at, node in enumerate(value if isinstance(value, list) else [value]):
                    if isinstance(node, ast.AST):
                        found += _variants(file, name, tree, parent, attribute, at, node)
    return found


def _variants(
    file: str, name: str, tree: ast.Module, parent: ast.AST, attribute: str, at: int, node: ast.AST
) -> Iterator[Mutant]:
    held = getattr(parent, attribute)
    for other in changed(node):
        # A function that calls super() must go on knowing its class, or its code does not fit.
        nothing = ast.Expr(ast.Name("__class__", ast.Load())) if "super()" in ast.unparse(node) else ast.Pass()
        new = nothing if other is None else other
        ast.copy_location(new, node)
        ast.fix_missing_locations(new)
        if isinstance(held, list):
            held[at] = new
        else:
            setattr(parent, attribute, new)
        try:
            code = _code_of(compile(tree, file, "exec"), name)
        finally:
            if isinstance(held, list):
                held[at] = node
            else:
                setattr(parent, attribute, node)
        line: int = getattr(node, "lineno", 0)
        yield Mutant(file, name, line, ast.unparse(node), "" if other is None else ast.unparse(new), code)


def _code_of(code: CodeType, name: str) -> CodeType:
    for part in name.split("."):
        code = next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == part)
    return code


def module_of(file: str) -> ModuleType:
    return importlib.import_module(".".join(Path(file).relative_to(SOURCE).with_suffix("").parts))


def function_of(file: str, name: str) -> FunctionType | None:
    held: Any = module_of(file)
    for part in name.split("."):
        held = vars(held).get(part)
    held = getattr(held, "__func__", None) or getattr(held, "fget", None) or held
    return held if isinstance(held, FunctionType) else None


# -- running them ------------------------------------------------------------------------------------------------------


class Runner:
    """A plugin of pytest: instead of running the tests once, it runs those of each mutant."""

    def __init__(self, file: str, sample: int, seed: int) -> None:
        self._file = file
        self._sample = sample
        self._seed = seed
        self.survivors: list[Mutant] = []
        self.noticed = 0
        self.unreached = 0
        # Which tests run which lines, and how long each takes.
        self._by_line: dict[int, set[str]] = {}
        self._times: dict[str, float] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for item in items.values():
            self._learn(item)
        mutants = [each for each in mutants_of(self._file) if function_of(self._file, each.function) is not None]
        random.Random(self._seed).shuffle(mutants)  # noqa: S311 (the same ones each time)
        for mutant in mutants[: self._sample]:
            names = sorted(self._by_line.get(mutant.line, set()), key=lambda name: self._times[name])
            names = [name for name in names if self._times[name] < SLOW]
            if not names:
                self.unreached += 1
                self.survivors.append(mutant)
            elif self._is_noticed(mutant, [items[name] for name in names]):
                self.noticed += 1
            else:
                self.survivors.append(mutant)
                sys.stderr.write(f"survived: {mutant.function}:{mutant.line} {mutant.was} -> {mutant.becomes}\n")
        return True

    def _learn(self, item: pytest.Item) -> None:
        wanted = str(Path(self._file).resolve())
        lines: set[int] = set()

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            if frame.f_code.co_filename != wanted:
                return None
            lines.add(frame.f_lineno)
            return trace

        began = time.monotonic()
        sys.settrace(trace)
        try:
            reports = runtestprotocol(item, log=False, nextitem=None)
        finally:
            sys.settrace(None)
        self._times[item.nodeid] = time.monotonic() - began
        if any(report.failed for report in reports):
            raise pytest.UsageError(f"{item.nodeid} fails without any change")
        for line in lines:
            self._by_line.setdefault(line, set()).add(item.nodeid)

    def _is_noticed(self, mutant: Mutant, items: list[pytest.Item]) -> bool:
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
        # Whatever the mutant says, and however it ends, is nothing but that it was noticed.
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        function = function_of(self._file, mutant.function)
        assert function is not None
        assert mutant.code is not None
        function.__code__ = mutant.code
        for item in items:
            signal.alarm(PATIENCE + int(10 * self._times[item.nodeid]))
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=None)):
                os._exit(1)
        os._exit(0)


# -- telling -----------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    seed: int
    tried: int = 0
    noticed: int = 0
    accepted: int = 0
    score: float = 0.0
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    survivors: list[dict[str, object]] = field(default_factory=list)


def accepted() -> dict[tuple[str, str, str, str], str]:
    """Those that change nothing that can be seen, and why."""
    rows = json.loads(ACCEPTED.read_text())
    return {(row["file"], row["function"], row["was"], row["becomes"]): row["reason"] for row in rows}


def try_file(file: str, tests: list[str], sample: int, seed: int, report: Report) -> None:
    runner = Runner(file, sample, seed)
    code = pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", *tests], plugins=[runner])
    if code not in (0, 5):
        raise SystemExit(f"{file}: the tests do not run ({code})")
    reasons = accepted()
    excused = [each for each in runner.survivors if each.key in reasons]
    left = [each for each in runner.survivors if each.key not in reasons]
    tried = runner.noticed + len(runner.survivors)
    report.files[file] = {"tried": tried, "noticed": runner.noticed, "accepted": len(excused), "survived": len(left)}
    report.tried += tried
    report.noticed += runner.noticed
    report.accepted += len(excused)
    for each in left:
        report.survivors.append({key: value for key, value in asdict(each).items() if key != "code"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", default=[])
    parser.add_argument("--tests", nargs="*", help="instead of those that are known for the file")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the report to this file, too")
    options = parser.parse_args()
    report = Report(options.seed)
    for file in options.files or FILES:
        try_file(file, options.tests or FILES[file], options.sample, options.seed, report)
    report.score = round(100 * report.noticed / max(1, report.tried - report.accepted), 1)
    line = json.dumps(asdict(report))
    sys.stdout.write(line + "\n")
    if options.json:
        options.json.write_text(line + "\n")
    sys.exit(bool(report.survivors))


if __name__ == "__main__":
    main()
