"""A master and two workers with executors of their own processes: what is sent to them must be all that they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.kill9_broker import environment
from tests.quick_spark import java_options
from tests.spark.broker_under_test import BrokerUnderTest, numbered

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

SCRIPT = """
import sys
from warren.spark import session

uri, source, target, folder, java = sys.argv[1:]
conf = {"spark.ui.enabled": False, "spark.executor.extraJavaOptions": java}
spark = session("cluster", "local-cluster[2,1,1024]", **conf)
frame = spark.readStream.format("warren").options(
    uri=uri, stream=source, startingOffsets="earliest", minPartitions="4"
).load()
query = (
    frame.selectExpr("body", f"'{target}' as routing_key", "'' as exchange")
    .writeStream.format("warren").options(uri=uri, checkpointLocation=folder)
    .trigger(availableNow=True).start()
)
query.awaitTermination()
table = spark.read.format("warren").options(uri=uri, stream=target, minPartitions="4").load()
executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
print(table.select("body").distinct().count(), table.count(), len(executors) - 1)
spark.stop()
"""


def test_queries_run_on_a_cluster(warren: BrokerUnderTest, tmp_path: Path) -> None:
    source, target = warren.make(), warren.make()
    warren.publish(source, numbered(1000))
    command = [sys.executable, "-c", SCRIPT, warren.uri, source, target, str(tmp_path), java_options()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=220, env=environment(), cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.split() == ["1000", "1000", "2"]
