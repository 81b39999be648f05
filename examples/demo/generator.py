"""Publishes orders as a small shop would get them, and now and then one that no shop should take."""

from __future__ import annotations

import json
import random
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from warren.amqp.frames import content_frames
from warren.amqp.methods import BasicPublish, ExchangeDeclare, ExchangeDeclareOk
from warren.amqp.properties import Properties, encode_properties
from warren.client.address import parse_uri
from warren.client.connection import Client
from warren.client.session import CHANNEL, frame_of
from warren.errors import WarrenError

COUNTRIES = ("de", "fr", "it", "nl", "se")
PRODUCTS = {"tea": 4.5, "coffee": 7.9, "cocoa": 3.2, "mug": 12.0, "kettle": 39.0}
CUSTOMERS = 200
# One in so many is wrong in one of these ways.
WRONG_ONE_IN = 60
WRONG = (b"not an order", b'{"id": 7, "customer": "who?"}', b'{"customer": 3}')


def write_customers(folder: Path) -> None:
    """A table as another system would deliver it. The same every time, so it is written once."""
    if (folder / "customers.parquet").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    numbers = range(CUSTOMERS)
    columns = {
        "id": pa.array(numbers, pa.int64()),
        "name": [f"customer {number}" for number in numbers],
        "country": [COUNTRIES[number % len(COUNTRIES)] for number in numbers],
    }
    parquet.write_table(pa.table(columns), folder / "customers.parquet")


def order(number: int) -> bytes:
    if random.randrange(WRONG_ONE_IN) == 0:  # noqa: S311 - orders are no secrets
        return random.choice(WRONG)  # noqa: S311
    product = random.choice(list(PRODUCTS))  # noqa: S311
    return json.dumps(
        {
            "id": number,
            "customer": random.randrange(CUSTOMERS),  # noqa: S311
            "product": product,
            "quantity": random.randint(1, 5),  # noqa: S311
            "price": PRODUCTS[product],
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
    ).encode()


class Generator(threading.Thread):
    def __init__(self, uri: str, rate: int) -> None:
        super().__init__(name="orders", daemon=True)
        self._uri = uri
        self._rate = rate
        self._is_over = threading.Event()
        self.published = 0

    def run(self) -> None:
        try:
            self._publish()
        except WarrenError:
            # The broker is going down, and whoever stops it knows.
            return

    def stop(self) -> None:
        self._is_over.set()
        self.join(5)

    def _publish(self) -> None:
        properties = encode_properties(Properties(content_type="application/json", delivery_mode=2))
        publish = frame_of(BasicPublish(exchange="shop", routing_key="order.placed"))
        number = round(time.time() * 1000)
        with Client(parse_uri(self._uri), "order generator") as client:
            client.call(ExchangeDeclare(exchange="shop", type="topic", durable=True), ExchangeDeclareOk)
            while not self._is_over.wait(1 / self._rate):
                number += 1
                client.send([publish + content_frames(CHANNEL, properties, order(number), client.frame_max)])
                self.published += 1
