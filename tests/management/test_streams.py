"""What the API shows of streams and super streams, and what it refuses to do with them."""

from __future__ import annotations

from pika.adapters.blocking_connection import BlockingChannel

from tests.management.asking import Asking

STREAM: dict[str, object] = {"x-queue-type": "stream"}


def test_a_stream_is_shown_with_its_offsets_and_readers(api: Asking, channel: BlockingChannel) -> None:
    channel.queue_declare("s", durable=True, arguments={**STREAM, "x-max-age": "7D"})
    empty = api.get("/api/queues/%2F/s").json
    assert (empty["type"], empty["messages"], empty["committed_offset"]) == ("stream", 0, -1)
    for _ in range(5):
        channel.basic_publish("", "s", b"four")
    channel.basic_qos(prefetch_count=2)
    next(channel.consume("s", arguments={"x-stream-offset": 1}))
    shown = api.get("/api/queues/%2F/s").json
    assert (shown["messages"], shown["messages_ready"], shown["message_bytes_ready"]) == (5, 5, 20)
    assert (shown["committed_offset"], shown["first_offset"], shown["segments"]) == (4, 0, 1)
    assert [reader["next_offset"] for reader in shown["readers"].values()] == [3]
    assert (shown["consumers"], shown["arguments"]) == (1, {"x-queue-type": "stream", "x-max-age": "7D"})
    assert 'queue_type="rabbit_stream_queue"' in api.get("/metrics").text
    channel.cancel()


def test_a_stream_is_declared_and_exported_and_not_purged(api: Asking, channel: BlockingChannel) -> None:
    body = {"durable": True, "arguments": {"x-queue-type": "stream"}}
    assert api.put("/api/queues/%2F/declared", body).status == 201
    exported = [queue for queue in api.get("/api/definitions").json["queues"] if queue["name"] == "declared"]
    assert [(queue["type"], queue["durable"]) for queue in exported] == [("stream", True)]
    answer = api.delete("/api/queues/%2F/declared/contents")
    assert (answer.status, "queue.purge not supported by stream queues" in answer.text) == (400, True)


def test_the_partitions_of_a_super_stream_are_told_in_order(api: Asking, channel: BlockingChannel) -> None:
    channel.exchange_declare("sales", "direct", durable=True, arguments={"x-super-stream": True})
    for number in (2, 10, 0, 1):
        name = f"sales-{number}"
        channel.queue_declare(name, durable=True, arguments=STREAM)
        channel.queue_bind(name, "sales", str(number), arguments={"x-stream-partition-order": number})
    shown = api.get("/api/exchanges/%2F/sales").json
    assert shown["partitions"] == ["sales-0", "sales-1", "sales-2", "sales-10"]
    channel.basic_publish("sales", "10", b"hello", mandatory=True)
    assert api.get("/api/queues/%2F/sales-10").json["messages"] == 1
    assert "partitions" not in api.get("/api/exchanges/%2F/amq.direct").json
