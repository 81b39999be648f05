"""Definitions on disk: one SQLite file, every change of a turn in one transaction, durable before anyone is told.

Small and rarely written, so safety is all that counts here; messages are elsewhere. Why SQLite:
docs/decisions/0003-definitions-in-sqlite.md.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from warren.errors import WarrenError

FILE_NAME = "definitions.sqlite"
# "Warr", so that a SQLite file of something else is not taken for ours.
APPLICATION_ID = 0x57617272
SCHEMA_VERSION = 1

Row = tuple[str, tuple[str, ...], dict[str, object]]


class DefinitionsStore:
    """A Recorder. One process at a time: the file stays locked while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # What changed since the last commit; None for what is gone.
        self._pending: dict[tuple[str, tuple[str, ...]], dict[str, object] | None] = {}
        try:
            # It holds password hashes; SQLite's other files take after this one.
            path.touch(mode=0o600)
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        except (OSError, sqlite3.Error) as error:
            raise WarrenError(f"cannot open {path}: {error}") from error
        try:
            self._open()
        except sqlite3.Error as error:
            self._database.close()
            raise self._explained(error) from error
        except BaseException:
            self._database.close()
            raise

    def _open(self) -> None:
        run = self._database.execute
        # Asked for before WAL: then no shared memory is used, and no second process gets in.
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        is_new = run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        application = run("PRAGMA application_id").fetchone()[0]
        version = run("PRAGMA user_version").fetchone()[0]
        run("COMMIT")
        if not is_new and application != APPLICATION_ID:
            raise WarrenError(f"{self.path} is not a definitions file of Warren")
        if version > SCHEMA_VERSION:
            raise WarrenError(f"{self.path} was written by a later Warren (format {version})")
        run("PRAGMA journal_mode = WAL")
        # Every commit reaches the disk, not only every checkpoint.
        run("PRAGMA synchronous = FULL")
        if is_new:
            self._create()
        damage = run("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise WarrenError(f"{self.path} is damaged: {damage}")

    def _create(self) -> None:
        run = self._database.execute
        run("BEGIN")
        run(
            "CREATE TABLE definitions ("
            "kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID"
        )
        run(f"PRAGMA application_id = {APPLICATION_ID}")
        run(f"PRAGMA user_version = {SCHEMA_VERSION}")
        run("COMMIT")

    def load(self) -> list[Row]:
        """All that was committed."""
        try:
            rows = self._database.execute("SELECT kind, key, value FROM definitions").fetchall()
        except sqlite3.Error as error:
            raise self._explained(error) from error
        try:
            return [(kind, tuple(json.loads(key)), json.loads(value)) for kind, key, value in rows]
        except ValueError as error:
            raise WarrenError(f"{self.path} is damaged: {error}") from error

    def put(self, kind: str, key: tuple[str, ...], value: dict[str, object]) -> None:
        self._pending[(kind, key)] = value

    def delete(self, kind: str, key: tuple[str, ...]) -> None:
        self._pending[(kind, key)] = None

    def commit(self) -> None:
        """All or nothing. Only here can the disk fail, so the caller has one place to look."""
        if not self._pending:
            return
        gone: list[tuple[str, str]] = []
        kept: list[tuple[str, str, str]] = []
        for (kind, key), value in self._pending.items():
            if value is None:
                gone.append((kind, json.dumps(key)))
            else:
                kept.append((kind, json.dumps(key), json.dumps(value)))
        try:
            self._database.execute("BEGIN")
            self._database.executemany("DELETE FROM definitions WHERE kind = ? AND key = ?", gone)
            self._database.executemany("REPLACE INTO definitions VALUES (?, ?, ?)", kept)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            # An OSError, as the message store raises: what could not be made durable must not be promised, and the
            # server stops.
            raise OSError(f"cannot write {self.path}: {error}") from error
        self._pending.clear()

    def abandon(self) -> None:
        """The disk failed: nobody was told of what is pending, and nobody will be."""
        self._pending.clear()

    def close(self) -> None:
        """What is pending is committed. May be repeated."""
        try:
            self.commit()
        finally:
            self._database.close()
            self._pending.clear()

    def _explained(self, error: sqlite3.Error) -> WarrenError:
        # The low byte is the kind of error, the rest its shade.
        code = error.sqlite_errorcode & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            return WarrenError(f"{self.path} is in use by another process")
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return WarrenError(f"{self.path} is damaged or not a definitions file of Warren: {error}")
        return WarrenError(f"cannot read {self.path}: {error}")
