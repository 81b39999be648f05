"""A pipeline in the hands of a client of Spark Connect, which has no Java of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as dataset
import pytest

from tests.faults.kill9_broker import environment
from tests.spark.broker_under_test import BrokerUnderTest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
from warren.spark import Pipeline
from warren.spark.spark_session import prepare_environment

uri, stream, folder = sys.argv[1:]
prepare_environment()
spark = SparkSession.builder.remote("local[2]").getOrCreate()
pipeline = Pipeline("connected", broker=uri, folder=folder + "/state", dead_letters={"queue": stream + ".dead"})
pipeline.source("orders", stream=stream, schema="infer", expect={"few": "coalesce(id, 0) < 10"})
pipeline.sink("files", "orders", parquet=folder + "/table")
status = pipeline.run(once=True, spark=spark)
print(json.dumps([(query["name"], query["rows"], query["misfits"], query["lag"]) for query in status["queries"]]))
spark.stop()
"""


def test_a_pipeline_runs_over_a_session_of_connect(warren: BrokerUnderTest, tmp_path: Path) -> None:
    stream = warren.make()
    warren.publish(stream, [json.dumps({"id": number}).encode() for number in range(11)])
    command = [sys.executable, "-c", SCRIPT, warren.uri, stream, str(tmp_path)]
    # As warren.spark.session does it: the machine's name need not resolve.
    given = {**environment(), "SPARK_LOCAL_IP": "127.0.0.1"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=220, env=given, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-3000:]
    assert json.loads(run.stdout.splitlines()[-1]) == [["files", 11, 1, 0]]
    table = dataset.dataset(tmp_path / "table", format="parquet").to_table()
    assert sorted(table.column("id").to_pylist()) == list(range(10))
    assert warren.count(f"{stream}.dead") == 1
