"""Checkpoints that were damaged or put back: a query refuses or repeats, and never skips."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.broker_under_test import BrokerUnderTest, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180), pytest.mark.filterwarnings("ignore")]


class Run:
    """A query over one source, and what each of its batches held the last time."""

    def __init__(self, spark: SparkSession, broker: BrokerUnderTest, kind: str, folder: Path) -> None:
        self._spark = spark
        self._broker = broker
        self._kind = kind
        self.name = broker.make("stream" if kind == "stream" else "classic")
        self.checkpoint = folder / "checkpoint"
        self.batches: dict[int, list[bytes]] = {}
        self._sent = 0

    def send(self, count: int) -> None:
        self._broker.publish(self.name, numbered(count, self._sent))
        self._sent += count

    def go(self) -> None:
        options = {"uri": self._broker.uri, self._kind: self.name, "maxOffsetsPerTrigger": "10", "timeout": "5"}
        if self._kind == "stream":
            options["startingOffsets"] = "earliest"
        frame = self._spark.readStream.format("warren").options(**options).load()
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    def _take(self, frame: DataFrame, batch: int) -> None:
        self.batches[batch] = [bytes(row.body) for row in frame.select("body").collect()]

    def read(self) -> list[int]:
        return sorted(int(body) for batch in self.batches.values() for body in batch)

    def newest(self, kind: str) -> Path:
        return max((self.checkpoint / kind).glob("[0-9]*"), key=lambda path: int(path.name))


@pytest.fixture(params=["stream", "queue"])
def run(request: pytest.FixtureRequest, spark: SparkSession, warren: BrokerUnderTest, tmp_path: Path) -> Iterator[Run]:
    started = Run(spark, warren, request.param, tmp_path)
    started.send(25)
    started.go()
    assert started.read() == list(range(25))
    assert len(started.batches) == 3
    yield started


def test_without_its_last_commit_a_batch_is_repeated_or_refused(run: Run) -> None:
    before = dict(run.batches)
    last = run.newest("commits")
    for path in (last, last.with_name(f".{last.name}.crc")):
        path.unlink(missing_ok=True)
    run.send(5)
    if run._kind == "queue":
        # Settled after the commit that is now missing: it cannot come again, and must not be passed over in silence.
        with pytest.raises(Exception, match="are gone before they were read"):
            run.go()
        return
    run.go()
    assert run.batches[2] == before[2]
    assert run.read() == list(range(30))


def test_a_cut_offset_file_is_refused(run: Run) -> None:
    last = run.newest("offsets")
    last.write_text("v1\n")
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    run.send(5)
    with pytest.raises(Exception):  # noqa: B017 - whatever Spark says
        run.go()
    assert run.read() == list(range(25))


def test_a_checkpoint_that_was_put_back_repeats_and_skips_nothing(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.checkpoint, tmp_path / "copy")
    run.send(20)
    run.go()
    shutil.rmtree(run.checkpoint)
    shutil.copytree(tmp_path / "copy", run.checkpoint)
    run.send(15)
    run.go()
    # Of a stream batches 3 to 6 are read anew; of a queue what was settled stays settled, and its batches are replaced.
    seen = set(run.read())
    assert set(range(45, 60)) <= seen
    assert run._kind == "queue" or seen == set(range(60))
