"""The least that a durable confirm can take: append to a file and wait until the disk has it.

Taken in turn with a broker's confirms, one of each: on a shared machine the same sync takes 0.15 or 4 ms for seconds
on end, and one measured before or after the other says nothing about it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from warren.amqp.methods import (
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from warren.amqp.properties import Properties
from warren.client.address import parse_uri
from warren.client.connection import READ_BYTES, Client
from warren.errors import WarrenError
from warren.perf.batches import Batch
from warren.perf.confirms import ConfirmTimes
from warren.perf.histogram import Histogram
from warren.perf.measure import Figures

SIZE: Final = 1024
QUEUE: Final = "bench-disk"


def beside_bare_sync(uri: str, folder: Path, seconds: float) -> Figures:
    """Medians of both, of which the broker's confirm is so many times the bare sync."""
    bare, confirmed = Histogram(), Histogram()
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file, Client(parse_uri(uri)) as client:
        client.call(QueueDeclare(queue=QUEUE, durable=True), QueueDeclareOk)
        client.call(ConfirmSelect(), ConfirmSelectOk)
        publish = _publisher(client)
        record, handle = b"x" * SIZE, file.fileno()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            start = time.monotonic_ns()
            file.write(record)
            os.fdatasync(handle)
            synced = time.monotonic_ns()
            publish()
            bare.add(synced - start)
            confirmed.add(time.monotonic_ns() - synced)
        client.call(QueueDelete(queue=QUEUE), QueueDeleteOk)
    ours, theirs = confirmed.percentile(0.5), bare.percentile(0.5)
    return {"bare_p50_us": theirs / 1000, "paired_p50_us": ours / 1000, "bare_ratio": ours / theirs}


def _publisher(client: Client) -> Callable[[], None]:
    """Publishes one persistent message and returns when it is confirmed."""
    batch = Batch("", [QUEUE], SIZE, [Properties(delivery_mode=2)], client.frame_max)
    message = bytes(batch.view[: batch.stride])
    confirms = ConfirmTimes(client.session)

    def publish() -> None:
        due = confirms.count + 1
        confirms.sent(due, 0)
        client.socket.sendall(message)
        while confirms.count < due:
            data = client.socket.recv(READ_BYTES)
            if not data:
                raise WarrenError("lost the connection: the broker closed it without a word")
            confirms.feed(data, 0)

    return publish
