"""Damaged sessions and lying sockets against a live broker, beside somebody honest whose round trips are timed.

    python -m tests.faults.hostile sessions [--count 100000] [--seed 1]
    python -m tests.faults.hostile sockets [--count 4000]

Sessions are whole ones (login, declare, publish, consume, get, ack, transaction) with some bytes otherwise, sent and
left. Sockets say nothing, a byte now and then, or claim frames of 4 GiB. One JSON line each: the longest round trip of
the canary, what the broker logged as its own fault, memory before and after, and how long the sockets were kept.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import resource
import select
import socket
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Final

from tests.broker.harness import publish_frames
from tests.faults.codec import TABLE, damaged
from tests.faults.stalls import Client
from warren import Broker
from warren.amqp import methods
from warren.client.session import frame_of
from warren.errors import WarrenError

GREETING: Final = b"AMQP\x00\x00\x09\x01"
# What a session may take that is left in the middle of something, and how many there are at a time.
READ_SECONDS: Final = 0.05
WORKERS: Final = 4
HANDSHAKE_MS: Final = 3000


@dataclass
class Report:
    kind: str
    count: int
    seed: int = 0
    seconds: float = 0.0
    round_trips: int = 0
    worst_round_trip_ms: float = 0.0
    # Tracebacks of the broker: none of it is a client's to cause.
    faults: list[str] = field(default_factory=list)
    memory_before: int = 0
    memory_after: int = 0
    # How long the last of the sockets was let stand.
    dropped_after: float = 0.0
    kept: int = 0

    def is_well(self) -> bool:
        return not self.faults and self.kept == 0 and self.round_trips > 0


class Faults(logging.Handler):
    """What the broker says went wrong within itself."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # A refused login is told as an error, and is none of the broker.
        if record.exc_info or "Traceback" in record.getMessage():
            self.seen.append(record.getMessage()[-400:])


