"""Batches in a folder of Parquet files: each once, whatever was interrupted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest

from warren.spark.pipelines.parquet_table import FEW_FILES, JOURNAL, ParquetTable

WRITER = "0123456789abcdef"


def stage(table: ParquetTable, batch: int, values: list[int], partition: str = "") -> None:
    folder = table.staging(WRITER, batch) / partition
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({"n": values}), folder / f"part-{len(list(folder.iterdir()))}.parquet")


def contents(folder: Path) -> list[int]:
    found: list[int] = dataset.dataset(folder, format="parquet").to_table().column("n").to_pylist()
    return sorted(found)


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    made = ParquetTable(tmp_path / "table")
    made.prepare()
    return made


def test_a_batch_is_seen_once_it_is_committed(table: ParquetTable) -> None:
    stage(table, 0, [1, 2])
    assert not any(table.folder.glob("*.parquet"))
    assert table.commit(WRITER, 0) == 1
    assert contents(table.folder) == [1, 2]


def test_a_batch_that_is_written_again_replaces_itself(table: ParquetTable) -> None:
    stage(table, 0, [1])
    table.commit(WRITER, 0)
    stage(table, 1, [2])
    stage(table, 1, [3])
    table.commit(WRITER, 1)
    stage(table, 1, [2, 3])
    assert table.commit(WRITER, 1) == 1
    assert contents(table.folder) == [1, 2, 3]


def test_half_a_batch_that_was_left_is_replaced_as_a_whole(table: ParquetTable) -> None:
    stage(table, 0, [1], "day=1")
    table.commit(WRITER, 0)
    # The first attempt was killed when one of its files was in place.
    stage(table, 0, [1], "day=2")
    table.prepare()
    stage(table, 0, [1], "day=1")
    stage(table, 0, [2], "day=2")
    table.commit(WRITER, 0)
    assert contents(table.folder) == [1, 2]


def test_another_checkpoint_is_another_writer(table: ParquetTable) -> None:
    stage(table, 0, [1])
    table.commit(WRITER, 0)
    other = "f" * 16
    folder = table.staging(other, 0)
    folder.mkdir(parents=True)
    parquet.write_table(pa.table({"n": [2]}), folder / "a.parquet")
    table.commit(other, 0)
    assert contents(table.folder) == [1, 2]


def fill(table: ParquetTable, batches: int, partition: str = "") -> list[int]:
    for batch in range(batches):
        stage(table, batch, [batch], partition)
        table.commit(WRITER, batch)
    return list(range(batches))


def test_small_files_are_put_together_and_the_newest_batch_is_left_alone(table: ParquetTable) -> None:
    values = fill(table, FEW_FILES + 2, "day=1")
    assert table.compact(WRITER, before=FEW_FILES + 1) == FEW_FILES + 1
    assert len(table.files()) == 2
    assert contents(table.folder) == values
    assert table.holds(WRITER, 0)
    assert not table.holds(WRITER, FEW_FILES + 1)
    stage(table, 3, [99])
    assert table.commit(WRITER, 3) == 0
    assert contents(table.folder) == values


def test_few_files_stay_as_they_are(table: ParquetTable) -> None:
    fill(table, FEW_FILES)
    assert table.compact(WRITER, before=FEW_FILES) == 0


@pytest.mark.parametrize("point", ["before the journal", "after the journal", "old files gone", "renamed"])
def test_a_compaction_that_was_killed_anywhere_loses_and_doubles_nothing(
    table: ParquetTable, tmp_path: Path, point: str
) -> None:
    values = fill(table, FEW_FILES + 1)
    before = tmp_path / "before"
    shutil.copytree(table.folder, before)
    journal: dict[str, str] = {}
    finish = table._finish_compaction
    table._finish_compaction = lambda: journal.update(text=(table.folder / JOURNAL).read_text())  # type: ignore[method-assign]
    table.compact(WRITER, before=FEW_FILES + 1)
    table._finish_compaction = finish  # type: ignore[method-assign]
    if point == "before the journal":
        (table.folder / JOURNAL).unlink()
    elif point == "old files gone":
        for each in table.files()[:3]:
            each.path.unlink()
    elif point == "renamed":
        finish()
        (table.folder / JOURNAL).write_text(journal["text"])
    table.prepare()
    assert contents(table.folder) == values
    assert not (table.folder / JOURNAL).exists()
