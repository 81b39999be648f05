"""Whether the tests would notice: small changes to functions, one at a time, each against the tests that run its line.

    python -m tools.mutants [--sample 40] [--seed 1] [--only Lane.load] [--json FILE] [src/warren/store/log.py ...]
    python -m tools.mutants --again FILE     those that survived then, and no others

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
from collections import Counter
from collections.abc import Callable, Iterator
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
        f"{STORE}/test_compaction.py",
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
    "src/warren/store/compaction.py": [
        f"{STORE}/test_compaction.py",
        f"{STORE}/test_log_store.py",
        f"{STORE}/test_space.py",
        f"{STORE}/test_unreadable.py",
        f"{STORE}/test_returned.py",
        f"{STORE}/test_lane.py",
        f"{STORE}/test_browse.py",
    ],
    "src/warren/store/mirror.py": [f"{STORE}/test_mirror.py"],
    "src/warren/store/recovery.py": [
        f"{STORE}/test_recovery.py",
        f"{STORE}/test_lost_segments.py",
        f"{STORE}/test_log_store.py",
        f"{STORE}/test_returned.py",
        f"{STORE}/test_seen.py",
        f"{STORE}/test_space.py",
        f"{STORE}/test_unreadable.py",
        f"{STORE}/test_golden.py",
        f"{STORE}/test_syncing.py",
        "tests/faults/test_damage.py",
    ],
    "src/warren/broker/queue/errands.py": [
        "tests/broker/test_errands.py",
        "tests/broker/test_failed_errands.py",
    ],
    "src/warren/broker/queue/unacked.py": [
        "tests/broker/test_unacked.py",
        "tests/broker/test_settle.py",
        "tests/broker/test_transactions.py",
    ],
    "src/warren/replication/committed.py": ["tests/replication/test_committed.py"],
    "src/warren/replication/leader.py": ["tests/replication/test_leader.py"],
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


# File, function, text of the line, what was there, what is there instead, the how manyth of those that read the same.
Key = tuple[str, str, str, str, str, int]


@dataclass
class Mutant:
    file: str
    function: str
    # Its number, and how it reads.
    line: int
    text: str
    was: str
    becomes: str
    nth: int
    change: Change

    @property
    def key(self) -> Key:
        """What names it also when lines have moved."""
        return self.file, self.function, self.text, self.was, self.becomes, self.nth

    def row(self) -> dict[str, object]:
        found: dict[str, object] = {"file": self.file, "function": self.function, "text": self.text}
        found |= {"was": self.was, "becomes": self.becomes}
        return found if self.nth == 1 else {**found, "nth": self.nth}

    def code(self) -> CodeType:
        return _code_of(self.change.compiled(self.file), self.function)


class Change:
    """Of one place in the tree of a file."""

    def __init__(self, tree: ast.Module, parent: ast.AST, attribute: str, at: int, new: ast.AST) -> None:
        self._tree = tree
        self._parent = parent
        self._attribute = attribute
        self._at = at
        self._new = new

    def compiled(self, file: str) -> CodeType:
        held = getattr(self._parent, self._attribute)
        changed = [*held[: self._at], self._new, *held[self._at + 1 :]] if isinstance(held, list) else self._new
        setattr(self._parent, self._attribute, changed)
        try:
            return compile(self._tree, file, "exec")
        finally:
            setattr(self._parent, self._attribute, held)


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
    source = Path(file).read_text()
    tree = ast.parse(source)
    lines = source.splitlines()
    found: list[Mutant] = []
    alike: Counter[tuple[str, str, str, str]] = Counter()
    for name, function in functions(tree):
        for parent, attribute, at, node in _places(function):
            for other in changed(node):
                # A function that calls super() must go on knowing its class, or its code does not fit.
                nothing = ast.Expr(ast.Name("__class__", ast.Load())) if "super()" in ast.unparse(node) else ast.Pass()
                new = nothing if other is None else other
                ast.copy_location(new, node)
                ast.fix_missing_locations(new)
                line: int = getattr(node, "lineno", 0)
                text = lines[line - 1].strip()
                was, becomes = ast.unparse(node), "" if other is None else ast.unparse(new)
                alike[name, text, was, becomes] += 1
                nth = alike[name, text, was, becomes]
                change = Change(tree, parent, attribute, at, new)
                found.append(Mutant(file, name, line, text, was, becomes, nth, change))
    return found


def _places(function: ast.AST) -> Iterator[tuple[ast.AST, str, int, ast.AST]]:
    """Every node of what a function does, and where it hangs."""
    annotations = [node.annotation for node in ast.walk(function) if isinstance(node, ast.AnnAssign)]
    types = {id(node) for annotation in annotations for node in ast.walk(annotation)}
    for parent in ast.walk(function):
        if isinstance(parent, (ast.arguments, ast.AnnAssign)) or id(parent) in types:
            continue
        for attribute, value in ast.iter_fields(parent):
            if attribute in ("returns", "annotation", "decorator_list", "args" if parent is function else ""):
                continue
            for at, node in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(node, ast.AST):
                    yield parent, attribute, at, node


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

    def __init__(self, file: str, wanted: Callable[[Mutant], bool], sample: int, seed: int) -> None:
        self._file = file
        self._wanted = wanted
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
        mutants = [
            each
            for each in mutants_of(self._file)
            if self._wanted(each) and function_of(self._file, each.function) is not None
        ]
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
        function.__code__ = mutant.code()
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


def key_of(row: dict[str, Any]) -> Key:
    return row["file"], row["function"], row["text"], row["was"], row["becomes"], row.get("nth", 1)


def accepted() -> dict[Key, str]:
    """Those that change nothing that can be seen, and why."""
    return {key_of(row): row["reason"] for row in json.loads(ACCEPTED.read_text())}


def excuses_of_nothing() -> list[Key]:
    """Those in the list that are not there any more: the code was changed."""
    rows = accepted()
    there = {mutant.key for file in {key[0] for key in rows} if Path(file).exists() for mutant in mutants_of(file)}
    return [key for key in rows if key not in there]


def try_file(file: str, tests: list[str], wanted: Callable[[Mutant], bool], sample: int, report: Report) -> None:
    runner = Runner(file, wanted, sample, report.seed)
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
        report.survivors.append({**each.row(), "line": each.line})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", default=[])
    parser.add_argument("--tests", nargs="*", help="instead of those that are known for the file")
    parser.add_argument("--only", default="", help="functions whose names begin like this")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", type=Path, help="a report: those that survived then, of all its files")
    parser.add_argument("--json", type=Path, help="write the report to this file, too")
    options = parser.parse_args()
    report = Report(options.seed)
    survived = {key_of(row) for row in json.loads(options.again.read_text())["survivors"]} if options.again else set()

    def is_wanted(mutant: Mutant) -> bool:
        return mutant.key in survived if options.again else mutant.function.startswith(options.only)

    for file in options.files or sorted({key[0] for key in survived}) or FILES:
        try_file(file, options.tests or FILES[file], is_wanted, options.sample, report)
    report.score = round(100 * report.noticed / max(1, report.tried - report.accepted), 1)
    line = json.dumps(asdict(report))
    sys.stdout.write(line + "\n")
    if options.json:
        options.json.write_text(line + "\n")
    sys.exit(bool(report.survivors))


if __name__ == "__main__":
    main()
