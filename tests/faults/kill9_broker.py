"""Brokers as processes that can be killed: from the command line, or forked from one that has already loaded it.

Loading the modules is most of a start, and no part of what these tests are about: rounds by the hundred fork their
brokers from a nursery that loaded them once. Either way it is `warren serve` in its own process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

PATIENCE: Final = 30.0
ROOT: Final = Path(__file__).resolve().parents[2]


def environment(**more: str) -> dict[str, str]:
    """Ours without options for brokers, and with the same sources as the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WARREN_")}
    paths = [str(ROOT), *[os.path.abspath(path) for path in kept.get("PYTHONPATH", "").split(os.pathsep) if path]]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), **more}


def serve_arguments(data_dir: Path, *more: str) -> list[str]:
    return [
        "serve",
        "--data-dir",
        str(data_dir),
        "--amqp-port",
        "0",
        "--http-port",
        "-1",
        "--log-level",
        "warning",
        *more,
    ]


class DidNotBoot(AssertionError):
    pass


class Broker:
    """One process. `output` is the file with all that it printed."""

    def __init__(self, pid: int, output: Path) -> None:
        self.pid = pid
        self.output = output
        self.port = 0
        self.started = time.monotonic()

    def wait_ready(self, patience: float = PATIENCE) -> int:
        deadline = time.monotonic() + patience
        while True:
            for line in self.text().splitlines():
                if line.startswith("warren ready "):
                    self.port = int(line.split()[2].rpartition(":")[2])
                    return self.port
            if self.exit_code() is not None or time.monotonic() > deadline:
                raise DidNotBoot(f"exit code {self.exit_code()}: {self.text()[-2000:]}")
            time.sleep(0.002)

    def text(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def signal(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return

    def kill(self) -> int:
        self.signal(signal.SIGKILL)
        return self.wait()

    def wait(self, patience: float = PATIENCE) -> int:
        """Its exit code; negative for a signal, as subprocess has it."""
        deadline = time.monotonic() + patience
        while (code := self.exit_code()) is None:
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the broker did not stop within {patience} s: {self.text()[-2000:]}")
            time.sleep(0.001)
        return code

    def exit_code(self) -> int | None:
        raise NotImplementedError

    def memory(self) -> int:
        """Resident bytes."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


class _Spawned(Broker):
    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        super().__init__(process.pid, output)
        self._process = process

    def exit_code(self) -> int | None:
        return self._process.poll()


class _Forked(Broker):
    """The nursery is its parent; it stays a zombie until we have asked for its end."""

    def __init__(self, nursery: Nursery, pid: int, output: Path) -> None:
        super().__init__(pid, output)
        self._nursery = nursery
        self._code: int | None = None

    def exit_code(self) -> int | None:
        if self._code is None:
            self._code = self._nursery.ask({"reap": self.pid})
        return self._code


def spawn(
    data_dir: Path,
    *options: str,
    wrapper: tuple[str, ...] = (),
    sabotage: str = "",
    variables: dict[str, str] | None = None,
) -> Broker:
    """`python -m warren serve`, under `wrapper` where there is one."""
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    output = _fresh_output(data_dir)
    module = ["-m", "tests.faults.kill9_sabotage", sabotage] if sabotage else ["-m", "warren"]
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*wrapper, sys.executable, *module, *serve_arguments(data_dir, *options)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=data_dir.parent,
            env=environment(**(variables or {})),
        )
    return _Spawned(process, output)


def _fresh_output(data_dir: Path) -> Path:
    output = data_dir.with_suffix(".out")
    if output.exists():
        output.replace(data_dir.with_suffix(".out.before"))
    return output


class Nursery:
    """A process that has Warren loaded and forks a broker on request."""

    def __init__(self, sabotage: str = "", preload: Path | None = None) -> None:
        self._sabotage = sabotage
        variables = {} if preload is None else {"LD_PRELOAD": str(preload)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.kill9_broker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(**variables),
        )

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()

    def ask(self, request: dict[str, object]) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer: int | None = json.loads(self._process.stdout.readline())
        return answer

    def start(self, data_dir: Path, *options: str, variables: dict[str, str] | None = None) -> Broker:
        output = _fresh_output(data_dir)
        request: dict[str, object] = {
            "fork": serve_arguments(data_dir, *options),
            "output": str(output),
            "sabotage": self._sabotage,
            "variables": variables or {},
        }
        pid = self.ask(request)
        assert pid is not None
        return _Forked(self, pid, output)


def _fork(arguments: list[str], output: str, sabotage: str, variables: dict[str, str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.environ.update(variables)
    os.closerange(0, 3)
    os.open(os.devnull, os.O_RDONLY)
    os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup(1)
    try:
        _become_broker(arguments, sabotage)
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code if isinstance(end.code, int) else 0)
    os._exit(70)


def _become_broker(arguments: list[str], sabotage: str) -> None:
    from tests.faults.kill9_sabotage import apply
    from warren.cli.main import main

    apply(sabotage)
    sys.argv = ["warren", *arguments]
    main()


def _nurse() -> None:
    """Answers every line of input with one line. Ends, with all its brokers, when its input does."""
    import warren.cli.main
    import warren.cli.serve

    assert warren.cli.main
    assert warren.cli.serve
    children: dict[int, int | None] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "fork" in request:
            answer: int | None = _fork(request["fork"], request["output"], request["sabotage"], request["variables"])
            assert answer is not None
            children[answer] = None
        else:
            answer = _reaped(children, request["reap"])
        print(json.dumps(answer), flush=True)  # noqa: T201
    for child, code in children.items():
        if code is None:
            os.kill(child, signal.SIGKILL)


def _reaped(children: dict[int, int | None], pid: int) -> int | None:
    if children[pid] is None:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            children[pid] = os.waitstatus_to_exitcode(status)
    return children[pid]


if __name__ == "__main__":
    _nurse()
