"""Ten consumers replay a stream of 1 GB while somebody publishes to it: what that costs the publisher and in memory.

    python -m bench.replay

Three figures in each round: nobody replays; ten replay, each at a pace; ten replay as fast as they can, which on few
cores is a contest for the processor as well.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

import click

from bench.spark import SCRATCH, TIMEOUT, WINDOW, broker, fill
from warren.amqp.constants import STREAM_OFFSET
from warren.amqp.deliveries import Deliveries
from warren.amqp.fields import Field
from warren.amqp.frames import content_frames
from warren.amqp.methods import BasicAck, BasicPublish
from warren.client.address import parse_uri
from warren.client.session import CHANNEL, frame_of
from warren.spark.consume import consume, open_client
from warren.spark.publish import ConfirmedPublisher

SIZE: Final = 1024
READERS: Final = 10
# Of each reader at its pace.
PACE: Final = 1_000
# So many messages are read at a time, and so many may be on the way.
PREFETCH: Final = 500
CHUNK: Final = 50


@dataclass
class Figure:
    readers: str
    published_per_second: int
    read_per_second: int
    broker_megabytes: int


def publish_for(uri: str, stream: str, seconds: float) -> float:
    """Confirmed messages a second."""
    with open_client(parse_uri(uri), TIMEOUT) as client:
        publisher = ConfirmedPublisher(client, WINDOW, lambda method, content: None)
        message = frame_of(BasicPublish(exchange="", routing_key=stream))
        message += content_frames(CHANNEL, b"\x10\x00\x02", b"x" * SIZE, client.frame_max)
        begin = time.perf_counter()
        count = 0
        while time.perf_counter() - begin < seconds:
            publisher.publish(message * CHUNK, CHUNK)
            count += CHUNK
        publisher.finish()
        return count / (time.perf_counter() - begin)


class Reader:
    """One consumer from the first offset on, that takes what comes and forgets it; a pace of 0 is none."""

    def __init__(self, uri: str, stream: str, pace: int) -> None:
        self.count = 0
        self._uri = uri
        self._stream = stream
        self._pace = pace

    def run(self, done: threading.Event) -> None:
        begin = time.perf_counter()
        with open_client(parse_uri(self._uri), TIMEOUT) as client:
            consume(client, self._stream, PREFETCH, {STREAM_OFFSET: Field("S", "first")})
            acked = 0
            while not done.is_set():
                deliveries = Deliveries(STREAM_OFFSET)
                client.session.take_deliveries(deliveries, PREFETCH)
                self.count += deliveries.count
                if deliveries.last_tag - acked >= PREFETCH // 2:
                    acked = deliveries.last_tag
                    client.send([frame_of(BasicAck(acked, True))])
                if self._pace:
                    done.wait(max(0.0, self.count / self._pace - (time.perf_counter() - begin)))
                if not deliveries.count:
                    client.receive()
            client.abandon()


def replay(uri: str, stream: str, pace: int, seconds: float, result: multiprocessing.SimpleQueue[int]) -> None:
    """In a process of its own: the publisher must not wait for its interpreter."""
    done = threading.Event()
    readers = [Reader(uri, stream, pace) for _ in range(READERS)]
    threads = [threading.Thread(target=reader.run, args=(done,), daemon=True) for reader in readers]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    result.put(round(sum(reader.count for reader in readers) / seconds))
    # Nothing is left to be said to anybody.
    os._exit(0)


def resident_megabytes(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


def measure(uri: str, stream: str, pid: int, readers: str, pace: int, seconds: float) -> Figure:
    result: multiprocessing.SimpleQueue[int] = multiprocessing.SimpleQueue()
    process = None
    if readers != "none":
        process = multiprocessing.get_context("fork").Process(
            target=replay, args=(uri, stream, pace, seconds + 2, result)
        )
        process.start()
        time.sleep(1)
    rate = publish_for(uri, stream, seconds)
    megabytes = resident_megabytes(pid)
    read = 0
    if process is not None:
        read = result.get()
        process.join()
    figure = Figure(readers, round(rate), read, megabytes)
    click.echo(json.dumps(asdict(figure)))
    return figure


@click.command()
@click.option("--megabytes", default=1024, show_default=True, help="Of the stream that is replayed.")
@click.option("--seconds", default=6.0, show_default=True, help="Of each measurement.")
@click.option("--rounds", default=3, show_default=True)
def main(megabytes: int, seconds: float, rounds: int) -> None:
    """Publish to a stream while nobody, and while ten consumers, replay it."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder, broker(Path(folder)) as uri:
        (pid,) = [int(child) for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
        stream = fill(uri, SIZE, megabytes * 1024)
        rates: dict[str, list[int]] = {}
        for _ in range(rounds):
            for readers, pace in (("none", 0), (f"ten, {PACE:,} a second each", PACE), ("ten, as fast as they can", 0)):
                figure = measure(uri, stream, pid, readers, pace, seconds)
                rates.setdefault(readers, []).append(figure.published_per_second)
    alone = median(rates.pop("none"))
    for readers, found in rates.items():
        click.echo(f"{readers}: publishing goes at {median(found) / alone:.0%} of {alone:,.0f}/s")


if __name__ == "__main__":
    main()
