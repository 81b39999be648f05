"""The life of a pipeline: declares, starts its queries in order, watches them, starts again what failed, stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError, Py4JNetworkError

from warren.errors import WarrenError
from warren.spark.pipelines.describe import describe_sink, describe_source
from warren.spark.pipelines.draw_svg import edges
from warren.spark.pipelines.graph import needs_of, order_of_sinks, queues_read, sources_of
from warren.spark.pipelines.model import Definition
from warren.spark.pipelines.progress import QueryStatus, rows_of
from warren.spark.pipelines.reporter import Reporter
from warren.spark.pipelines.state import State, Status
from warren.spark.spark_errors import one_line, told_in_one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Watcher = Callable[[Status], None]
STEP_SECONDS: Final = 0.5
# Somebody waits for the end of a run that has one.
STEP_SECONDS_ONCE: Final = 0.1
DEPTH_SECONDS: Final = 2.0
# A batch under way may end by itself, so that nothing needs to be done again.
GRACE_SECONDS: Final = 20.0
PAUSE_MAX: Final = 60.0
ATTEMPTS_ONCE: Final = 3
REPORT_SECONDS: Final = 2.0
# A query that ran so long is taken as recovered: its attempts count anew.
RECOVERED_SECONDS: Final = 120.0
# Mistakes in the pipeline itself: the next attempt would meet them again.
_HOPELESS: Final = (
    "AnalysisException",
    "IllegalArgumentException",
    "PYTHON_DATA_SOURCE_ERROR",
    "ParseException",
    # on-error: fail
    "USER_RAISED_EXCEPTION",
    "requirement failed",
)


def run(
    definition: Definition,
    once: bool = False,
    spark: SparkSession | None = None,
    master: str | None = None,
    watch: Watcher | None = None,
) -> Status:
    """The last status. Raises when a query has failed for good."""
    with State(definition.folder) as state:
        # That of the run before; whoever writes to it now goes on at its end.
        state.log_file.write_bytes(b"")
        runner = Runner(definition, state, once, watch)
        try:
            return runner.run(spark, master)
        finally:
            runner.signals.give_back()


def session_of(definition: Definition, master: str | None = None) -> SparkSession:
    from warren.spark.spark_session import session

    # A message that divides by zero must not stop the query: it makes a NULL, which an expectation can catch.
    conf: dict[str, object] = {"spark.sql.ansi.enabled": "false", "spark.ui.enabled": "false"}
    conf.update(definition.spark)
    return session(f"warren pipeline {definition.name}", master or definition.master or None, **conf)


class Runner:
    def __init__(self, definition: Definition, state: State, once: bool, watch: Watcher | None) -> None:
        self._definition = definition
        self._state = state
        self._once = once
        self._watch = watch
        self._is_asked_to_stop = threading.Event()
        self.signals = Signals(self._is_asked_to_stop.set)
        self._started_at = round(time.time() * 1000)
        self._measured_at = 0.0
        self._reported_at = 0.0
        self._told = ""
        self._master = definition.master
        self._queries = {
            name: _Query(
                QueryStatus(
                    name,
                    [source.name for source in sources_of(definition, definition.sinks[name].origin)],
                    describe_sink(definition.sinks[name]),
                )
            )
            for name in order_of_sinks(definition)[0]
        }
        self._reporter = Reporter(definition.api, _vhost_of(definition.broker), definition.name)

    def run(self, spark: SparkSession | None, master: str | None) -> Status:
        self.signals.take()
        self._tell("starting")
        own = None
        try:
            self._declare()
            if spark is None:
                own = spark = session_of(self._definition, master)
                self._master = str(spark.conf.get("spark.master", self._master))
                self.signals.take()
            self._live(spark)
        except Py4JNetworkError as error:
            # A signal to the whole group, as a terminal or a supervisor sends it, ends the JVM as well.
            if not self._is_asked_to_stop.is_set():
                self._tell("failed", "Spark ended while the pipeline was running")
                raise WarrenError("Spark ended while the pipeline was running") from error
            self._tell("stopped")
        except BaseException as error:
            self._tell("failed", one_line(error))
            raise
        finally:
            self._reporter.close()
            with suppress(Py4JError, OSError):
                for query in self._queries.values():
                    query.stop()
                if own is not None:
                    own.stop()
        return self._state.read() or {}

    def _declare(self) -> None:
        from warren.spark.pipelines.topology import declare

        if any(each.kind.is_of_broker for each in self._definition.sources.values()) or any(
            each.kind.is_of_broker for each in self._definition.sinks.values()
        ):
            declare(self._definition)

    def _live(self, spark: SparkSession) -> None:
        waiting = list(self._queries)
        # Whoever waits for the end of a run wants to know soon.
        attempts = min(self._definition.restart.attempts, ATTEMPTS_ONCE if self._once else 1000)
        while True:
            self._start_what_may(spark, waiting)
            for query in self._queries.values():
                trace = query.look(attempts, self._definition.restart.seconds)
                if trace:
                    self._state.note_trace(trace)
            self._measure_queues()
            states = {query.status.state for query in self._queries.values()}
            if self._is_asked_to_stop.is_set() or "failed" in states or states == {"finished"}:
                break
            self._tell("running")
            self._is_asked_to_stop.wait(STEP_SECONDS_ONCE if self._once else STEP_SECONDS)
        self._end()

    def _measure_queues(self) -> None:
        """Spark does not know how long a queue is; a stream's reader tells it."""
        from warren.spark.pipelines.topology import depth_of

        if time.monotonic() < self._measured_at + DEPTH_SECONDS:
            return
        self._measured_at = time.monotonic()
        for name, query in self._queries.items():
            queues = queues_read(self._definition, self._definition.sinks[name])
            if queues and query.status.state in ("running", "finished"):
                query.status.lag = depth_of(self._definition.broker, queues)

    def _start_what_may(self, spark: SparkSession, waiting: list[str]) -> None:
        from warren.spark.pipelines.writers import start

        for name in list(waiting):
            if self._once and not self._is_ready(name):
                continue
            waiting.remove(name)
            sink = self._definition.sinks[name]
            self._queries[name].start(partial(start, spark, self._definition, sink, self._once))
        for query in self._queries.values():
            query.restart_if_due()

    def _is_ready(self, name: str) -> bool:
        """With `once` a query waits until those that write what it reads have worked off everything."""
        needs = needs_of(self._definition, self._definition.sinks[name])
        return all(self._queries[other].status.state == "finished" for other in needs)

    def _end(self) -> None:
        failed = [query.status for query in self._queries.values() if query.status.state == "failed"]
        for query in reversed(self._queries.values()):
            query.stop()
        if failed:
            raise WarrenError(
                f'query "{failed[0].name}" failed: {failed[0].last_error}; the trace is in {self._state.log_file}'
            )
        self._tell("stopped" if self._is_asked_to_stop.is_set() else "finished")

    def _tell(self, state: str, error: str | None = None) -> None:
        definition = self._definition
        queries = [query.status.as_data() for query in self._queries.values()]
        lags = [query["lag"] for query in queries if query["lag"] is not None]
        status: Status = {
            "name": definition.name,
            "file": definition.file,
            "state": state,
            "error": error or next((query["last_error"] for query in queries if query["last_error"]), None),
            "source": ", ".join(describe_source(each) for each in definition.sources.values()),
            "sink": ", ".join(query["sink"] for query in queries),
            "rows": sum(query["rows"] for query in queries),
            "rows_per_second": round(sum(query["rows_per_second"] for query in queries), 1),
            "lag": sum(lags) if lags else None,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "master": self._master,
            "once": self._once,
            "started_at": self._started_at,
            "updated_at": round(time.time() * 1000),
            "folder": str(definition.folder),
            "graph": _graph(definition),
            "queries": queries,
            "report_error": self._reporter.last_error,
        }
        self._state.write(status)
        if state != self._told or time.monotonic() > self._reported_at + REPORT_SECONDS:
            self._told, self._reported_at = state, time.monotonic()
            self._reporter.report(status)
        if self._watch is not None:
            self._watch(status)


