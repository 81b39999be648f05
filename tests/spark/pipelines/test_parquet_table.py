"""Batches in a folder of Parquet files: each once, whatever was interrupted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest

from warren.errors import WarrenError
from warren.spark.folders import LocalFolder
from warren.spark.pipelines.parquet_table import FEW_FILES, JOURNAL, ParquetTable

WRITER = "0123456789abcdef"


def stage(table: ParquetTable, batch: int, values: list[int], partition: str = "") -> None:
    folder = path_of(table) / table.staging(WRITER, batch) / partition
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({"n": values}), folder / f"part-{len(list(folder.iterdir()))}.parquet")


def path_of(table: ParquetTable) -> Path:
    return Path(table.folder.place)


def contents(folder: Path) -> list[int]:
    found: list[int] = dataset.dataset(folder, format="parquet").to_table().column("n").to_pylist()
    return sorted(found)


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    made = ParquetTable(LocalFolder(tmp_path / "table"))
    made.prepare()
    return made


def test_a_batch_is_seen_once_it_is_committed(table: ParquetTable) -> None:
    stage(table, 0, [1, 2])
    assert not any(path_of(table).glob("*.parquet"))
    assert table.commit(WRITER, 0, 2) == 1
    assert contents(path_of(table)) == [1, 2]


def test_a_batch_of_which_rows_are_missing_is_refused_and_what_was_there_stays(table: ParquetTable) -> None:
    stage(table, 0, [1, 2])
    table.commit(WRITER, 0, 2)
    # An executor of another machine has written the third row there.
    stage(table, 0, [1, 2])
    with pytest.raises(
        WarrenError, match=r"^3 rows were written to .*table and 2 are there: driver and executors must"
    ):
        table.commit(WRITER, 0, 3)
    assert contents(path_of(table)) == [1, 2]
    with pytest.raises(WarrenError, match=r"^1 rows were written to .*table and 0 are there"):
        table.commit(WRITER, 1, 1)


def test_a_batch_that_is_written_again_replaces_itself(table: ParquetTable) -> None:
    stage(table, 0, [1])
    table.commit(WRITER, 0, 1)
    stage(table, 1, [2])
    stage(table, 1, [3])
    table.commit(WRITER, 1, 2)
    stage(table, 1, [2, 3])
    assert table.commit(WRITER, 1, 2) == 1
    assert contents(path_of(table)) == [1, 2, 3]


def test_half_a_batch_that_was_left_is_replaced_as_a_whole(table: ParquetTable) -> None:
    stage(table, 0, [1], "day=1")
    table.commit(WRITER, 0, 1)
    # The first attempt was killed when one of its files was in place.
    stage(table, 0, [1], "day=2")
    table.prepare()
    stage(table, 0, [1], "day=1")
    stage(table, 0, [2], "day=2")
    table.commit(WRITER, 0, 2)
    assert contents(path_of(table)) == [1, 2]


def test_another_checkpoint_is_another_writer(table: ParquetTable) -> None:
    stage(table, 0, [1])
    table.commit(WRITER, 0, 1)
    other = "f" * 16
    folder = path_of(table) / table.staging(other, 0)
    folder.mkdir(parents=True)
    parquet.write_table(pa.table({"n": [2]}), folder / "a.parquet")
    table.commit(other, 0, 1)
    assert contents(path_of(table)) == [1, 2]


def fill(table: ParquetTable, batches: int, partition: str = "") -> list[int]:
    for batch in range(batches):
        stage(table, batch, [batch], partition)
        table.commit(WRITER, batch, 1)
    return list(range(batches))


def test_small_files_are_put_together_and_the_newest_batch_is_left_alone(table: ParquetTable) -> None:
    values = fill(table, FEW_FILES + 2, "day=1")
    assert table.compact(WRITER, before=FEW_FILES + 1) == FEW_FILES + 1
    assert len(table.files()) == 2
    assert contents(path_of(table)) == values
    assert table.holds(WRITER, 0)
    assert not table.holds(WRITER, FEW_FILES + 1)
    stage(table, 3, [99])
    assert table.commit(WRITER, 3, 1) == 0
    assert contents(path_of(table)) == values


def test_columns_that_came_later_outlive_the_putting_together(table: ParquetTable) -> None:
    for batch in range(FEW_FILES + 1):
        columns: dict[str, list[Any]] = {"n": [batch]} if batch < 4 else {"n": [batch], "later": [f"of {batch}"]}
        stage_columns(table, batch, columns)
    assert table.compact(WRITER, before=FEW_FILES + 1) == FEW_FILES + 1
    (file,) = table.files()
    merged = parquet.read_table(path_of(table) / file.name)
    assert merged.column("later").to_pylist() == [None] * 4 + [f"of {batch}" for batch in range(4, FEW_FILES + 1)]
    # What Spark noted of the first file's columns would hide the others from it.
    assert b"org.apache.spark.sql.parquet.row.metadata" not in (merged.schema.metadata or {})


def test_files_whose_types_contradict_each_other_stay_apart(table: ParquetTable) -> None:
    for batch in range(FEW_FILES + 1):
        stage_columns(table, batch, {"n": [batch if batch else "none"]})
    assert table.compact(WRITER, before=FEW_FILES + 1) == 0
    assert len(table.files()) == FEW_FILES + 1


def stage_columns(table: ParquetTable, batch: int, columns: dict[str, list[Any]]) -> None:
    folder = path_of(table) / table.staging(WRITER, batch)
    folder.mkdir(parents=True)
    written = pa.table(columns).replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": "{}"})
    parquet.write_table(written, folder / "part.parquet")
    table.commit(WRITER, batch, 1)


def test_few_files_stay_as_they_are(table: ParquetTable) -> None:
    fill(table, FEW_FILES)
    assert table.compact(WRITER, before=FEW_FILES) == 0


@pytest.mark.parametrize("point", ["before the journal", "after the journal", "old files gone", "renamed"])
def test_a_compaction_that_was_killed_anywhere_loses_and_doubles_nothing(
    table: ParquetTable, tmp_path: Path, point: str
) -> None:
    values = fill(table, FEW_FILES + 1)
    before = tmp_path / "before"
    shutil.copytree(path_of(table), before)
    journal: dict[str, str] = {}
    finish = table._finish_compaction
    table._finish_compaction = lambda: journal.update(text=(path_of(table) / JOURNAL).read_text())  # type: ignore[method-assign]
    table.compact(WRITER, before=FEW_FILES + 1)
    table._finish_compaction = finish  # type: ignore[method-assign]
    if point == "before the journal":
        (path_of(table) / JOURNAL).unlink()
    elif point == "old files gone":
        for each in table.files()[:3]:
            (path_of(table) / each.name).unlink()
    elif point == "renamed":
        finish()
        (path_of(table) / JOURNAL).write_text(journal["text"])
    table.prepare()
    assert contents(path_of(table)) == values
    assert not (path_of(table) / JOURNAL).exists()
