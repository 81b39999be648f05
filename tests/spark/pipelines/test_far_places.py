"""Tables, checkpoints and archives at an address: viewfs, a file system of Hadoop that PySpark's own jars bring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest

from tests.spark.broker_under_test import BrokerUnderTest
from warren.errors import WarrenError
from warren.spark import Pipeline
from warren.spark.folders import SparkFolder
from warren.spark.jobs.archive import Archive
from warren.spark.jobs.replay import Replay
from warren.spark.pipelines.model import SourceKind
from warren.spark.pipelines.parquet_table import FEW_FILES, ParquetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


@pytest.fixture
def far(spark: SparkSession, tmp_path: Path) -> str:
    """An address behind which a folder is, so that a test can look into it."""
    name = f"c{abs(hash(tmp_path))}"
    (tmp_path / "far").mkdir()
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set(f"fs.viewfs.mounttable.{name}.link./data", f"file://{tmp_path}/far")
    return f"viewfs://{name}/data"


def test_a_pipeline_keeps_everything_at_an_address(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path, far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stream = node.make()
    (tmp_path / "far" / "in").mkdir()
    (tmp_path / "far" / "in" / "words.json").write_text('{"id": 1, "word": "tea"}\n{"id": 2, "word": "mug"}\n')

    def run_once() -> int:
        pipeline = Pipeline("far", broker=node.uri, folder=f"{far}/state", dead_letters={"queue": f"{stream}.bad"})
        pipeline.source("orders", stream=stream, schema="infer")
        pipeline.source("words", files=f"{far}/in", format="json", schema="id BIGINT, word STRING", as_="table")
        pipeline.view("named", "SELECT orders.id, word FROM orders LEFT JOIN words ON orders.id = words.id")
        pipeline.sink("out", "named", parquet=f"{far}/table", partition_by=["word"])
        return int(pipeline.run(once=True, spark=spark)["rows"])

    node.publish(stream, [json.dumps({"id": number}).encode() for number in range(3)])
    assert run_once() == 3
    node.publish(stream, [b'{"id": 3}'])
    assert run_once() == 1
    table = dataset.dataset(tmp_path / "far" / "table", format="parquet", partitioning="hive").to_table()
    found = sorted((row["id"], row["word"]) for row in table.to_pylist())
    assert [each[0] for each in found] == [0, 1, 2, 3]
    assert {(1, "tea"), (2, "mug")} <= set(found)
    assert (tmp_path / "far" / "state" / "checkpoints" / "out" / "metadata").exists()
    assert (tmp_path / "far" / "state" / "schemas" / "orders.json").exists()
    # Who runs it is a matter of this machine.
    assert (tmp_path / ".warren" / "far" / "status.json").exists()


def test_an_archive_at_an_address_is_written_once_and_replayed(
    spark: SparkSession, node: BrokerUnderTest, tmp_path: Path, far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stream, out = node.make(), node.make("classic")
    node.publish(stream, [b"%d" % number for number in range(30)])
    archive = Archive(SourceKind.STREAM, stream, f"{far}/archive", node.uri, partition_by=(), rows=10)
    summary = archive.run(spark)
    assert (summary.messages, summary.details["files"]) == (30, 3)
    assert archive.run(spark).messages == 0
    with pytest.raises(WarrenError, match=r"is the archive of stream .*; give stream other a folder of its own"):
        Archive(SourceKind.STREAM, "other", f"{far}/archive", node.uri).run(spark)
    replay = Replay(tmp_path / "state", f"{far}/archive", broker=node.uri, exchange="", routing_key=out, key="queue")
    assert replay.run(spark).messages == 30
    assert [body for _, _, body in node.get_all(out)] == [b"%d" % number for number in range(30)]


def test_small_files_at_an_address_are_put_together_with_all_their_columns(
    spark: SparkSession, tmp_path: Path, far: str
) -> None:
    table = ParquetTable(SparkFolder(f"{far}/table", spark))
    table.prepare()
    writer, folder = "0123456789abcdef", tmp_path / "far" / "table"
    for batch in range(FEW_FILES + 1):
        staged = folder / table.staging(writer, batch) / "day=1"
        staged.mkdir(parents=True)
        columns = {"n": [batch]} if batch < 4 else {"n": [batch], "later": [batch]}
        parquet.write_table(pa.table(columns), staged / "part.parquet")
        table.commit(writer, batch, 1)
    with pytest.raises(WarrenError, match=r"^1 rows were written to viewfs://\w+/data/table and 0 are there"):
        table.commit(writer, FEW_FILES + 1, 1)
    assert table.compact(writer, before=FEW_FILES + 1) == FEW_FILES + 1
    (file,) = table.files()
    rows = parquet.read_table(folder / file.name, partitioning=None).sort_by("n").to_pylist()
    assert rows == [{"n": n, "later": None if n < 4 else n} for n in range(FEW_FILES + 1)]
    assert sorted(path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc") == [
        Path(file.name).name
    ]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s3a://bucket/t", r"spark\.jars\.packages \(org\.apache\.hadoop:hadoop-aws:3\.\d+\.\d+\) or spark\.jars$"),
        ("abfss://box@account/t", r"\(org\.apache\.hadoop:hadoop-azure:3\.\d+\.\d+\)"),
        ("cos://bucket/t", r"\(GROUP:NAME:VERSION of its jar\)"),
        ("s3://bucket/t", "^Spark knows no s3://: write s3a://bucket/t$"),
    ],
)
def test_an_address_that_takes_a_jar_is_told_with_the_setting_that_names_it(
    spark: SparkSession, place: str, said: str
) -> None:
    with pytest.raises(WarrenError, match=said):
        SparkFolder(place, spark)
