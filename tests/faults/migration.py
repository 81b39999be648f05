"""From a real RabbitMQ to Warren, with `warren migrate` killed on the way: all of it there once, in order, as it was.

python -m tests.faults.migration [--messages 1000000] [--queues 50] [--kills 2] [--seed N]

Half of the queues are classic, half are quorum queues. Besides, one queue holds messages that are all alike.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.cli.serving import Serving, environment
from tests.rabbitmq_node import MANAGEMENT, RabbitNode, start_node
from warren.amqp.fields import table_of
from warren.amqp.frames import content_frames
from warren.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from warren.amqp.properties import Properties, encode_properties
from warren.client.address import parse_uri
from warren.client.api import Api
from warren.client.connection import Client
from warren.client.session import CHANNEL, frame_of
from warren.errors import WarrenError
from warren.migrate.ledger import PREFIX
from warren.migrate.source import take
from warren.spark.publish import ConfirmedPublisher

ALIKE: Final = "alike"
PATIENCE: Final = 3600
WINDOW: Final = 5000


class Scene:
    """RabbitMQ with messages, and an empty Warren."""

    def __init__(self, node: RabbitNode, warren: Serving) -> None:
        self.source = f"amqp://guest:guest@127.0.0.1:{node.amqp_port}"
        self.api = api_of(node)
        self.warren = warren
        self._processes: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        """A migration that is still running holds the lock at both ends."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def command(self, *more: str) -> list[str]:
        return ["migrate", self.source, "--api", self.api, "--url", self.warren.http_url, "--json", *more]

    def migrate(self, *more: str) -> subprocess.Popen[str]:
        return self._start("warren", *self.command(*more))

    def migrate_until(self, point: str, batch: int, *more: str) -> subprocess.Popen[str]:
        return self._start("tests.faults.migration_driver", point, str(batch), *self.command(*more))

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self._processes.append(process)
        return process


@contextlib.contextmanager
def start(folder: Path) -> Iterator[Scene]:
    with start_rabbitmq(folder) as node, Serving(folder, "--data-dir", "data") as warren:
        yield Scene(node, warren)


@contextlib.contextmanager
def start_rabbitmq(folder: Path) -> Iterator[RabbitNode]:
    with start_node([MANAGEMENT], parent=folder) as node:
        node.await_startup(lambda: _answers(api_of(node)) and _listens(node.amqp_port))
        yield node


def api_of(node: RabbitNode) -> str:
    return f"http://guest:guest@127.0.0.1:{node.http_port}"


def _answers(url: str) -> bool:
    try:
        Api(url).get("overview")
    except WarrenError:
        return False
    return True


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def names(queues: int) -> list[str]:
    return [f"queue-{number:02}" for number in range(queues)]


def fill(uri: str, queues: int, each: int, alike: int = 0) -> None:
    """Message N of a queue is published to an exchange of another type than Warren's default, with N in its key."""
    with Client(parse_uri(uri)) as client:
        for number, name in enumerate(names(queues)):
            arguments = table_of({"x-queue-type": "quorum"} if number % 2 else {})
            client.call(QueueDeclare(queue=name, durable=True, arguments=arguments), QueueDeclareOk)
            client.call(QueueBind(queue=name, exchange="amq.topic", routing_key=f"{name}.#"), QueueBindOk)
        client.call(QueueDeclare(queue=ALIKE, durable=True), QueueDeclareOk)
        publisher = ConfirmedPublisher(client, WINDOW, lambda method, content: None)
        for name in names(queues):
            for n in range(each):
                publisher.publish(published(name, n, client.frame_max))
        for _ in range(alike):
            content = content_frames(CHANNEL, encode_properties(Properties(delivery_mode=2)), b"tick", client.frame_max)
            publisher.publish(frame_of(BasicPublish(routing_key=ALIKE)) + content)
        publisher.finish()


def fill_more(uri: str, queue: str, numbers: Iterable[int]) -> None:
    """Confirmed: what a channel published last before it closes, a quorum queue of RabbitMQ may lose."""
    with Client(parse_uri(uri)) as client:
        publisher = ConfirmedPublisher(client, WINDOW, lambda method, content: None)
        for n in numbers:
            publisher.publish(published(queue, n, client.frame_max))
        publisher.finish()


