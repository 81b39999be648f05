"""Spark's source reads a stream from the followers of three real nodes, and loses nothing when one is gone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.replication.real_nodes import Certificates, Cluster, needs_etcd, wait_for
from tests.replication.test_follower_reads import Reader, api, message, publish
from warren.errors import WarrenError
from warren.spark.batch import BatchReader
from warren.spark.options import read_options
from warren.spark.partitions import RangePartition
from warren.spark.stream import StreamReader

pytestmark = [
    needs_etcd,
    pytest.mark.timeout(180),
]
COUNT = 2000


def options(cluster: Cluster, stream: str, uri: str = "") -> dict[str, str]:
    uri = uri or f"amqp://guest:guest@{cluster.leader().address}/%2F"
    return {"uri": uri, "stream": stream, "readFrom": "followers", "minPartitions": "4", "timeout": "20"}


def planned(cluster: Cluster, stream: str) -> tuple[BatchReader, list[RangePartition]]:
    """Once the leader knows of both followers that they serve."""
    found: list[RangePartition] = []
    reader = BatchReader(read_options(options(cluster, stream), is_streaming=False))

    def has_both() -> bool:
        found[:] = [each for each in reader.partitions() if isinstance(each, RangePartition)]
        return len({each.port for each in found if each.port}) == 2

    wait_for(has_both, 60, "a plan with two followers")
    return reader, found


def rows(batches: list[pa.RecordBatch]) -> dict[int, bytes]:
    table = pa.Table.from_batches(batches)
    return dict(zip(table["offset"].to_pylist(), table["body"].to_pylist(), strict=True))


HISTORY = {number: message(number) for number in range(COUNT)}


def test_tasks_read_from_followers_and_the_leader_delivers_next_to_nothing(cluster: Cluster, queue: str) -> None:
    publish(cluster, queue, range(COUNT))
    reader, partitions = planned(cluster, queue)
    assert {each.port for each in partitions} == {f"127.0.0.1:{node.stream_port}" for node in cluster.followers()}
    assert rows([batch for each in partitions for batch in reader.read(each)]) == HISTORY
    told = api(cluster.leader(), "GET", f"queues/%2F/{queue}")
    # Only who planned has asked it, for the first message and the last.
    assert told["message_stats"]["deliver"] < 100
    streaming = StreamReader(read_options(options(cluster, queue), is_streaming=True))
    batch = streaming.partitions({queue: 0}, {queue: COUNT})
    assert rows([found for each in batch for found in streaming.read(each)]) == HISTORY
    streaming.stop()


def test_a_task_whose_follower_is_gone_goes_on_with_the_next_offset(cluster: Cluster, queue: str) -> None:
    publish(cluster, queue, range(COUNT))
    reader, partitions = planned(cluster, queue)
    first, second = cluster.followers()
    Reader(first.stream_port, queue).close()
    first.kill()
    found: list[pa.RecordBatch] = []
    for each in partitions:
        if each.port.endswith(str(second.stream_port)):
            second.kill()
        found += list(reader.read(each))
    assert rows(found) == HISTORY


def test_a_query_that_speaks_tls_reads_from_followers_that_do(tmp_path: Path) -> None:
    certificates = Certificates.new(tmp_path)
    cluster = Cluster.new(tmp_path, 2, "--stream-tls", "true", *certificates.options("tls"))
    try:
        cluster.wait_in_sync(2)
        publish(cluster, "history", range(50))
        (follower,) = cluster.followers()
        uri = f"amqps://guest:guest@127.0.0.1:{cluster.leader().tls_port}/%2F?cacertfile={certificates.ca}"
        secure = BatchReader(read_options(options(cluster, "history", uri), is_streaming=False))

        def partitions(reader: BatchReader) -> list[RangePartition]:
            return [each for each in reader.partitions() if isinstance(each, RangePartition)]

        port = f"127.0.0.1:{follower.stream_port}"
        wait_for(lambda: {each.port for each in partitions(secure)} == {port}, 60, "a plan with the follower")
        found = rows([batch for each in partitions(secure) for batch in secure.read(each)])
        assert found == {number: message(number) for number in range(50)}
        # Who speaks in the clear is not sent there.
        plain = BatchReader(read_options(options(cluster, "history"), is_streaming=False))
        assert {each.port for each in partitions(plain)} == {""}
    finally:
        cluster.stop()


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(WarrenError, match="option readFrom is wrong: 'nobody' is none of leader, followers"):
        read_options({"uri": "amqp://h", "stream": "s", "readFrom": "nobody"}, is_streaming=False)
    with pytest.raises(WarrenError, match="only streams are read from followers"):
        read_options({"uri": "amqp://h", "queue": "q", "readFrom": "followers"}, is_streaming=True)
