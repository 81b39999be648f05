"""A small shop, the scene of the tests and of the pictures in the documentation: a topology, and real traffic on it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle

import pika
from pika.adapters.blocking_connection import BlockingChannel

from warren import Broker

KEYS = ("order.new", "order.paid", "mail.welcome", "order.new.audit", "order.paid", "gift.card")
QUEUES: dict[str, dict[str, object]] = {
    "orders.new": {"x-dead-letter-exchange": "dead", "x-max-length": 10_000},
    "orders.paid": {},
    "invoices": {"x-dead-letter-exchange": "dead"},
    "audit": {},
    "mail": {},
    "lost": {},
    "graveyard": {
        "x-message-ttl": 60_000,
        "x-dead-letter-exchange": "shop",
        "x-dead-letter-routing-key": "order.retry",
    },
}
BINDINGS = (
    ("orders.new", "orders", "order.new"),
    ("orders.paid", "orders", "order.paid"),
    ("invoices", "shop", "*.paid"),
    ("audit", "shop", "#.audit"),
    ("mail", "shop", "mail.*"),
    ("mail", "shop", "order.paid"),
    ("lost", "unrouted", ""),
    ("graveyard", "dead", ""),
)
# Of each round, and how long until the next: about a hundred messages a second.
ROUND = 6
PAUSE = 0.05
# Every so many a consumer gives one up, which so becomes a dead letter.
REJECTED = 40


def declare(channel: BlockingChannel) -> None:
    channel.exchange_declare("unrouted", "fanout", durable=True)
    channel.exchange_declare("shop", "topic", durable=True, arguments={"alternate-exchange": "unrouted"})
    channel.exchange_declare("orders", "direct", durable=True)
    channel.exchange_declare("dead", "fanout", durable=True)
    for name, arguments in QUEUES.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
    channel.exchange_bind("orders", "shop", "order.#")
    for queue, exchange, key in BINDINGS:
        channel.queue_bind(queue, exchange, key)


@contextmanager
def traffic(broker: Broker) -> Iterator[None]:
    """Publishes and consumes until the block ends."""
    ends = threading.Event()
    thread = threading.Thread(target=_work, args=(broker.url, ends), name="shop")
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _work(url: str, ends: threading.Event) -> None:
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": "checkout service"}
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        for queue in ("orders.new", "orders.paid", "invoices", "mail"):
            channel.basic_consume(queue, _settle)
        keys = cycle(KEYS)
        number = 0
        while not ends.is_set():
            for _ in range(ROUND):
                number += 1
                channel.basic_publish("shop", next(keys), _order(number), _properties(number))
            connection.process_data_events(0)
            ends.wait(PAUSE)


def _order(number: int) -> bytes:
    return json.dumps({"order": number, "item": "carrots", "total": number % 90 + 0.5}).encode()


def _properties(number: int) -> pika.BasicProperties:
    headers = {"tenant": ("acme", "burrow", "clover")[number % 3], "attempt": 1}
    return pika.BasicProperties(content_type="application/json", message_id=f"order-{number}", headers=headers)


def _settle(channel: BlockingChannel, method: pika.spec.Basic.Deliver, _: object, __: bytes) -> None:
    if method.delivery_tag % REJECTED == 0:
        channel.basic_reject(method.delivery_tag, requeue=False)
    else:
        channel.basic_ack(method.delivery_tag)
