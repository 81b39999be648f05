"""Runs the examples of one document in order, as a reader would: one folder, one broker, one block after another.

    ```python              run as a script
    ```python NAME         saved under that name, for later blocks; so are toml, json and yaml
    ```console             every `$ command` is run, and must print what stands below it (... is any text)
    ```sh                  run as a whole

`warren serve` runs on until the end of the document, on free ports: 5672 and 15672 stand for them, and 25700 to 25799
for a hundred more. Blocks of any other kind (text, py, ...) are for reading only.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.cli.serving import Serving, environment

# A second as a rule, half a minute where Spark is started; the machine may be busy.
PATIENCE = 150
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = {"python", "console", "sh"}
_SAVED = {"python", "toml", "json", "yaml"}
# Readers do not have that plugin, which takes longer to load than most examples to run.
_PYTEST = "-p no:cacheprovider -p no:schemathesis"
_SERVE = "warren serve"
_AMQP_PORT, _HTTP_PORT = "5672", "15672"
_MORE_PORTS = re.compile(r"\b257(\d\d)\b")
# Below those that the system gives away by itself.
_HUNDREDS = range(110, 320)


@dataclass(frozen=True)
class Block:
    kind: str
    # Empty unless the block is a file.
    name: str
    text: str
    line: int

    @property
    def is_example(self) -> bool:
        return self.kind in _RUN or self.name != ""


def blocks_in(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2] or "", found[3], text.count("\n", 0, found.start()) + 1)
        for found in _FENCE.finditer(text)
    ]


class FreePorts:
    """A hundred in a row that nobody listens on, all of them this document's: another would find the last one taken."""

    def __init__(self) -> None:
        for self.hundred in Random().sample(_HUNDREDS, len(_HUNDREDS)):
            self._guard = _bound(self.hundred * 100 + 99)
            if self._guard is not None and all(map(_is_free, range(self.hundred * 100, self.hundred * 100 + 99))):
                return
            self.close()
        raise AssertionError("there are no hundred free ports in a row")

    def close(self) -> None:
        if self._guard is not None:
            self._guard.close()


def _bound(port: int) -> socket.socket | None:
    made = socket.socket()
    try:
        made.bind(("127.0.0.1", port))
    except OSError:
        made.close()
        return None
    return made


def _is_free(port: int) -> bool:
    made = _bound(port)
    if made is not None:
        made.close()
    return made is not None


class Reader:
    """Somebody who does what a document says, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "work"
        self._folder.mkdir()
        self._commands = folder / "bin"
        self._commands.mkdir()
        for name, module in (("warren", "-m warren"), ("pytest", f"-m pytest {_PYTEST}"), ("python", "")):
            self._install(name, module)
        self._serving: Serving | None = None
        self._free: FreePorts | None = None

    def _install(self, name: str, module: str) -> None:
        """The commands of the environment under test, whatever else is installed on this machine."""
        command = self._commands / name
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
        command.chmod(0o755)

    def close(self) -> None:
        # What a document has started in the background and not ended.
        for path in self._folder.glob("*.pid"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(path.read_text()), signal.SIGKILL)
        if self._serving is not None:
            self._serving.__exit__(None, None, None)
        if self._free is not None:
            self._free.close()

    def do(self, block: Block) -> None:
        if block.name:
            assert block.kind in _SAVED, f"line {block.line}: {block.kind} is not saved to a file"
            file = self._folder / block.name
            file.parent.mkdir(exist_ok=True)
            file.write_text(self._with_ports(block.text))
        elif block.kind == "python":
            self._run([sys.executable, "-W", "error", "-c", self._with_ports(block.text)])
        elif block.kind == "sh":
            self._run(["sh", "-e", "-c", self._with_ports(block.text)])
        elif block.kind == "console":
            for command, expected in commands_in(block.text):
                self._enter(command, expected)

    def _enter(self, command: str, expected: str) -> None:
        if command.startswith(_SERVE):
            printed = self._serve(command)
        else:
            printed = self._run(["sh", "-c", self._with_ports(command)])
        assert matches(printed, expected), f"$ {command}\n{printed}\ninstead of\n{expected}"

    def _serve(self, command: str) -> str:
        assert self._serving is None, "one broker for a document"
        arguments = shlex.split(command.removeprefix(_SERVE).rstrip("& "))
        self._serving = Serving(self._folder, *arguments)
        self._serving.__enter__()
        printed = self._serving.ready_line
        for own, shown in self._ports():
            printed = printed.replace(own, shown)
        return printed

    def _ports(self) -> list[tuple[str, str]]:
        """Those of the running broker, each with the one that the document calls it by."""
        if self._serving is None:
            return []
        amqp, http = (address.rpartition(":")[2] for address in (self._serving.amqp, self._serving.http))
        return [(amqp, _AMQP_PORT), (http, _HTTP_PORT)]

    def _with_ports(self, text: str) -> str:
        for own, shown in self._ports():
            text = re.sub(rf"\b{shown}\b", own, text)
        if _MORE_PORTS.search(text):
            self._free = self._free or FreePorts()
            text = _MORE_PORTS.sub(rf"{self._free.hundred}\1", text)
        return text

    def _run(self, command: list[str]) -> str:
        variables = environment()
        variables["PATH"] = f"{self._commands}:{variables['PATH']}"
        if self._serving is not None:
            variables["WARREN_URL"] = self._serving.http_url
        run = subprocess.run(
            command,
            cwd=self._folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert run.returncode == 0, f"{command[-1]}\n{run.stdout}"
        return run.stdout


def commands_in(text: str) -> list[tuple[str, str]]:
    """Each `$ command` with the lines that follow it."""
    found: list[tuple[str, str]] = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        while command.endswith("\\"):
            more, _, expected = expected.partition("\n")
            command = command[:-1] + more
        found.append((command, expected))
    return found


def matches(printed: str, expected: str) -> bool:
    parts = [re.escape(part) for part in expected.strip().split("...")]
    return re.fullmatch(".*?".join(parts), printed.strip(), re.DOTALL) is not None
