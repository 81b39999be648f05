"""Files that are there as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.spark.whole_files import whole_file, write_text


def test_a_file_has_its_name_when_all_of_it_is_written(tmp_path: Path) -> None:
    target, draft = tmp_path / "file", tmp_path / ".draft"
    with whole_file(target, draft) as file:
        file.write(b"all of it")
        assert not target.exists()
    assert target.read_bytes() == b"all of it"
    assert not draft.exists()


def test_what_fails_half_way_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "note"
    write_text(target, "first")
    with pytest.raises(OSError, match="no space"), whole_file(target, tmp_path / ".draft") as file:
        file.write(b"half")
        raise OSError("no space")
    assert [path.name for path in tmp_path.iterdir()] == ["note"]
    write_text(target, "second")
    assert target.read_text() == "second"
