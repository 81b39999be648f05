"""`warren consume`: the messages of a queue as they come, over AMQP. Acknowledged once they are printed, not before."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import click

from warren.amqp.fields import plain_body
from warren.amqp.methods import BasicDeliver
from warren.amqp.properties import plain_properties
from warren.cli.options import QUEUE, uri_option, url_option, vhost_option
from warren.client.address import BrokerAddress, parse_uri
from warren.client.api import Api
from warren.client.connection import Client
from warren.client.session import Received
from warren.client.subscription import Subscription
from warren.errors import WarrenError

PREFETCH: Final = 100
HEARTBEAT_SECONDS: Final = 30
_SCHEMES: Final = {"amqp": "amqp", "amqp/ssl": "amqps"}


@click.command()
@click.argument("queue", type=QUEUE)
@click.option("--count", type=click.IntRange(1), help="Stop after so many; else with Ctrl-C.")
@click.option("--raw", is_flag=True, help="Only the bodies, a line each.")
@uri_option("AMQP address; else the broker of --url says it.")
@vhost_option
@url_option
def consume(queue: str, count: int | None, raw: bool, broker: str | None, vhost: str, url: str) -> None:
    """Print the messages of QUEUE as they come, as lines of JSON.

    A message is acknowledged when it has been printed: one that this command held when it was killed comes again, to
    the next consumer, and no more than COUNT are taken.
    """
    target = parse_uri(broker) if broker else target_of(url, vhost)
    with Client(target, "warren consume", HEARTBEAT_SECONDS) as client:
        subscription = Subscription(client, queue, min(count or PREFETCH, PREFETCH))
        try:
            print_all(subscription, count, raw)
        except KeyboardInterrupt:
            # The last acks must have arrived before the socket closes.
            client.leave()
            raise
        except BrokenPipeError:
            # Whoever read what we print has enough of it. Python would complain when it closes it at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_all(subscription: Subscription, count: int | None, raw: bool) -> None:
    # Tags count up from 1. Every ack lets the broker send one more: those of the last ones wait, so that none comes
    # that nobody prints.
    acked = last = 0
    try:
        while count is None or last < count:
            received = subscription.wait()
            write(received, raw)
            last += len(received)
            ready = last if count is None else min(last, count - PREFETCH)
            if ready > acked:
                subscription.ack(ready)
                acked = ready
    finally:
        # Also after Ctrl-C: what was printed is done with.
        if last > acked:
            with contextlib.suppress(WarrenError):
                subscription.finish(last)


def write(received: list[Received], raw: bool) -> None:
    for each in received:
        sys.stdout.buffer.write((each.body if raw else json.dumps(described(each)).encode()) + b"\n")
    sys.stdout.buffer.flush()


def described(received: Received) -> dict[str, Any]:
    """As `warren get` shows it."""
    method, body = received.method, received.body
    assert isinstance(method, BasicDeliver)
    payload, encoding = plain_body(body)
    return {
        "payload_bytes": len(body),
        "redelivered": method.redelivered,
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "properties": plain_properties(received.properties),
        "payload": payload,
        "payload_encoding": encoding,
    }


def target_of(url: str, vhost: str) -> BrokerAddress:
    """Where the broker behind this management API speaks AMQP, for the same user."""
    listeners = Api(url).get("overview")["listeners"]
    ports = {each["protocol"]: each["port"] for each in listeners if each["protocol"] in _SCHEMES}
    if not ports:
        raise WarrenError(f"the broker at {urlsplit(url).hostname} lists no port for AMQP: name it with --uri")
    parts = urlsplit(url)
    protocol = "amqp" if "amqp" in ports else "amqp/ssl"
    return BrokerAddress(
        parts.hostname or "127.0.0.1",
        ports[protocol],
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
        vhost,
        is_tls=protocol != "amqp",
    )
