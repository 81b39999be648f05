"""What the writers of tables have in common: which query writes, and how many rows its executors have written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from warren.spark.folders import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def query_id(checkpoint: Folder) -> str:
    """Spark's own, which lasts as long as the checkpoint; a new checkpoint is a new writer."""
    return str(json.loads(checkpoint.read("metadata") or "{}")["id"])


def write_rows(frame: DataFrame, place: str, partition_by: tuple[str, ...]) -> int:
    """As Parquet files. The executors count while they write: to read what was written would not tell what is lost."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    counted = Observation()
    frame = frame.observe(counted, f.count(f.lit(1)).alias("rows"))
    frame.write.mode("overwrite").option("compression", "zstd").partitionBy(*partition_by).parquet(place)
    return int(counted.get["rows"])
