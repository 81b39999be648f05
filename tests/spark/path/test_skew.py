"""One queue with nine messages in ten: the rest is checked, routed and played beside it, and no task holds it all."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.serving import environment
from tests.spark.path.building import definitions, queue
from warren.spark.path import MessagePath

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 20_000
TASKS = 8
COLD = 40
# Waits in a queue that is played, so that it is held in memory or in a file.
MEMORY = """
import json, sys
import pyarrow as pa
from warren.spark.path.play import Player
from warren.spark.path.topology import read_topology

rows, in_memory = int(sys.argv[1]), int(sys.argv[2])
hot = {"name": "hot", "vhost": "/", "durable": True, "arguments": {"x-message-ttl": 3600000}}
topology = read_topology({"vhosts": [{"name": "/"}], "queues": [hot]}, 1 << 20)

def batches():
    for first in range(0, rows, 5000):
        numbers = range(first, first + 5000)
        same = {"component": 0, "vhost": "/", "publisher": "p", "user": "guest", "exchange": "", "routing_key": "hot",
                "mandatory": False, "body_size": 100, "at": 0, "may_refuse": False, "starts_at": 0, "ends_at": 0}
        columns = {name: pa.repeat(value, 5000) for name, value in same.items()}
        columns["message"] = columns["sequence"] = pa.array(numbers)
        columns["via"] = pa.array([[{"queue": 0, "via": 0}]] * 5000)
        yield pa.RecordBatch.from_pydict(columns)

events = sum(batch.num_rows for batch in Player(topology, None, in_memory)(batches()))
# Not getrusage: that counts the process, too, which this one was forked from.
(peak,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(json.dumps([events, int(peak.split()[1]) // 1024]))
"""


def publishes(spark: SparkSession) -> DataFrame:
    key = f"if(id % 10 < 9, 'hot', concat('cold', (id div 10) % {COLD}))"
    return spark.range(0, ROWS, 1, TASKS).selectExpr("'' as exchange", f"{key} as routing_key", "id as sequence")


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_hot_queue_serialises_neither_the_routing_nor_the_other_queues(spark: SparkSession) -> None:
    from pyspark.sql import functions as sf

    limited = [queue(f"cold{number}", x_max_length=10) for number in range(COLD)]
    result = MessagePath(definitions(queue("hot", x_max_length=100), *limited)).run(publishes(spark), partitions=TASKS)
    routed = result.routed.groupBy(sf.spark_partition_id().alias("task")).count().collect()
    # Were rows brought together by queue before they are routed, one task would have nine in ten.
    assert [row["count"] for row in routed] == [ROWS // TASKS] * TASKS
    played = result.events.where("kind = 'entered'").groupBy(sf.spark_partition_id().alias("task"), "queue").count()
    tasks: dict[int, dict[str, int]] = {}
    for row in played.collect():
        tasks.setdefault(row.task, {})[row.queue] = row["count"]
    (hot,) = [queues for queues in tasks.values() if "hot" in queues]
    assert hot["hot"] == ROWS * 9 // 10
    assert len(tasks) >= TASKS - 2
    assert len(hot) <= COLD // 2, "most other queues have a task without the hot one"
    kept = {row.queue: row["count"] for row in result.queues.groupBy("queue").count().collect()}
    assert kept == {"hot": 100, **{f"cold{number}": 10 for number in range(COLD)}}
    result.unpersist()


@pytest.mark.timeout(180)
def test_the_memory_of_a_task_does_not_grow_with_what_waits_in_a_queue() -> None:
    few, many = peak_megabytes(10_000, 2_000), peak_megabytes(45_000, 2_000)
    unbounded = peak_megabytes(45_000, 200_000)
    assert many - few < 5
    # Otherwise nothing would be shown by it.
    assert unbounded - many > 8


def peak_megabytes(rows: int, in_memory: int) -> int:
    command = [sys.executable, "-c", MEMORY, str(rows), str(in_memory)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment())
    assert run.returncode == 0, run.stderr
    events, megabytes = map(int, run.stdout.strip("[]\n").split(","))
    assert events == 2 * rows
    return megabytes
