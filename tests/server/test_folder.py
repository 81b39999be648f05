"""The data folder belongs to one process at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warren.errors import WarrenError
from warren.server.folder import DataFolder


def test_the_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    folder = DataFolder(str(tmp_path / "a" / "b"))
    folder.open()
    folder.close()
    assert (tmp_path / "a" / "b").is_dir()


def test_a_second_holder_is_told_who_has_it(tmp_path: Path) -> None:
    first, second = DataFolder(str(tmp_path)), DataFolder(str(tmp_path))
    first.open()
    with pytest.raises(WarrenError, match=f"is in use by process {os.getpid()}"):
        second.open()
    first.close()


def test_after_it_was_closed_another_may_have_it(tmp_path: Path) -> None:
    for _ in range(2):
        folder = DataFolder(str(tmp_path))
        folder.open()
        folder.close()


def test_a_path_that_cannot_be_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WarrenError, match="cannot use the data folder"):
        DataFolder(str(tmp_path / "file" / "below")).open()


def test_a_new_folder_is_closed_to_other_users(tmp_path: Path) -> None:
    folder = DataFolder(str(tmp_path / "above" / "data"))
    folder.open()
    folder.close()
    assert (tmp_path / "above" / "data").stat().st_mode & 0o007 == 0
