"""A master and two workers, processes and disks of their own: what is sent to them must be all that they need."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark
import pytest

from tests.faults.kill9_broker import environment
from tests.quick_spark import java_options
from tests.spark.broker_under_test import BrokerUnderTest, numbered
from warren.spark.executors import pack
from warren.spark.java import require_java

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

# The Python that ours was made from: it has neither Warren nor Arrow.
BARE_PYTHON = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")

SCRIPT = """
import sys, tempfile
from warren.errors import WarrenError
from warren.spark import Pipeline, session

uri, source, target, folder, java, master = sys.argv[1:]
conf = {"spark.ui.enabled": False, "spark.executor.extraJavaOptions": java, "spark.task.maxFailures": 1}
conf |= {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "1g"}
conf |= {"spark.archives": folder + "/warren.tar.gz#libraries", "spark.executorEnv.PYTHONPATH": "libraries"}
spark = session("cluster", master, **conf)
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

# A worker sees an empty folder where the driver has its own, as on another machine.
APART = 'mount -t tmpfs none "$0" && cd "$0" && exec "$@"'


@pytest.mark.long
def test_queries_run_on_a_cluster_that_has_only_spark_and_notice_that_executors_share_no_folder(
    warren: BrokerUnderTest, tmp_path: Path
) -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("needs the right to make mount namespaces")
    if subprocess.run([BARE_PYTHON, "-c", "import warren"], capture_output=True, cwd="/").returncode == 0:
        pytest.skip(f"{BARE_PYTHON} has Warren already, so that nothing would be shown")
    source, target = warren.make(), warren.make()
    warren.publish(source, numbered(1000))
    pack(tmp_path / "warren.tar.gz")
    with ExitStack() as cluster:
        master = cluster.enter_context(started_master(tmp_path))
        for number in range(2):
            cluster.enter_context(started_worker(tmp_path, number, master))
        given = [warren.uri, source, target, str(tmp_path), java_options(), master]
        command = [sys.executable, "-c", SCRIPT, *given]
        driver = {**environment(), "PYSPARK_PYTHON": str(BARE_PYTHON), "SPARK_LOCAL_IP": "127.0.0.1"}
        run = subprocess.run(command, capture_output=True, text=True, timeout=350, env=driver, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-3000:]
    counts, rows, letters = run.stdout.splitlines()
    assert counts.split() == ["1000", "1000", "2"]
    assert f"1000 rows were written to {tmp_path}/apart/table and 0 are there: driver and executors must" in rows
    assert f"{tmp_path}/apart/misfits is not shared: the executor on " in letters
    assert not list((tmp_path / "apart").rglob("*.parquet"))


@contextmanager
def started_master(folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    with started(folder / "master.log", [], arguments, "I have been elected leader"):
        yield f"spark://127.0.0.1:{port}"


@contextmanager
def started_worker(folder: Path, number: int, master: str) -> Iterator[None]:
    log = folder / f"worker{number}.log"
    arguments = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
    arguments += ["--work-dir", f"{folder}/work", master]
    apart = ["unshare", "-m", "sh", "-c", APART, str(folder)]
    with started(log, apart, arguments, "Successfully registered with master"):
        yield


@contextmanager
def started(log: Path, before: list[str], arguments: list[str], sign: str) -> Iterator[None]:
    home = Path(str(pyspark.__file__)).parent
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON", "SPARK"))}
    given |= {"JAVA_HOME": str(require_java().home), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    given |= {"SPARK_DAEMON_JAVA_OPTS": java_options(), "SPARK_DAEMON_MEMORY": "256m"}
    command = [*before, str(home / "bin" / "spark-class"), *arguments, "--webui-port", "0"]
    with log.open("w") as written:
        process = subprocess.Popen(command, stdout=written, stderr=written, env=given, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while sign not in log.read_text():
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
