"""A broker as users start it: its own process, and what it printed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

PATIENCE = 30


def environment(**more: str) -> dict[str, str]:
    """Ours, without options that whoever runs the tests may have set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WARREN_")}
    return {**kept, **more}


def run_warren(*arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warren", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=cwd,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
    )


class Serving:
    """`warren serve` until the end of the block. Folders of tests are its working folder."""

    def __init__(self, folder: Path, *arguments: str, files: tuple[int, int] = (0, 0), **variables: str) -> None:
        self._folder = folder
        # Its limits of open files, the soft one first; 0 leaves ours.
        self._files = files
        self._arguments = arguments
        self._variables = variables
        self.ready_line = ""
        # What it wrote on standard output after that, and all that it wrote on standard error.
        self.more = ""
        self.errors = ""

    def __enter__(self) -> Serving:
        self.process = subprocess.Popen(
            [
                *self._limited(),
                *f"{sys.executable} -m warren serve --amqp-port 0 --http-port 0".split(),
                *self._arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            env=environment(**self._variables),
        )
        assert self.process.stdout is not None
        self.ready_line = self.process.stdout.readline()
        if not self.ready_line:
            raise AssertionError(self.process.communicate(timeout=PATIENCE)[1])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.returncode is None:
            self.stop()

    def _limited(self) -> list[str]:
        soft, hard = self._files
        return ["sh", "-c", f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"', "sh"] if hard else []

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        self.more, self.errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    @property
    def amqp(self) -> str:
        return self.ready_line.split()[2].removeprefix("amqp=")

    @property
    def http(self) -> str:
        return self.ready_line.split()[3].removeprefix("http=")

    @property
    def amqp_url(self) -> str:
        return f"amqp://guest:guest@{self.amqp}/%2F"

    @property
    def http_url(self) -> str:
        return f"http://guest:guest@{self.http}"
