"""A master and two workers with executors of their own processes: what is sent to them must be all that they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.kill9_broker import environment
from tests.quick_spark import java_options
from tests.spark.broker_under_test import BrokerUnderTest, numbered
from warren.spark.java import require_java

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

SCRIPT = """
import sys, tempfile
from warren.errors import WarrenError
from warren.spark import Pipeline, session

uri, source, target, folder, java, executor_java = sys.argv[1:]
conf = {"spark.ui.enabled": False, "spark.executor.extraJavaOptions": java, "spark.task.maxFailures": 1}
conf["spark.executorEnv.JAVA_HOME"] = executor_java
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


def keep(place, **options):
    # Rows to a folder, or to one for dead letters: no body is an object.
    dead = {"dead_letters": {"parquet": place}} if options else {}
    pipeline = Pipeline("kept", broker=uri, folder=tempfile.mkdtemp(), restart={"attempts": 0}, **dead)
    pipeline.source("numbers", stream=source, **options)
    pipeline.view("bodies", "SELECT * FROM numbers" if options else "SELECT body FROM numbers")
    pipeline.sink("out", "bodies", parquet=place + "-fits" if options else place)
    try:
        pipeline.run(once=True, spark=spark)
    except WarrenError as error:
        print(error)


keep(f"{folder}/apart/table")
keep(f"{folder}/apart/misfits", schema="n BIGINT")
spark.stop()
"""

# Executors see an empty folder where the driver has its own, as on another machine.
APART = """#!/bin/sh
exec unshare -m sh -c 'mount -t tmpfs none {apart} && exec {java}/bin/java "$@"' sh "$@"
"""


def executor_java(folder: Path) -> Path:
    """A Java for executors that puts each into a mount namespace of its own."""
    apart = folder / "apart"
    (folder / "java" / "bin").mkdir(parents=True)
    apart.mkdir()
    java = folder / "java" / "bin" / "java"
    java.write_text(APART.format(apart=apart, java=require_java().home))
    java.chmod(0o755)
    return folder / "java"


def test_queries_run_on_a_cluster_and_notice_when_executors_share_no_folder(
    warren: BrokerUnderTest, tmp_path: Path
) -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("needs the right to make mount namespaces")
    source, target = warren.make(), warren.make()
    warren.publish(source, numbered(1000))
    given = [warren.uri, source, target, str(tmp_path), java_options(), str(executor_java(tmp_path))]
    command = [sys.executable, "-c", SCRIPT, *given]
    run = subprocess.run(command, capture_output=True, text=True, timeout=220, env=environment(), cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-3000:]
    counts, rows, letters = run.stdout.splitlines()
    assert counts.split() == ["1000", "1000", "2"]
    assert f"1000 rows were written to {tmp_path}/apart/table and 0 are there: driver and executors must" in rows
    assert f"{tmp_path}/apart/misfits is not shared: the executor on " in letters
    assert not list((tmp_path / "apart").rglob("*.parquet"))
