"""Kills drivers, workers and brokers under streaming queries, and counts what comes out at the other end.

    python -m tests.faults.spark_kills --kills 25 --bounces 100 --workers 30 --brokers 20

Unique messages go into a stream, into queues and into files all the time; two queries write them to files by batch, and
three publish those of the stream, of a queue and of files, numbered, each to an exchange that leads to a queue, a
stream and a queue with deduplication. Drivers have one core, two or three, by which files are cut.
At the end everything is drained: each message that the broker confirmed is there once, and a batch that was repeated
had the same rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pika

from tests import quick_spark
from tests.faults.kill9_broker import ROOT, environment
from tests.faults.spark_driver import COPY, COPY_FILES, COPY_QUEUE, COPYING, QUERIES, SOURCES
from tests.faults.spark_hooks import POINTS, SABOTAGE, STRIKE, VICTIMS

# A second, to each: what a busy machine keeps up with, or draining would take longer than killing.
RATE: Final = 20
PATIENCE: Final = 600.0
# Spark gives a Python process ten seconds to start, which on a busy machine are not always enough.
OVERLOADED: Final = "waiting for the Python worker to connect back"
# Ways to break it on purpose: where each must be killed to be found out, and the one query that can tell.
SABOTAGES: Final = {
    "append": ("after-sink", "stream"),
    "settle-early": ("before-queue-is-written", "queue"),
    "unnumbered": ("after-publish", COPY),
}
# Where copies go: a queue, a stream, and a queue that knows ids.
PLAIN: Final = "plain"
LOG: Final = "log"
LOOKING_OUT: Final = "looking-out"
# What a query reads.
READ: Final = {**{source: source for source in SOURCES}, COPY: "stream", COPY_QUEUE: COPY_QUEUE, COPY_FILES: COPY_FILES}
# In a file.
LINES: Final = 5
MOST_CORES: Final = 3


@dataclass
class Report:
    seed: int = 0
    driver_kills: dict[str, int] = field(default_factory=dict)
    bounces: int = 0
    worker_kills: int = 0
    broker_kills: int = 0
    query_failures: int = 0
    confirmed: int = 0
    batches: int = 0
    # Messages that were published again, and how many of them are twice in each place.
    copies: int = 0
    doubled: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    duplicated: int = 0
    unexpected: int = 0
    differences: int = 0
    seconds: float = 0.0

    def is_good(self) -> bool:
        return self.lost + self.duplicated + self.unexpected + self.differences == 0


class Publisher(threading.Thread):
    """Numbers to the sources, each once. What was not confirmed may be there or not."""

    def __init__(self, uri: str, sources: Sequence[str], files: Path) -> None:
        super().__init__(daemon=True)
        self._uri = uri
        self._files = files
        self._lines: list[str] = []
        self._done = threading.Event()
        self.attempted: dict[str, set[str]] = {source: set() for source in sources}
        self.confirmed: dict[str, set[str]] = {source: set() for source in sources}

    def run(self) -> None:
        number = 0
        while not self._done.is_set():
            try:
                connection = pika.BlockingConnection(pika.URLParameters(self._uri))
                channel = connection.channel()
                channel.confirm_delivery()
                while not self._done.wait(1 / RATE):
                    number += 1
                    for source in self.attempted:
                        self.attempted[source].add(str(number))
                        self._publish(channel, source, str(number))
                connection.close()
            except (pika.exceptions.AMQPError, OSError):
                time.sleep(0.1)

    def _publish(self, channel: Any, source: str, number: str) -> None:
        if source == COPY_FILES:
            self._lines.append(number)
            if len(self._lines) == LINES:
                # Spark takes no notice of names that begin so, and a file must not grow under its eyes.
                fresh = self._files / f".{number}"
                fresh.write_text("\n".join(self._lines))
                fresh.rename(self._files / number)
                self.confirmed[source].update(self._lines)
                self._lines.clear()
            return
        mode = pika.BasicProperties(delivery_mode=2)
        channel.basic_publish("", f"source-{source}", number.encode(), mode)
        self.confirmed[source].add(number)

    def stop(self) -> None:
        self._done.set()
        if self.is_alive():
            self.join(30)


class World:
    """A broker that can be killed, a publisher, and a folder with checkpoints and rows."""

    def __init__(self, folder: Path, seed: int, sabotage: str = "", queries: Sequence[str] = QUERIES) -> None:
        self.folder = folder
        self.report = Report(seed)
        self._random = random.Random(seed)
        self._sabotage = sabotage
        self._queries = [SABOTAGES[sabotage][1]] if sabotage else list(queries)
        self._written = [source for source in SOURCES if source in self._queries]
        self._copying = [query for query in COPYING if query in self._queries]
        self._port = 0
        self._drivers: list[subprocess.Popen[str]] = []
        # One that bounces no more, and can drain.
        self._idle: subprocess.Popen[str] | None = None
        self.start_broker()
        self.uri = f"amqp://guest:guest@127.0.0.1:{self._port}/%2F"
        with self._channel() as channel:
            channel.queue_declare("source-stream", durable=True, arguments={"x-queue-type": "stream"})
            channel.queue_declare("source-queue", durable=True)
            channel.queue_declare(f"source-{COPY_QUEUE}", durable=True)
            looking_out = {"x-message-deduplication": True, "x-cache-size": 1_000_000}
            stream = {"x-queue-type": "stream"}
            for query in self._copying:
                channel.exchange_declare(f"{query}-copies", "fanout", durable=True)
                for name, arguments in ((PLAIN, {}), (LOG, stream), (LOOKING_OUT, looking_out)):
                    channel.queue_declare(f"{query}-{name}", durable=True, arguments=arguments)
                    channel.queue_bind(f"{query}-{name}", f"{query}-copies")
        files = folder / f"source-{COPY_FILES}"
        files.mkdir()
        self.publisher = Publisher(self.uri, list(dict.fromkeys(READ[query] for query in self._queries)), files)

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        connection = pika.BlockingConnection(pika.URLParameters(self.uri))
        try:
            yield connection.channel()
        finally:
            connection.close()

    def start_broker(self) -> None:
        command = [sys.executable, "-m", "warren", "serve", "--data-dir", str(self.folder / "broker")]
        command += ["--amqp-port", str(self._port), "--http-port", "-1", "--log-level", "error"]
        self.broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
        assert self.broker.stdout is not None
        line = self.broker.stdout.readline()
        self._port = int(line.split()[2].rpartition(":")[2])

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker.wait()
        assert self.broker.stdout is not None
        self.broker.stdout.close()
        self.report.broker_kills += 1

    def driver(self, mode: str, strike: str = "", **more: object) -> subprocess.Popen[str]:
        given = {"uri": self.uri, "folder": str(self.folder), "queries": self._queries, "mode": mode, **more}
        variables = environment(**{STRIKE: strike, VICTIMS: str(self.folder / "victims"), SABOTAGE: self._sabotage})
        with open(self.folder / "driver.log", "a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.spark_driver", json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=variables,
                cwd=ROOT,
            )
        # For whoever gives up before it ends; a JVM goes with its driver.
        self._drivers.append(process)
        return process

    def kill_driver(self, point: str) -> None:
        """At a point, or at any time."""
        # What publishes runs in processes that live for a batch or less, and count from one.
        nth = 1 if point.endswith("publish") else self._random.randint(1, 3)
        strike = "" if point == "random" else f"{point}:{nth}"
        process = self.driver("run", strike, cores=self._random.randint(1, MOST_CORES))
        assert process.stdout is not None
        if process.stdout.readline() and point == "random":
            time.sleep(self._random.uniform(0.0, 6.0))
            self._strike_down()
        code = process.wait(PATIENCE)
        if code != -signal.SIGKILL and OVERLOADED in self._log():
            self._await_end_of_jvm()
            (self.folder / "driver.log").unlink()
            self.kill_driver(point)
            return
        assert code == -signal.SIGKILL, f"the driver ended by itself: {code}\n{self._log()}"
        self._await_end_of_jvm()
        self.report.driver_kills[point] = self.report.driver_kills.get(point, 0) + 1

    def _strike_down(self) -> None:
        for pid in (self.folder / "victims").read_text().split():
            os.kill(int(pid), signal.SIGKILL)

    def _await_end_of_jvm(self) -> None:
        jvm = int((self.folder / "victims").read_text().split()[0])
        deadline = time.monotonic() + PATIENCE
        while os.path.exists(f"/proc/{jvm}") and time.monotonic() < deadline:
            time.sleep(0.05)

    def bounce(self, rounds: int, kills_workers: bool = False) -> None:
        process = self.driver("bounce", rounds=rounds, seed=self.report.seed, kills_workers=kills_workers)
        self._finish_bouncing(process)

    def bounce_on_a_broker_that_dies(self, kills: int, workers: int) -> None:
        process = self.driver(
            "bounce", seed=self.report.seed, rounds=workers, kills_workers=workers > 0, until_stop=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        for _ in range(kills):
            time.sleep(self._random.uniform(0.5, 4.0))
            self.kill_broker()
            time.sleep(self._random.uniform(0.0, 1.0))
            self.start_broker()
        (self.folder / "stop").touch()
        self._finish_bouncing(process)
        (self.folder / "stop").unlink()

    def _finish_bouncing(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        line = process.stdout.readline()
        while line and not line.startswith("{"):
            sys.stderr.write(line)
            line = process.stdout.readline()
        assert line, self._log()
        found = json.loads(line)
        self._dismiss()
        self._idle = process
        self.report.bounces += found["rounds"]
        self.report.worker_kills += found["killed"]
        self.report.query_failures += found["failures"]

    def _dismiss(self) -> None:
        if self._idle is not None:
            self._idle.communicate(timeout=PATIENCE)
            self._idle = None

    def finish(self) -> Report:
        """Drain everything and count."""
        self.publisher.stop()
        process = self._idle or self.driver("drain")
        process.communicate("drain\n", timeout=600)
        failed = process.returncode != 0
        # A query that refuses to go on has lost nothing silently, but it has not delivered either.
        if failed and not self._sabotage:
            raise AssertionError(f"draining failed:\n{self._log()}")
        report = self.report
        for source in self._written:
            rows = Counter(row for file in self._files(source) for row in file.read_text().split())
            report.batches += len(self._files(source))
            report.confirmed += len(self.publisher.confirmed[source])
            report.lost += len(self.publisher.confirmed[source] - rows.keys())
            report.unexpected += len(rows.keys() - self.publisher.attempted[source])
            report.duplicated += sum(count - 1 for count in rows.values())
        for query in self._copying:
            self._count_copies(query)
        differences = self.folder / "differences"
        report.differences = len(differences.read_text().splitlines()) if differences.exists() else 0
        return report

    def _count_copies(self, query: str) -> None:
        report, source = self.report, READ[query]
        for kind in (PLAIN, LOG, LOOKING_OUT):
            with self._channel() as channel:
                copies = Counter(self._bodies_in(channel, f"{query}-{kind}"))
            doubled = sum(count - 1 for count in copies.values())
            report.copies += len(copies)
            report.confirmed += len(self.publisher.confirmed[source])
            report.lost += len(self.publisher.confirmed[source] - copies.keys())
            report.unexpected += len(copies.keys() - self.publisher.attempted[source])
            report.doubled[kind] = report.doubled.get(kind, 0) + doubled
            report.duplicated += doubled

    def _bodies_in(self, channel: Any, name: str) -> list[str]:
        """All, of a queue or of a stream."""
        waiting = channel.queue_declare(name, passive=True).method.message_count
        if not waiting:
            return []
        channel.basic_qos(prefetch_count=1000)
        bodies: list[str] = []
        for method, _, body in channel.consume(
            name, arguments={"x-stream-offset": "first"} if name.endswith(LOG) else None, inactivity_timeout=PATIENCE
        ):
            assert method is not None, f"{len(bodies)} of {waiting} messages came from {name}"
            channel.basic_ack(method.delivery_tag)
            bodies.append(body.decode())
            if len(bodies) == waiting:
                break
        return bodies

    def _files(self, source: str) -> list[Path]:
        return [path for path in (self.folder / f"rows-{source}").iterdir() if path.suffix != ".new"]

    def _log(self) -> str:
        return (self.folder / "driver.log").read_text()[-4000:]

    def close(self) -> None:
        self.publisher.stop()
        for driver in self._drivers:
            driver.kill()
            driver.wait()
            for pipe in (driver.stdin, driver.stdout):
                assert pipe is not None
                pipe.close()
        self.broker.kill()
        self.broker.wait()
        assert self.broker.stdout is not None
        self.broker.stdout.close()


def points_of(queries: Sequence[str]) -> list[str]:
    """Where these queries can be killed: what only publishes does not pass the others."""
    only_copies = set(queries) <= set(COPYING)
    return [point for point in POINTS if point.endswith("publish") or not only_copies] + ["random"]


def run(
    kills: int = 0,
    bounces: int = 0,
    workers: int = 0,
    brokers: int = 0,
    seed: int = 1,
    sabotage: str = "",
    queries: Sequence[str] = QUERIES,
) -> Report:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="spark-kills-", ignore_cleanup_errors=True) as name:
        world = World(Path(name), seed, sabotage, queries)
        try:
            points = [SABOTAGES[sabotage][0]] if sabotage else points_of(queries)
            world.publisher.start()
            # Another one first for each seed, so that few rounds take turns too.
            for number in range(seed, seed + kills):
                world.kill_driver(points[number % len(points)])
                sys.stderr.write(f"{time.monotonic() - begin:.0f} s: {world.report.driver_kills}\n")
            if bounces:
                world.bounce(bounces)
            if brokers:
                world.bounce_on_a_broker_that_dies(brokers, workers)
            elif workers:
                world.bounce(workers, kills_workers=True)
            report = world.finish()
        finally:
            world.close()
    report.seconds = round(time.monotonic() - begin, 1)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("kills", 6), ("bounces", 10), ("workers", 0), ("brokers", 0), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--queries", nargs="+", default=QUERIES, choices=QUERIES)
    parser.add_argument("--break", dest="sabotage", default="", choices=["", *SABOTAGES])
    given = vars(parser.parse_args())
    if not quick_spark.ARCHIVE.exists():
        quick_spark.BUILD.mkdir(exist_ok=True)
        subprocess.run([sys.executable, "-m", "tests.quick_spark", str(quick_spark.ARCHIVE)], cwd=ROOT, check=True)
    quick_spark.prepare()
    report = run(**given)
    sys.stdout.write(json.dumps(asdict(report)) + "\n")
    sys.exit(not report.is_good())


if __name__ == "__main__":
    main()