class Canary(threading.Thread):
    """Publishes a message and gets it, again and again."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(daemon=True)
        self._client = Client(broker)
        self._client.call(methods.QueueDeclare(queue="canary"))
        self._is_over = threading.Event()
        self.worst = 0.0
        self.count = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self._is_over.is_set():
                began = time.monotonic()
                self._client.socket.sendall(publish_frames(1, b"still here", "canary"))
                answer = self._client.call(methods.BasicGet(queue="canary", no_ack=True))
                assert isinstance(answer, methods.BasicGetOk)
                self.worst = max(self.worst, time.monotonic() - began)
                self.count += 1
                self._is_over.wait(0.002)
        except (OSError, AssertionError, WarrenError) as error:
            self.error = error

    def end(self) -> None:
        self._is_over.set()
        self.join()
        self._client.close()
        if self.error is not None:
            raise self.error


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


# -- sessions ----------------------------------------------------------------------------------------------------------


def whole_session(chance: random.Random) -> tuple[bytes, bytes]:
    """What logs in, and what comes then."""
    login = GREETING + b"".join(
        frame_of(method, 0)
        for method in (
            methods.ConnectionStartOk(client_properties=TABLE, mechanism="PLAIN", response=b"\0guest\0guest"),
            methods.ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=0),
            methods.ConnectionOpen(virtual_host="/"),
        )
    )
    name = f"h{chance.randrange(20)}"
    body = chance.randbytes(chance.choice((0, 1, 100, 5000)))
    every = [
        frame_of(methods.QueueDeclare(queue=name, auto_delete=True, arguments={})),
        frame_of(methods.ExchangeDeclare(exchange="hx", type=chance.choice(("topic", "headers", "fanout")))),
        frame_of(methods.QueueBind(queue=name, exchange="amq.topic", routing_key="a.#", arguments=TABLE)),
        publish_frames(1, body, name),
        publish_frames(1, body, "a.b", "amq.topic"),
        frame_of(methods.BasicQos(prefetch_count=3)),
        frame_of(methods.BasicConsume(queue=name, consumer_tag="c")),
        frame_of(methods.BasicGet(queue=name)),
        frame_of(methods.BasicAck(delivery_tag=1, multiple=chance.random() < 0.5)),
        frame_of(methods.BasicNack(delivery_tag=0, multiple=True, requeue=chance.random() < 0.5)),
        frame_of(methods.BasicCancel(consumer_tag="c")),
        frame_of(methods.QueuePurge(queue=name)),
        frame_of(methods.QueueDelete(queue=name)),
        frame_of(chance.choice((methods.TxSelect(), methods.ConfirmSelect()))),
        frame_of(methods.TxCommit()),
        frame_of(methods.BasicRecover(requeue=True)),
    ]
    chance.shuffle(every)
    return login, frame_of(methods.ChannelOpen()) + b"".join(every[: chance.randrange(3, 16)])


def play(broker: Broker, chance: random.Random) -> None:
    login, rest = whole_session(chance)
    data = damaged(login, chance) + rest if chance.random() < 0.2 else login + damaged(rest, chance)
    try:
        with socket.create_connection((broker.host, broker.port), 10) as peer:
            peer.sendall(data)
            if chance.random() < 0.7 and select.select([peer], [], [], READ_SECONDS)[0]:
                peer.recv(65536)
    except OSError:
        # It was cut off, which is an answer.
        pass


def sessions(count: int, seed: int) -> Report:
    report = Report("sessions", count, seed)
    with tempfile.TemporaryDirectory(prefix="warren-hostile-") as folder:
        broker = Broker(data_dir=folder, handshake_timeout_ms=HANDSHAKE_MS, login_failures_max=0)
        with Watched(broker, report):
            threads = [
                threading.Thread(target=_play_some, args=(broker, random.Random(f"{seed}-{number}"), count // WORKERS))
                for number in range(WORKERS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    return report


def _play_some(broker: Broker, chance: random.Random, count: int) -> None:
    for _ in range(count):
        play(broker, chance)


# -- sockets -----------------------------------------------------------------------------------------------------------


def sockets(count: int) -> Report:
    """A third says nothing, a third a byte a second, a third claims very long frames."""
    # Never fewer: whatever runs in this process afterwards has the same.
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(most, 2 * count + 2000)), most))
    report = Report("sockets", count)
    broker = Broker(handshake_timeout_ms=HANDSHAKE_MS, login_failures_max=0)
    with Watched(broker, report):
        began = time.monotonic()
        peers = [socket.create_connection((broker.host, broker.port), 60) for _ in range(count)]
        for number, peer in enumerate(peers):
            if number % 3 == 2:
                peer.sendall(GREETING + b"\x01\x00\x00\xff\xff\xff\xff")
        opened = time.monotonic()
        report.kept = _wait_for_the_end(peers, began)
        report.dropped_after = round(time.monotonic() - opened, 1)
    return report


def _wait_for_the_end(peers: list[socket.socket], began: float) -> int:
    """How many are still there after all patience."""
    left = {peer.fileno(): (number, peer) for number, peer in enumerate(peers)}
    watch = select.epoll()
    for descriptor in left:
        watch.register(descriptor, select.EPOLLIN)
    said = 0
    while left and time.monotonic() - began < 120:
        for descriptor, _ in watch.poll(1.0):
            peer = left[descriptor][1]
            try:
                if peer.recv(65536):
                    continue
            except OSError:
                pass
            watch.unregister(descriptor)
            del left[descriptor]
            peer.close()
        for number, peer in left.values():
            if number % 3 == 1:
                try:
                    peer.send(GREETING[said % 8 : said % 8 + 1])
                except OSError:
                    continue
        said += 1
    for _, peer in left.values():
        peer.close()
    watch.close()
    return len(left)


class Watched:
    """The broker runs, with a canary beside whatever is done to it."""

    def __init__(self, broker: Broker, report: Report) -> None:
        self._broker = broker
        self._report = report
        self._faults = Faults()

    def __enter__(self) -> None:
        logging.getLogger("warren").addHandler(self._faults)
        self._broker.start()
        self._canary = Canary(self._broker)
        self._canary.start()
        self._report.memory_before = resident()
        self._began = time.monotonic()

    def __exit__(self, *error: object) -> None:
        report = self._report
        report.seconds = round(time.monotonic() - self._began, 1)
        try:
            self._canary.end()
        finally:
            report.worst_round_trip_ms = round(self._canary.worst * 1000, 1)
            report.round_trips = self._canary.count
            report.memory_after = resident()
            report.faults = self._faults.seen[:10]
            logging.getLogger("warren").removeHandler(self._faults)
            self._broker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("kind", choices=("sessions", "sockets"))
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.kind == "sessions":
        report = sessions(options.count or 100_000, options.seed)
    else:
        report = sockets(options.count or 4000)
    sys.stdout.write(json.dumps(asdict(report)) + "\n")
    sys.exit(not report.is_well())


if __name__ == "__main__":
    main()
