"""Alarms, as clients see them: publishers are blocked, consumers are not, and all goes on afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pika

from warren import Broker


def connect(broker: Broker) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def set_alarm(broker: Broker, name: str, is_on: bool) -> None:
    broker.call(lambda node: node.set_alarm(name, is_on))


def wait_for(connection: pika.BlockingConnection, is_so: Callable[[], object]) -> None:
    for _ in range(200):
        if is_so():
            return
        connection.process_data_events(0.05)
    raise AssertionError("it did not happen in time")


def test_a_publisher_is_blocked_at_its_first_publish_and_freed_again(warren_broker: Broker) -> None:
    with connect(warren_broker) as publisher:
        blocked: list[str] = []
        unblocked = threading.Event()
        publisher.add_on_connection_blocked_callback(lambda _, frame: blocked.append(frame.method.reason))
        publisher.add_on_connection_unblocked_callback(lambda *_: unblocked.set())
        channel = publisher.channel()
        channel.queue_declare("q")
        set_alarm(warren_broker, "memory", True)
        channel.basic_publish("", "q", b"one")
        wait_for(publisher, lambda: blocked)
        assert blocked == ["low on memory"]
        set_alarm(warren_broker, "memory", False)
        wait_for(publisher, unblocked.is_set)
        assert channel.queue_declare("q", passive=True).method.message_count == 1


def test_consumers_go_on_during_an_alarm(warren_broker: Broker) -> None:
    with connect(warren_broker) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"one")
        channel.queue_declare("q", passive=True)
        set_alarm(warren_broker, "disk", True)
        assert channel.basic_get("q", auto_ack=True)[2] == b"one"


def test_too_little_memory_raises_the_alarm_by_itself() -> None:
    with Broker(memory_high_watermark=0.000001) as broker:
        assert broker.call(lambda node: list(node.alarms)) == ["memory"]


def test_too_little_disk_raises_the_alarm_by_itself(tmp_path: object) -> None:
    with Broker(data_dir=str(tmp_path), disk_free_limit=2**62) as broker:
        assert broker.call(lambda node: list(node.alarms)) == ["disk"]
