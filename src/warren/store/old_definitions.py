"""The definitions of a data folder as Warren kept them up to 0.9, in SQLite: read once, then put aside."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from warren.errors import WarrenError
from warren.store.definitions import Row

FILE_NAME = "definitions.sqlite"
PUT_ASIDE = "definitions.sqlite.before-log"
# "Warr", so that a SQLite file of something else is not taken for ours.
APPLICATION_ID = 0x57617272
SCHEMA_VERSION = 1


def load_old(path: Path) -> list[Row]:
    """All that was committed, also by a process that was killed."""
    try:
        database = sqlite3.connect(path, isolation_level=None, timeout=0)
        try:
            rows = _rows(path, database)
        finally:
            database.close()
        return [(kind, tuple(json.loads(key)), json.loads(value)) for kind, key, value in rows]
    except (sqlite3.Error, ValueError) as error:
        raise WarrenError(f"{path} is damaged or not a definitions file of Warren: {error}") from error


def _rows(path: Path, database: sqlite3.Connection) -> list[tuple[str, str, str]]:
    run = database.execute
    if run("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise WarrenError(f"{path} is not a definitions file of Warren")
    version = run("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise WarrenError(f"{path} was written by a later Warren (format {version})")
    damage = run("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise WarrenError(f"{path} is damaged: {damage}")
    return run("SELECT kind, key, value FROM definitions").fetchall()


def put_aside(path: Path) -> None:
    """An older Warren that is started on this folder must not take it for what is defined now."""
    path.rename(path.with_name(PUT_ASIDE))
