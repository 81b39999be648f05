"""Listens to the totals that the pipeline publishes, as any service could: there is no Spark in here."""

from __future__ import annotations

import json
import threading
from typing import Any

from warren.amqp.fields import table_of
from warren.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from warren.client.address import parse_uri
from warren.client.connection import Client
from warren.client.session import refusal
from warren.errors import WarrenError

QUEUE = "demo.totals"


class Totals(threading.Thread):
    """`newest` holds for each country the row that came last."""

    def __init__(self, uri: str) -> None:
        super().__init__(name="totals", daemon=True)
        self._uri = uri
        self._client: Client | None = None
        self.newest: dict[str, dict[str, Any]] = {}
        self.received = 0

    def run(self) -> None:
        try:
            self._listen()
        except WarrenError:
            # The broker is going down, or we are.
            return

    def stop(self) -> None:
        if self._client is not None:
            self._client.abandon()

    def _listen(self) -> None:
        client = self._client = Client(parse_uri(self._uri), "totals", timeout=1e6)
        client.call(ExchangeDeclare(exchange="totals", type="topic", durable=True), ExchangeDeclareOk)
        # Old totals are of no use to a screen.
        arguments = table_of({"x-max-length": 1000})
        client.call(QueueDeclare(queue=QUEUE, durable=True, arguments=arguments), QueueDeclareOk)
        client.call(QueueBind(queue=QUEUE, exchange="totals", routing_key="total.#"), QueueBindOk)
        client.call(BasicConsume(queue=QUEUE, no_ack=True), BasicConsumeOk)
        while True:
            received = client.next()
            if not isinstance(received.method, BasicDeliver):
                raise refusal(received.method)
            row = json.loads(received.body)
            self.newest[row["country"]] = row
            self.received += 1
