"""kombu over py-amqp: declared entities, serializers, pools, and retries."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import kombu
import pytest
from amqp.exceptions import AccessRefused
from kombu.pools import Connections

from tests.clients.conftest import close_all
from warren import Broker

pytestmark = pytest.mark.usefixtures("leaky")


@pytest.fixture
def connection(warren_broker: Broker) -> Iterator[kombu.Connection]:
    with kombu.Connection(warren_broker.url, transport_options={"confirm_publish": True}) as opened:
        yield opened


def test_objects_travel_through_declared_entities(connection: kombu.Connection) -> None:
    exchange = kombu.Exchange("tasks", "topic", durable=True)
    queue = kombu.Queue("high", exchange, routing_key="task.#", max_priority=10)
    received: list[tuple[object, str]] = []

    def take(body: object, message: kombu.Message) -> None:
        received.append((body, message.delivery_info["routing_key"]))
        message.ack()

    with connection.Producer() as producer, connection.Consumer(queue, callbacks=[take]):
        producer.publish({"n": [1, 2]}, exchange=exchange, routing_key="task.low", declare=[queue], priority=1)
        producer.publish(b"raw", exchange=exchange, routing_key="task.high", priority=9, compression="gzip")
        while len(received) < 2:
            connection.drain_events(timeout=10)
    assert sorted(received, key=repr) == sorted([({"n": [1, 2]}, "task.low"), (b"raw", "task.high")], key=repr)


def test_what_is_not_acknowledged_comes_again(connection: kombu.Connection) -> None:
    queue = connection.SimpleQueue("simple")
    queue.put({"hello": "world"})
    first = queue.get(timeout=10)
    first.requeue()
    again = queue.get(timeout=10)
    assert (again.payload, again.delivery_info["redelivered"]) == ({"hello": "world"}, True)
    again.ack()
    assert queue.qsize() == 0
    queue.close()


def test_an_idle_consumer_times_out(connection: kombu.Connection) -> None:
    with connection.Consumer(kombu.Queue("quiet", auto_delete=True)), pytest.raises(socket.timeout):
        connection.drain_events(timeout=0.05)


def test_a_pool_survives_that_the_broker_closes_its_connections(warren_broker: Broker) -> None:
    pools = Connections(limit=2)
    with pools[kombu.Connection(warren_broker.url)].acquire(block=True) as connection:
        with connection.Producer() as producer:
            producer.publish("before", routing_key="q", declare=[kombu.Queue("q")], retry=True)
            warren_broker.call(close_all)
            producer.publish("after", routing_key="q", retry=True, retry_policy={"max_retries": 5})
        with connection.SimpleQueue("q") as queue:
            assert [queue.get(timeout=10).payload for _ in range(2)] == ["before", "after"]
        pools[connection].force_close_all()


def test_a_wrong_password_is_told_as_such(warren_broker: Broker) -> None:
    refused = kombu.Connection(warren_broker.url_of("guest", "wrong"))
    with pytest.raises(AccessRefused, match="Login was refused using authentication mechanism"):
        refused.connect()
    refused.release()
