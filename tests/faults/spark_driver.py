"""A driver to be killed: two queries, of a stream and of a queue, each into files that are named after their batches,
and three that publish what is in a stream, in a queue and in files, numbered, to queues and a stream.

    python -m tests.faults.spark_driver '{"uri": ..., "folder": ..., "mode": "run" | "drain" | "bounce", ...}'

`queries` names those that are wanted, if not all; `cores`, which files are cut by, are 2 unless said.
A batch that is repeated replaces its file, and must hold the same rows: otherwise `differences` says so.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.faults.spark_hooks import (
    SABOTAGE,
    HookedBatches,
    HookedNowhere,
    HookedSource,
    HookedStreamStep,
    await_file,
    mark,
    settles_early,
    strike,
)
from warren.spark import session
from warren.spark.folders import LocalFolder
from warren.spark.options import write_options
from warren.spark.pipelines.publish_step import SUMMARY
from warren.spark.pipelines.row_order import RowOrder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# What is written to files, each by a query of its own, and what is published again.
SOURCES: Final = ("stream", "queue")
COPY: Final = "copy"
COPY_QUEUE: Final = "copy-queue"
COPY_FILES: Final = "copy-files"
COPYING: Final = (COPY, COPY_QUEUE, COPY_FILES)
QUERIES: Final = (*SOURCES, *COPYING)
# Small, so that there are many to be killed in, and large when it is only about getting to the end.
BATCH: Final = 40
LAST_BATCH: Final = 5000
BATCH_FILES: Final = 4
PATIENCE: Final = 60.0
# What Spark says of a query whose sources are not there yet.
INITIALIZING: Final = "Initializing sources"


class Driver:
    def __init__(self, given: dict[str, Any]) -> None:
        self._uri = str(given["uri"])
        self._folder = Path(given["folder"])
        self._queries: list[str] = given.get("queries", QUERIES)
        self._spark = session("faults", f"local[{given.get('cores', 2)},4]", **{"spark.ui.enabled": False})
        for source in (HookedSource, HookedNowhere):
            self._spark.dataSource.register(source)
        process = self._spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        (self._folder / "victims").write_text(f"{process.pid} {os.getpid()}")
        self.jvm = int(process.pid)

    def start(self, query: str, now: bool = False) -> StreamingQuery:
        writer = self._writer_of(query, now).option("checkpointLocation", str(self._folder / f"checkpoint-{query}"))
        return (writer.trigger(availableNow=True) if now else writer.trigger(processingTime="0 seconds")).start()

    def _writer_of(self, query: str, now: bool) -> DataStreamWriter:
        if query == COPY_FILES:
            return self._copy_of_files(now)
        return self._copy_of_messages(query, now) if query in COPYING else self._files_of(query, now)

    def _files_of(self, source: str, now: bool) -> DataStreamWriter:
        most = str(LAST_BATCH if now else BATCH)
        options = {"uri": self._uri, source: f"source-{source}", "maxOffsetsPerTrigger": most, "timeout": "10"}
        if source == "stream":
            options |= {"startingOffsets": "earliest", "minPartitions": "2"}
        frame = self._spark.readStream.format("hooked").options(**options).load()
        return frame.writeStream.foreachBatch(self._sink(source))

    def _copy_of_messages(self, query: str, now: bool) -> DataStreamWriter:
        """From the stream, or the queue, to an exchange."""
        options = {"uri": self._uri, "timeout": "10", "maxOffsetsPerTrigger": str(LAST_BATCH if now else BATCH)}
        if query == COPY:
            options |= {"stream": "source-stream", "startingOffsets": "earliest", "minPartitions": "2"}
        else:
            options |= {"queue": f"source-{query}"}
        frame = self._spark.readStream.format("warren").options(**options).load()
        copied, copy_options = frame.select("body"), self._options_of_copy(query)
        if query == COPY:
            return copied.writeStream.format("hooked").options(**copy_options)
        # As a pipeline does it, whose sink is none that could be killed in.
        step = HookedStreamStep(write_options(copy_options, copied.columns))
        return copied.mapInArrow(step, SUMMARY).writeStream.format(HookedNowhere.name())

    def _copy_of_files(self, now: bool) -> DataStreamWriter:
        reader = self._spark.readStream.option("maxFilesPerTrigger", LAST_BATCH if now else BATCH_FILES)
        frame = reader.text(str(self._folder / f"source-{COPY_FILES}")).selectExpr("value AS body")
        checkpoint = LocalFolder(self._folder / f"checkpoint-{COPY_FILES}")
        options = write_options(self._options_of_copy(COPY_FILES), frame.columns)
        publish = HookedBatches(options, checkpoint, RowOrder.SORTED)

        def write(frame: DataFrame, batch: int) -> None:
            publish(frame, batch)
            strike("after-publish")

        return frame.writeStream.foreachBatch(write)

    def _options_of_copy(self, query: str) -> dict[str, str]:
        options = {"uri": self._uri, "exchange": f"{query}-copies", "routingKey": "", "timeout": "10"}
        return options if os.environ.get(SABOTAGE) == "unnumbered" else {**options, "publisher": "copy"}

    def start_all(self) -> list[StreamingQuery]:
        return [self.start(query) for query in self._queries]

    def _sink(self, source: str) -> Callable[[DataFrame, int], None]:
        folder = self._folder / f"rows-{source}"
        folder.mkdir(exist_ok=True)

        def write(frame: DataFrame, batch: int) -> None:
            places = frame.select("body", "offset").collect()
            rows = [bytes(row.body).decode() for row in places]
            if os.environ.get(SABOTAGE) == "append":
                # As a sink does that knows nothing of batches.
                (folder / f"{batch}-{os.getpid()}-{time.monotonic_ns()}").write_text("\n".join(rows))
                strike("after-sink")
                return
            path = folder / str(batch)
            if path.exists() and sorted(path.read_text().split()) != sorted(rows):
                with open(self._folder / "differences", "a") as file:
                    file.write(f"{source} {batch}: {len(path.read_text().split())} and {len(rows)} rows\n")
            fresh = path.with_suffix(".new")
            fresh.write_text("\n".join(rows[: len(rows) // 2]))
            strike("during-sink")
            if source == "queue" and settles_early():
                await_file(mark(f"settled-{1 + max(row.offset for row in places)}"))
                strike("before-queue-is-written")
            fresh.write_text("\n".join(rows))
            fresh.rename(path)
            strike("after-sink")

        return write

    def run(self) -> None:
        queries = self.start_all()
        say("ready")
        while all(query.isActive for query in queries):
            time.sleep(0.05)
        for query in queries:
            if query.exception() is not None:
                raise SystemExit(str(query.exception())[:2000])

    def drain(self) -> None:
        # Files twice: the first time may end with a batch that an earlier driver had planned. Side by side, because
        # each spends most of its time waiting for processes to start.
        for queries in ([query for query in self._queries if query not in COPYING], self._queries):
            for started in [self.start(query, now=True) for query in queries]:
                started.awaitTermination()

    def bounce(self, rounds: int, seed: int, kills_workers: bool, stop: Path | None) -> None:
        """Stop and start at random times, so often, and until there is a file `stop` if one is named. Failed queries
        are started again and counted."""
        random.seed(seed)
        failures = killed = done = 0
        say("ready")
        while done < rounds or (stop is not None and not stop.exists()):
            queries = self.start_all()
            # Of ten, one is stopped before it has begun.
            if random.random() < 0.9:
                wait_for_planning(queries)
            time.sleep(random.uniform(0.0, 1.5))
            if kills_workers:
                killed += kill_worker(self.jvm)
                time.sleep(random.uniform(0.0, 0.6))
            for query in queries:
                if query.exception() is not None:
                    failures += 1
                query.stop()
            done += 1
            if done % 10 == 0:
                say(f"bounced {done} times, {killed} workers killed, {failures} queries failed")
        say(json.dumps({"rounds": done, "failures": failures, "killed": killed}))
        # A driver that runs may as well drain, when whoever started it asks for it.
        if sys.stdin.readline():
            self.drain()


def wait_for_planning(queries: list[StreamingQuery]) -> None:
    """Until each has planned something, or has failed. A planner takes a second to start, on a busy machine many."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if all(not query.isActive or query.status["message"] != INITIALIZING for query in queries):
            return
        time.sleep(0.02)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def kill_worker(jvm: int) -> int:
    """One of the Python processes that the JVM has started, at any depth."""
    found = [pid for pid in descendants(jvm) if b"python" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    if not found:
        return 0
    os.kill(random.choice(found), signal.SIGKILL)
    return 1


def descendants(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def main() -> None:
    given = json.loads(sys.argv[1])
    driver = Driver(given)
    if given["mode"] == "run":
        driver.run()
    elif given["mode"] == "drain":
        driver.drain()
    else:
        stop = Path(given["folder"], "stop") if given.get("until_stop") else None
        driver.bounce(int(given["rounds"]), int(given["seed"]), bool(given.get("kills_workers")), stop)


if __name__ == "__main__":
    main()
