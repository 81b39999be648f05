"""Lets Spark start in a third of the time where tests start it again and again.

    python -m tests.quick_spark FILE

writes an archive of the classes that Java has loaded after a few queries; later ones take them from there instead of
from a hundred jars. Without the file Spark only takes longer.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUILD: Final = Path(__file__).parents[1] / "build"
ARCHIVE: Final = BUILD / "spark-classes.jsa"
# The quick compiler and the simple collector halve the start, and tests are over before more would pay.
OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
# Nobody looks at it, and it is a web server.
NO_PAGE: Final = "-Dspark.ui.enabled=false"
# What Spark's launcher hands to every Java that it starts for a driver.
VARIABLE: Final = "SPARK_SUBMIT_OPTS"
_COLUMNS: Final = "key long, id long, text string, n long"


def java_options(archive: Path = ARCHIVE) -> str:
    return f"{OPTIONS} -XX:SharedArchiveFile={archive}" if archive.exists() else OPTIONS


def prepare() -> None:
    """For all that this process and those below it start."""
    os.environ[VARIABLE] = f"{java_options()} {NO_PAGE}"


def write_archive(archive: Path) -> None:
    """Java writes it when it ends."""
    os.environ[VARIABLE] = f"{OPTIONS} -XX:ArchiveClassesAtExit={archive}"
    from warren.spark import session

    spark = session("classes", "local[2]", **{"spark.ui.enabled": False})
    with tempfile.TemporaryDirectory() as folder:
        table = spark.range(1000).selectExpr("id", "id % 7 as key", "string(id) as text")
        table.write.parquet(f"{folder}/table")
        read = spark.read.parquet(f"{folder}/table")
        read.join(read.groupBy("key").count(), "key").mapInArrow(lambda batches: batches, _COLUMNS).count()
        arriving = spark.readStream.schema("id long, key long, text string").parquet(f"{folder}/table")
        writer = arriving.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        writer.foreachBatch(_count).trigger(availableNow=True).start().awaitTermination()
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    process.stdin.close()
    process.wait(120)


def _count(frame: DataFrame, batch: int) -> None:
    frame.count()


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]))
