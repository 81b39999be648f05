"""What the generator knows without decoding: deliveries by their length, confirms by their tags, times by buckets."""

from __future__ import annotations

import random
import struct

import pytest

from warren.amqp.frames import content_frames
from warren.amqp.methods import BasicCancel, BasicDeliver, BasicPublish, ChannelClose, Method
from warren.amqp.properties import Properties
from warren.amqp.replies import ack, nack
from warren.client.session import Session, frame_of
from warren.errors import WarrenError
from warren.perf.batches import Batch
from warren.perf.confirms import ConfirmTimes
from warren.perf.deliveries import BUFFER_BYTES, DeliveryCounter
from warren.perf.histogram import Histogram


def delivery(tag: int, body: bytes = b"hello", key: str = "key", frame_max: int = 4096) -> bytes:
    deliver = BasicDeliver(consumer_tag="000", delivery_tag=tag, redelivered=False, exchange="", routing_key=key)
    return frame_of(deliver) + content_frames(1, b"\0\0", body, frame_max)


def read(counter: DeliveryCounter, data: bytes) -> int:
    """As the consumer does: no more at a time than there is room for."""
    total = 0
    while data:
        room = counter.room()
        piece, data = data[: len(room)], data[len(room) :]
        room[: len(piece)] = piece
        whole = counter.received(len(piece))
        counter.drop(whole)
        total += whole
    return total


@pytest.mark.parametrize("size", [0, 1, 16, 4088, 4089, 20_000])
def test_deliveries_in_pieces_of_any_size_are_all_counted(size: int) -> None:
    data = b"".join(delivery(tag, b"x" * size) for tag in range(1, 301))
    pieces = random.Random(size)
    counter = DeliveryCounter()
    at = total = 0
    while at < len(data):
        piece = data[at : at + pieces.choice((1, 7, 100, 5000, 60_000))]
        total += read(counter, piece)
        at += len(piece)
    assert total == counter.count == 300


def test_a_delivery_larger_than_the_buffer_is_counted() -> None:
    counter = DeliveryCounter()
    body = b"x" * (3 * BUFFER_BYTES)
    assert read(counter, delivery(1, body, frame_max=131072) + delivery(2, body, frame_max=131072)) == 2


def test_a_delivery_that_is_missing_is_noticed() -> None:
    counter = DeliveryCounter()
    read(counter, delivery(1))
    with pytest.raises(WarrenError, match="not equally long"):
        read(counter, delivery(3) + delivery(4))


def test_deliveries_of_another_length_are_noticed() -> None:
    counter = DeliveryCounter()
    read(counter, delivery(1))
    with pytest.raises(WarrenError, match="not equally long"):
        read(counter, delivery(2, key="a longer key") + delivery(3))


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (ChannelClose(404, "NOT_FOUND - no queue"), "404 NOT_FOUND - no queue"),
        (BasicCancel("000"), "unexpected basic.cancel"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 10])
def test_what_is_no_delivery_is_told(method: Method, reason: str, before: int) -> None:
    counter = DeliveryCounter()
    with pytest.raises(WarrenError, match=reason):
        read(counter, b"".join(delivery(tag) for tag in range(1, before + 1)) + frame_of(method))
        counter.explain()


def test_times_are_read_where_publishers_put_them() -> None:
    batch = Batch("", ["key"], 16, [Properties()], 4096)
    batch.stamp(0, 2, 123_456_789)
    counter = DeliveryCounter()
    publish = len(frame_of(BasicPublish(exchange="", routing_key="key")))
    messages = [bytes(batch.view[at + publish : at + batch.stride]) for at in range(0, 3 * batch.stride, batch.stride)]
    deliver = [BasicDeliver(consumer_tag="0", delivery_tag=tag, routing_key="key") for tag in (1, 2, 3)]
    data = b"".join(frame_of(method) + content for method, content in zip(deliver, messages, strict=True))
    counter.room()[: len(data)] = data
    assert counter.received(len(data)) == 3
    assert counter.sent_times(3) == [123_456_789, 123_456_789, struct.unpack("<q", b"x" * 8)[0]]


def test_a_batch_holds_whole_messages_for_every_key() -> None:
    keys = [f"dev.{number:06d}" for number in range(5000)]
    batch = Batch("exchange", keys, 10, [Properties(delivery_mode=2)], 4096)
    assert len(batch.data) == batch.count * batch.stride
    assert batch.count == 5000
    assert all(key.encode() in batch.data for key in keys)


def confirmed(confirms: ConfirmTimes, *frames: bytes) -> int:
    confirms.feed(b"".join(frames), 10)
    return confirms.count


def test_confirms_are_counted_single_and_multiple() -> None:
    confirms = ConfirmTimes(Session())
    confirms.sent(10, 1)
    confirms.sent(20, 2)
    assert confirmed(confirms, ack(1, 1, False)) == 1
    assert confirmed(confirms, ack(1, 12, True)) == 12
    assert confirmed(confirms, ack(1, 20, True)) == 20
    assert confirms.waits.total == 20
    assert confirms.waits.largest == 9


def test_confirms_out_of_order_are_counted_once() -> None:
    confirms = ConfirmTimes(Session())
    confirms.sent(9, 0)
    assert confirmed(confirms, ack(1, 5, False), ack(1, 3, False)) == 2
    assert confirmed(confirms, ack(1, 4, True)) == 5
    assert confirmed(confirms, ack(1, 7, False), ack(1, 6, False), ack(1, 9, True)) == 9
    assert confirms.waits.total == 9


def test_confirms_in_any_order_and_any_pieces_are_counted() -> None:
    for seed in range(50):
        chance = random.Random(seed)
        tags = list(range(1, 101))
        chance.shuffle(tags)
        data = b"".join(ack(1, tag, False) for tag in tags)
        confirms = ConfirmTimes(Session())
        for last in range(10, 101, 10):
            confirms.sent(last, 0)
        while data:
            cut = chance.randrange(1, 60)
            confirms.feed(data[:cut], 1)
            data = data[cut:]
        assert (confirms.count, confirms.waits.total) == (100, 100)


def test_a_nack_and_a_close_are_told() -> None:
    for frame, reason in (
        (nack(1, 1, False), "refused a message"),
        (frame_of(ChannelClose(404, "NOT_FOUND")), "404 NOT_FOUND"),
    ):
        confirms = ConfirmTimes(Session())
        confirms.sent(2, 0)
        confirms.feed(frame[:10], 1)
        with pytest.raises(WarrenError, match=reason):
            confirms.feed(frame[10:], 1)


def test_percentiles_are_off_by_less_than_a_part() -> None:
    histogram = Histogram()
    for value in range(1, 100_001):
        histogram.add(value)
    for share in (0.01, 0.5, 0.99, 0.999):
        assert histogram.percentile(share) == pytest.approx(share * 100_000, rel=1 / 64)
    assert histogram.figures()["max_us"] == 100.0


def test_histograms_add_up() -> None:
    one, other, both = Histogram(), Histogram(), Histogram()
    for value in range(1000):
        (one if value % 3 else other).add(value, 2)
        both.add(value, 2)
    one.merge(other)
    assert (one.total, one.figures()) == (2000, both.figures())