def published(queue: str, n: int, frame_max: int) -> bytes:
    # Another queue's name in CC: whoever publishes the message again must not send it there.
    headers = table_of({"n": n, "CC": [ALIKE + "-not"]})
    properties = Properties("text/plain", headers=headers, delivery_mode=2, message_id=f"{queue}/{n}", user_id="guest")
    content = content_frames(CHANNEL, encode_properties(properties), f"{n} in {queue}".encode() * 4, frame_max)
    return frame_of(BasicPublish(exchange="amq.topic", routing_key=f"{queue}.{n}")) + content


def complaints_about(uri: str, queues: int, each: int, alike: int) -> list[str]:
    """What is not as it was published. Consumes all of it."""
    found = []
    for name in names(queues):
        keys, bodies, rest = drain(uri, name, each)
        if bodies != [f"{n} in {name}".encode() * 4 for n in range(each)]:
            found.append(
                f"{name}: {len(bodies)} of {each}, {len(set(bodies))} different, in order: {_is_sorted(bodies)}"
            )
        if keys != [f"{name}.{n}" for n in range(len(keys))]:
            found.append(f"{name}: other routing keys")
        if rest:
            found.append(f"{name}: {rest} too many")
    _, bodies, rest = drain(uri, ALIKE, alike)
    if len(bodies) != alike or rest:
        found.append(f"{ALIKE}: {len(bodies) + rest} instead of {alike}")
    return found


def _is_sorted(bodies: list[bytes]) -> bool:
    numbers = [int(body.split()[0]) for body in bodies]
    return numbers == sorted(numbers)


def drain(uri: str, queue: str, count: int) -> tuple[list[str], list[bytes], int]:
    """Routing keys and bodies of so many at most, and how many there are besides."""
    with Client(parse_uri(uri)) as client:
        there = client.call(QueueDeclare(queue=queue, passive=True), QueueDeclareOk).message_count
        client.call(BasicConsume(queue=queue, no_ack=True), BasicConsumeOk)
        keys: list[str] = []
        bodies: list[bytes] = []
        while len(bodies) < min(there, count):
            received = client.next()
            keys.append(received.method.routing_key)  # type: ignore[attr-defined]
            bodies.append(received.body)
        return keys, bodies, max(0, there - count)


def read(uri: str, stream: str, count: int) -> tuple[list[str], list[bytes]]:
    """Routing keys and bodies of the first so many of a stream, which has no more."""
    with Client(parse_uri(uri)) as client:
        found = take(client, stream, count + 1, table_of({"x-stream-offset": "first"}))
    return [each.routing_key for each in found], [each.received.body for each in found]


def run(queues: int, each: int, kills: int, seed: int) -> dict[str, object]:
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="warren-migration-") as folder, start(Path(folder)) as scene:
        started = time.monotonic()
        fill(scene.source, queues, each, each)
        filled = time.monotonic()
        sys.stderr.write(f"filled in {filled - started:.0f} s\n")
        # Each kill after about the same share of what a whole run takes, which is not known beforehand.
        total = (queues + 1) * each
        for kill in range(kills):
            process = scene.migrate()
            goal = total * (kill + draw.uniform(0.5, 1.0)) / (kills + 1)
            while process.poll() is None and ready_in(scene) < goal:
                time.sleep(draw.uniform(0.05, 0.3))
            process.kill()
            process.communicate()
            sys.stderr.write(f"killed with {ready_in(scene)} of {total} moved\n")
        process = scene.migrate()
        output, errors = process.communicate(timeout=PATIENCE)
        ended = time.monotonic()
        if process.returncode:
            raise RuntimeError(errors)
        summary = json.loads(output)
        complaints = complaints_about(scene.warren.amqp_url, queues, each, each)
        return {
            "messages": total,
            "queues": queues + 1,
            "kills": kills,
            "seed": seed,
            "seconds": round(ended - filled, 1),
            "messages_per_second": round(total / (ended - filled)),
            "moved": summary["moved"],
            "verified": summary["verified"],
            "complaints": complaints,
        }


def ready_in(scene: Scene) -> int:
    """Of what was moved: the migration's own notes are messages too."""
    queues = Api(scene.warren.http_url).get("queues")
    return sum(queue["messages_ready"] for queue in queues if not queue["name"].startswith(PREFIX))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=50)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args(arguments)
    report = run(given.queues - 1, given.messages // given.queues, given.kills, given.seed)
    sys.stdout.write(json.dumps(report) + "\n")
    return 1 if report["complaints"] or not report["verified"] else 0


if __name__ == "__main__":
    sys.exit(main())
