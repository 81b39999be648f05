"""Ranges of a stream read from nodes that follow, so that a replay costs the leader nothing but the planning.

Where the ports of followers are, the leader tells everyone who connects. A follower that is gone, leads by now or finds
its copy damaged ends a task's connection; the task goes on with the next offset where the query connects to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa

from warren.amqp.constants import STREAM_PORTS, STREAM_TLS_PORTS
from warren.client.address import BrokerAddress
from warren.client.connection import Client
from warren.errors import WarrenError
from warren.spark.consume import Range, read_range
from warren.spark.options import ReadFrom, ReadOptions

log = logging.getLogger("warren.spark")

# Broker, range, prefetch, timeout, and whether to fail for what is gone.
ReadRange = Callable[[BrokerAddress, Range, int, float, bool], Iterator[pa.RecordBatch]]


def stream_ports(client: Client, options: ReadOptions) -> list[str]:
    """None where nobody wants them, or nobody follows who speaks TLS if the query does, and none if it does not."""
    told = client.server_properties.get(STREAM_TLS_PORTS if options.target.is_tls else STREAM_PORTS)
    if options.read_from is ReadFrom.LEADER or told is None or not isinstance(told.value, list):
        return []
    return [str(port.value) for port in told.value]


def reader_at(port: str) -> ReadRange:
    return partial(_read_at, port)


def _read_at(
    port: str, target: BrokerAddress, span: Range, prefetch: int, timeout: float, fails: bool
) -> Iterator[pa.RecordBatch]:
    host, _, number = port.rpartition(":")
    follower = replace(target, host=host.strip("[]"), port=int(number))
    place = span.start
    try:
        for batch in read_range(follower, span, prefetch, timeout, True):
            # Before the task has it: what happens there is nothing that another node could do better.
            place = int(batch.column("offset")[-1].as_py()) + 1
            yield batch
    except WarrenError as error:
        log.warning("%s does not serve %s from offset %d on: %s", port, span.name, place, error)
    if place < span.end:
        yield from read_range(target, replace(span, start=place), prefetch, timeout, fails)
