"""A Spark session with settings that suit messages. Any other session works too: Spark finds the format by itself."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from warren.errors import WarrenError
from warren.spark.java import require_java
from warren.spark.requirements import require_pyspark
from warren.spark.spark_errors import one_line
from warren.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every core, and four tries for a task: one that has lost its broker or its worker is not the end of a query.
DEFAULT_MASTER: Final = "local[*,4]"

SETTINGS: Final = {
    # A message's timestamp is a moment, and should read the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    # Ids of published messages are made of batch, partition and row: a task that runs twice at once doubles the work
    # of the broker, which has to leave out the second of each.
    "spark.speculation": "false",
    # The default one starts a process for each file of a checkpoint: 566 ms for a micro-batch instead of 323.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Options that Spark must not show in plans and logs: an address may hold a password.
    "spark.sql.redaction.options.regex": "(?i)url|uri|password",
    # Spark's log at WARN tells of much that nobody can act on.
    "spark.log.level": "ERROR",
    # The bar that Spark draws over whatever a program prints.
    "spark.ui.showConsoleProgress": "false",
}

# Of a session on this machine alone, which must not depend on the machine's name: in containers and on many a laptop it
# does not resolve, and Spark would not start.
LOOPBACK: Final = "127.0.0.1"
LOCAL_SETTINGS: Final = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    # 200 by default, which on one machine are mostly empty tasks, for every micro-batch with a state.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}


def session(app_name: str, master: str | None = None, **conf: object) -> SparkSession:
    """`conf` are settings of Spark's that win over the ones here, with dots as double underscores or in a dict:
    session("app", **{"spark.ui.enabled": False}) or session("app", spark__ui__enabled=False).

    Without a master: spark.master of the environment that spark-submit made, else all cores of this machine.
    """
    require_pyspark()
    chosen = master or (None if "PYSPARK_GATEWAY_PORT" in os.environ else DEFAULT_MASTER)
    is_local = chosen is not None and chosen.startswith("local") and not chosen.startswith("local-cluster")
    if chosen is None or not chosen.startswith("sc://"):
        prepare_environment(chosen is not None and chosen.startswith("local"))
    if chosen is not None and chosen.startswith("local"):
        # Java asks for it before it reads any setting, and so do the executors of a local-cluster.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if chosen is not None:
        builder = builder.remote(chosen) if chosen.startswith("sc://") else builder.master(chosen)
    wanted = {name.replace("__", "."): _text(value) for name, value in conf.items()}
    for name, value in {**SETTINGS, **(LOCAL_SETTINGS if is_local else {}), **wanted}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        raise WarrenError(f"Spark does not start: {one_line(error)}; `warren doctor` looks for the cause") from error


def prepare_environment(is_local: bool = True) -> None:
    """For the processes that Spark starts."""
    # Otherwise workers take the first python3 of the path, which need not have Warren, or Spark, or this version. The
    # first is for tasks, on whatever machine they are; the second for what a data source is asked, on this one.
    here = worker_python()
    for name, python in (("PYSPARK_PYTHON", here if is_local else sys.executable), ("PYSPARK_DRIVER_PYTHON", here)):
        if os.environ.get(name) in (None, here, sys.executable):
            os.environ[name] = python
    os.environ["JAVA_HOME"] = str(require_java().home)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
