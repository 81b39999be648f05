"""Rows that Spark cuts otherwise each time come to the sink in one order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from warren.spark.pipelines.row_order import in_one_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
COLUMNS = ("string(id % 40) AS body", "if(id % 3 = 0, NULL, map('b', string(id % 2), 'a', 'x')) AS headers")


def partitions_of(frame: DataFrame) -> list[list[str]]:
    """Each row as text, by partition."""
    found = in_one_order(frame).selectExpr("spark_partition_id() AS part", "to_json(struct(*)) AS row").collect()
    return [[row.row for row in found if row.part == part] for part in range(1 + max(row.part for row in found))]


def test_rows_make_the_same_partitions_in_the_same_order_however_they_were_cut(spark: SparkSession) -> None:
    rows = spark.range(200).selectExpr(*COLUMNS)
    expected = partitions_of(rows.repartition(1))
    assert sum(len(part) for part in expected) == 200
    assert len([part for part in expected if part]) > 1
    assert partitions_of(spark.range(199, -1, -1, 5).selectExpr(*COLUMNS)) == expected
    assert partitions_of(rows.repartition(3)) == expected


def test_files_that_are_cut_by_another_number_of_cores_make_the_same_partitions(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(1000).selectExpr("string(id) AS value").repartition(6).write.text(str(tmp_path / "in"))
    found = []
    for cores in (1, 5):
        spark.conf.set("spark.sql.files.minPartitionNum", cores)
        try:
            lines = spark.read.text(str(tmp_path / "in"))
            found.append((lines.rdd.getNumPartitions(), partitions_of(lines.selectExpr("value AS body"))))
        finally:
            spark.conf.unset("spark.sql.files.minPartitionNum")
    assert found[0][0] != found[1][0]
    assert found[0][1] == found[1][1]
