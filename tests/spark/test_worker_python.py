"""Processes that Spark starts by the dozen take pyspark from where it is compiled, and import what they need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pyarrow as pa
import pytest

from tests.faults.kill9_broker import environment
from tests.spark.broker_under_test import BrokerUnderTest
from warren.spark.options import write_options
from warren.spark.pipelines.publish_step import PublishStep
from warren.spark.spark_session import prepare_environment
from warren.spark.worker_python import worker_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def test_the_archives_of_spark_are_left_out_and_nothing_else() -> None:
    entries = ["/spark/python/lib/pyspark.zip", "/mine", "/spark/lib/py4j-0.10-src.zip", "/jars/spark-core_2.13.jar"]
    script = "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1])"
    command = [worker_python(), "-c", script, "an argument"]
    given = {**os.environ, "PYTHONPATH": os.pathsep.join([*entries, "/yours"])}
    assert subprocess.check_output(command, env=given, text=True) == "/mine:/yours an argument\n"


def test_a_process_of_the_source_does_not_import_pandas() -> None:
    # It would take as long as all else together, for each query anew.
    script = "import pyspark_warren, sys; print('pandas' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script], env=environment(), text=True) == "False\n"


READ_AND_PUBLISH = """
import sys
from warren.spark.batch import BatchReader
from warren.spark.options import read_options, write_options
from warren.spark.sink import publish_rows

uri, source, target = sys.argv[1:]
reader = BatchReader(read_options({"uri": uri, "stream": source}, is_streaming=False))
rows = [batch for partition in reader.partitions() for batch in reader.read(partition)]
options = write_options({"uri": uri, "exchange": "", "routingKey": target}, rows[0].schema.names)
print(publish_rows(options, "test", iter(rows)).messages, "pandas" in sys.modules)
"""


def test_to_read_and_to_publish_does_not_import_pandas(warren: BrokerUnderTest) -> None:
    source, target = warren.make(), warren.make("classic")
    warren.publish(source, [b"plain"])
    given = {"timestamp": 1_790_000_000, "priority": 3, "delivery_mode": 1, "headers": {"n": 1, "text": "x"}}
    warren.publish(source, [b"with properties"], pika.BasicProperties(content_type="text/plain", **given))
    command = [sys.executable, "-c", READ_AND_PUBLISH, warren.uri, source, target]
    assert subprocess.check_output(command, env=environment(), text=True) == "2 False\n"
    (_, _, plain), (_, properties, body) = warren.get_all(target)
    assert (plain, body) == (b"plain", b"with properties")
    headers = {name: value for name, value in properties.headers.items() if not name.startswith("x-")}
    assert (properties.content_type, {**given, "headers": headers}) == ("text/plain", given)
    assert (properties.timestamp, properties.priority, properties.delivery_mode) == (1_790_000_000, 3, 1)


def test_executors_elsewhere_have_no_such_script_and_what_was_asked_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME"):
        # So that it is as before at the end.
        monkeypatch.setenv(name, os.environ.get(name, ""))
        monkeypatch.delenv(name)
    prepare_environment(is_local=True)
    assert os.environ["PYSPARK_PYTHON"] == worker_python() != sys.executable
    prepare_environment(is_local=False)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == worker_python()
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    prepare_environment()
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


def test_a_spark_of_ones_own_keeps_its_archives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert worker_python() == sys.executable


@pytest.mark.spark
def test_workers_do_not_compile_pyspark_from_its_archive(spark: SparkSession) -> None:
    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [str(pyspark.__file__)]})

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(where, "file string").collect()
    assert Path(row.file).is_file()


@pytest.mark.spark
def test_workers_do_not_look_for_garbage_in_modules_after_each_task(
    spark: SparkSession, warren: BrokerUnderTest
) -> None:
    name = warren.make("classic")
    options = write_options({"uri": warren.uri, "exchange": "", "routingKey": name}, ["body"])

    def publish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        list(PublishStep(options, "query", 0)(batches))
        yield pa.RecordBatch.from_pydict({"kept": [gc.get_freeze_count()]})

    (row,) = spark.range(0, 1, 1, 1).selectExpr("string(id) AS body").mapInArrow(publish, "kept long").collect()
    assert row.kept > 10_000
    assert warren.count(name) == 1


@pytest.mark.spark
def test_a_worker_that_publishes_does_not_import_pandas(spark: SparkSession, warren: BrokerUnderTest) -> None:
    name = warren.make("classic")
    columns = ["body", "routing_key", "message_id", "priority", "timestamp", "headers"]
    options = write_options({"uri": warren.uri, "exchange": ""}, columns)
    rows = spark.range(0, 10, 1, 1).selectExpr(
        "string(id) AS body",
        f"'{name}' AS routing_key",
        "if(id > 5, string(id), null) AS message_id",
        "int(id) AS priority",
        "timestamp_seconds(id) AS timestamp",
        "if(id > 2, map('n', string(id)), null) AS headers",
    )

    def publish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(PublishStep(options, "query", 0)(batches))
        is_imported = "pandas" in sys.modules
        yield pa.RecordBatch.from_pydict({"messages": found[0].column(0), "is_imported": [is_imported]})

    # So that it is a process that no other test has used.
    environment_of_workers = spark.sparkContext.environment
    environment_of_workers["WARREN_TEST"] = "pandas"
    try:
        (row,) = rows.mapInArrow(publish, "messages long, is_imported boolean").collect()
    finally:
        del environment_of_workers["WARREN_TEST"]
    assert (row.messages, row.is_imported) == (10, False)
    assert warren.count(name) == 10


def test_a_process_that_is_not_sparks_own_is_left_as_it_is() -> None:
    script = (
        "from warren.spark.worker_memory import keep_modules; import gc; keep_modules(); print(gc.get_freeze_count())"
    )
    elsewhere = {name: value for name, value in environment().items() if name != "SPARK_REUSE_WORKER"}
    assert subprocess.check_output([sys.executable, "-c", script], env=elsewhere, text=True) == "0\n"
    kept = {**elsewhere, "SPARK_REUSE_WORKER": "1"}
    assert int(subprocess.check_output([sys.executable, "-c", script], env=kept, text=True)) > 1000
