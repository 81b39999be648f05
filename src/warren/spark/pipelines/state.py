"""The folder of a running pipeline: who runs it, how it is doing, and a lock that even kill -9 lets go of."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from warren.errors import WarrenError
from warren.spark.whole_files import write_text

Status = dict[str, Any]
ALIVE: Final = ("starting", "running")
KILLED: Final = "killed"
_STEP: Final = 0.1


class State:
    """`with state:` is for the runner; everybody else only reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = -1

    def __enter__(self) -> State:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            # Not inherited by children, so that a JVM that lives on a moment longer does not hold it.
            lock = os.open(self._lock_file, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise WarrenError(f"cannot use the folder {self.folder}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise WarrenError(
                f"this pipeline is running already{self._by_whom()}: its folder is {self.folder}"
            ) from None
        self._lock = lock
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._lock)
        self._lock = -1

    def note_trace(self, text: str) -> None:
        """Pages that nobody wants to read in a terminal, for those who look for the cause."""
        with self.log_file.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def write(self, status: Status) -> None:
        """Whole or not at all, whenever somebody reads."""
        write_text(self._status_file, json.dumps(status))

    def read(self) -> Status | None:
        """None if it never ran. One that says that it runs, and holds no lock, was killed."""
        try:
            status: Status = json.loads(self._status_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if status.get("state") in ALIVE and not self.is_locked():
            status["state"] = KILLED
        return status

    def is_locked(self) -> bool:
        try:
            lock = os.open(self._lock_file, os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def stop(self, patience: float) -> bool:
        """Ask the runner to end, and wait for it. False if none runs."""
        status = self.read()
        if status is None or not self.is_locked():
            return False
        # The lock is held, so the number is not that of a stranger who came later.
        os.kill(int(status["pid"]), signal.SIGTERM)
        deadline = time.monotonic() + patience
        while self.is_locked():
            if time.monotonic() > deadline:
                raise WarrenError(f"process {status['pid']} was asked to stop and is still there after {patience:g} s")
            time.sleep(_STEP)
        return True

    def _by_whom(self) -> str:
        status = self.read()
        return "" if status is None else f" as process {status.get('pid')}"

    @property
    def log_file(self) -> Path:
        """What Spark says, and traces."""
        return self.folder / "spark.log"

    @property
    def _status_file(self) -> Path:
        return self.folder / "status.json"

    @property
    def _lock_file(self) -> Path:
        return self.folder / "lock"
