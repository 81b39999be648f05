"""Definitions on disk: what was committed is there, whatever happened then."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from warren.errors import WarrenError
from warren.store.definitions import FILE_NAME, SCHEMA_VERSION, DefinitionsStore

# Commits numbered rows one by one and says after each commit which it was.
WRITER = """
import sys
from pathlib import Path
from warren.store.definitions import DefinitionsStore

store = DefinitionsStore(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    store.put("queue", ("/", f"q{number}"), {"name": f"q{number}", "pair": "first"})
    store.put("binding", ("/", f"q{number}"), {"name": f"q{number}", "pair": "second"})
    store.commit()
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


@pytest.fixture
def store(path: Path) -> Iterator[DefinitionsStore]:
    store = DefinitionsStore(path)
    yield store
    store.close()


def reopened(store: DefinitionsStore) -> DefinitionsStore:
    store.close()
    return DefinitionsStore(store.path)


def test_a_new_file_is_empty(store: DefinitionsStore) -> None:
    assert store.load() == []


def test_what_was_put_comes_back(store: DefinitionsStore) -> None:
    value: dict[str, object] = {"name": "q", "list": [1, "ü", None, True], "map": {"a": 1.5}}
    store.put("queue", ("/", "q"), value)
    store.put("binding", ("/", "e", "queue", "q", "~"), {})
    store.commit()
    again = reopened(store)
    assert sorted(again.load()) == [("binding", ("/", "e", "queue", "q", "~"), {}), ("queue", ("/", "q"), value)]
    again.close()


def test_the_last_put_counts(store: DefinitionsStore) -> None:
    store.put("user", ("u",), {"tags": ["old"]})
    store.put("user", ("u",), {"tags": ["new"]})
    store.commit()
    assert store.load() == [("user", ("u",), {"tags": ["new"]})]


def test_what_was_deleted_is_gone(store: DefinitionsStore) -> None:
    store.put("user", ("u",), {})
    store.commit()
    store.delete("user", ("u",))
    store.delete("user", ("never there",))
    store.commit()
    assert store.load() == []


def test_keys_do_not_run_into_each_other(store: DefinitionsStore) -> None:
    store.put("queue", ("a", "b/c"), {"one": 1})
    store.put("queue", ("a/b", "c"), {"two": 2})
    store.put("exchange", ("a", "b/c"), {"three": 3})
    store.commit()
    assert len(store.load()) == 3


def test_names_that_are_not_utf8_come_back(store: DefinitionsStore) -> None:
    name = b"caf\xe9\x00'\"".decode(errors="surrogateescape")
    store.put("queue", ("/", name), {"name": name})
    store.commit()
    assert store.load() == [("queue", ("/", name), {"name": name})]


def test_what_was_not_committed_is_not_kept(path: Path) -> None:
    store = DefinitionsStore(path)
    store.put("user", ("kept",), {})
    store.commit()
    store.put("user", ("lost",), {})
    store._database.close()
    again = DefinitionsStore(path)
    assert again.load() == [("user", ("kept",), {})]
    again.close()


def test_closing_commits_and_may_be_repeated(store: DefinitionsStore) -> None:
    store.put("user", ("u",), {})
    again = reopened(store)
    store.close()
    assert len(again.load()) == 1
    again.close()


def test_a_commit_without_changes_writes_nothing(store: DefinitionsStore, path: Path) -> None:
    store.put("user", ("u",), {})
    store.commit()
    before = {file.name: file.stat().st_mtime_ns for file in path.parent.iterdir()}
    for _ in range(100):
        store.commit()
    assert {file.name: file.stat().st_mtime_ns for file in path.parent.iterdir()} == before


def test_every_commit_reaches_the_disk(store: DefinitionsStore) -> None:
    assert store._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    full = 2
    assert store._database.execute("PRAGMA synchronous").fetchone() == (full,)


def test_only_the_owner_may_read_the_hashes(store: DefinitionsStore, path: Path) -> None:
    store.put("user", ("u",), {"password_hash": "secret"})
    store.commit()
    assert {file.name: oct(file.stat().st_mode & 0o777) for file in path.parent.iterdir()} == {
        FILE_NAME: "0o600",
        f"{FILE_NAME}-wal": "0o600",
    }


def test_a_killed_process_loses_nothing_that_it_committed(path: Path) -> None:
    for round_ in range(3):
        file = path.with_name(f"{round_}.sqlite")
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(file)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert writer.stdout is not None
        with writer.stdout as lines:
            told = [int(next(lines)) for _ in range(20 + 7 * round_)]
            writer.send_signal(signal.SIGKILL)
            # What it said before it died was committed too.
            told += [int(line) for line in lines if line.endswith(b"\n")]
        writer.wait()
        store = DefinitionsStore(file)
        rows = store.load()
        store.close()
        names = {kind: {key[1] for row, key, _ in rows if row == kind} for kind in ("queue", "binding")}
        assert {f"q{number}" for number in told} <= names["queue"]
        # A turn is kept whole or not at all.
        assert names["queue"] == names["binding"]
        assert len(names["queue"]) - len(told) in (0, 1)


def test_a_second_process_is_kept_out(store: DefinitionsStore, path: Path) -> None:
    store.put("user", ("u",), {})
    store.commit()
    other = subprocess.run(
        [sys.executable, "-c", WRITER, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert f"WarrenError: {path} is in use by another process" in other.stderr
    with pytest.raises(WarrenError, match="is in use by another process"):
        DefinitionsStore(path)
    assert len(store.load()) == 1


def test_a_file_of_something_else_is_left_alone(path: Path) -> None:
    path.write_bytes(b"definitely not a database, but long enough to be looked at as one" * 20)
    with pytest.raises(WarrenError, match="is damaged or not a definitions file of Warren"):
        DefinitionsStore(path)
    assert path.read_bytes().startswith(b"definitely")


def test_a_database_of_something_else_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(WarrenError, match="is not a definitions file of Warren"):
        DefinitionsStore(path)
    assert path.read_bytes() == before


def test_a_file_of_a_later_release_is_left_alone(store: DefinitionsStore, path: Path) -> None:
    store.close()
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    database.close()
    with pytest.raises(WarrenError, match="was written by a later Warren"):
        DefinitionsStore(path)


def test_a_damaged_file_is_noticed(store: DefinitionsStore, path: Path) -> None:
    for number in range(2000):
        store.put("queue", ("/", f"q{number}"), {"arguments": {"x": "y" * 50}})
    store.close()
    data = bytearray(path.read_bytes())
    for at in range(8192, len(data) - 4096, 4096):
        data[at : at + 64] = b"\xff" * 64
    path.write_bytes(data)
    with pytest.raises(WarrenError, match="damaged"):
        DefinitionsStore(path)


def test_a_row_that_is_not_json_is_noticed(store: DefinitionsStore, path: Path) -> None:
    store.close()
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO definitions VALUES ('queue', '[\"/\"]', '{broken')")
    database.close()
    again = DefinitionsStore(path)
    with pytest.raises(WarrenError, match="is damaged"):
        again.load()
    again.close()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(WarrenError, match=r"cannot open .*nowhere"):
        DefinitionsStore(tmp_path / "nowhere" / FILE_NAME)


def test_a_write_that_fails_is_an_error_of_the_disk(store: DefinitionsStore) -> None:
    store.put("user", ("u",), {})
    store._database.execute("PRAGMA query_only = ON")
    with pytest.raises(OSError, match="cannot write"):
        store.commit()
    store._database.execute("PRAGMA query_only = OFF")
    store._database.execute("ROLLBACK")


def test_what_came_and_went_in_one_turn_is_not_kept(store: DefinitionsStore) -> None:
    store.put("user", ("old",), {})
    store.commit()
    store.put("queue", ("/", "brief"), {})
    store.delete("queue", ("/", "brief"))
    store.delete("user", ("old",))
    store.put("user", ("old",), {"again": True})
    store.commit()
    assert store.load() == [("user", ("old",), {"again": True})]