class _Query:
    def __init__(self, status: QueryStatus) -> None:
        self.status = status
        self._make: Callable[[], StreamingQuery] | None = None
        self._running: StreamingQuery | None = None
        self._started_at = 0.0
        self._due_at = 0.0
        self._attempts = 0

    def start(self, make: Callable[[], StreamingQuery]) -> None:
        self._make = make
        with told_in_one_line(f'query "{self.status.name}"'):
            self._running = make()
        self._started_at = time.monotonic()
        self.status.state = "running"

    def look(self, attempts: int, pause: float) -> str:
        """Take what is new, and decide what an end means. All that is known of a failure, or nothing."""
        if self._running is None:
            return ""
        is_active = self._running.isActive
        for progress in self._running.recentProgress:
            self._take(progress)
        if is_active:
            return ""
        error = self._running.exception()
        self._running = None
        if error is None:
            self.status.state = "finished"
            return ""
        self.status.last_error = one_line(error)
        if time.monotonic() - self._started_at > RECOVERED_SECONDS:
            self._attempts = 0
        if self._attempts >= attempts or any(mark in str(error) for mark in _HOPELESS):
            self.status.state = "failed"
            return str(error)
        self.status.state = "restarting"
        self._due_at = time.monotonic() + min(PAUSE_MAX, pause * 2**self._attempts)
        self._attempts += 1
        return str(error)

    def restart_if_due(self) -> None:
        if self.status.state != "restarting" or time.monotonic() < self._due_at or self._make is None:
            return
        self.status.restarts += 1
        try:
            self.start(self._make)
        except WarrenError as error:
            # The broker is still away: as if it had started and failed.
            self.status.last_error = one_line(error)
            self._due_at = time.monotonic() + PAUSE_MAX

    def stop(self) -> None:
        if self._running is None:
            return
        deadline = time.monotonic() + GRACE_SECONDS
        while self._running.isActive and self._running.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.05)
        self._running.stop()
        for progress in self._running.recentProgress:
            self._take(progress)
        self._running = None
        self.status.state = "stopped"

    def _take(self, progress: object) -> None:
        data = json.loads(progress.json) if hasattr(progress, "json") else progress
        assert isinstance(data, dict)
        if data["batchId"] > self.status.batch or not rows_of(data):
            self.status.take(data)


def _graph(definition: Definition) -> dict[str, object]:
    nodes: list[dict[str, str]] = [
        {"id": f"source:{each.name}", "kind": "source", "name": each.name, "what": describe_source(each)}
        for each in definition.sources.values()
    ]
    nodes += [{"id": f"view:{name}", "kind": "view", "name": name, "what": "SQL"} for name in definition.views]
    nodes += [
        {"id": f"sink:{each.name}", "kind": "sink", "name": each.name, "what": describe_sink(each)}
        for each in definition.sinks.values()
    ]
    return {"nodes": nodes, "edges": [list(edge) for edge in edges(definition)]}


def _vhost_of(broker: str) -> str:
    from warren.client.address import parse_uri

    return parse_uri(broker).vhost


class Signals:
    """SIGTERM and Ctrl-C ask to stop; a second one ends at once. Nothing where a test runs us in a thread."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._is_ours = threading.current_thread() is threading.main_thread()
        self._before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def take(self) -> None:
        """Again after Spark has started, because it takes Ctrl-C for itself."""
        if self._is_ours:
            for number in self._before:
                signal.signal(number, self._ask)

    def give_back(self) -> None:
        if self._is_ours:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:
        self.give_back()
        self._stop()
