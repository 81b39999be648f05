"""The load under which brokers are killed: publishers, consumers, and somebody who declares and deletes.

Each is a thread with its own connection, and ends when the broker is gone. What it did and saw is in the history.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from tests.faults.history import History, body_for
from tests.faults.kill9_client import Client, Closed, Gone, identity_of, publish_frames
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.methods import Method
from warren.client.session import Received, frame_of

QUEUES: Final = ("q0", "q1", "q2", "q3")
DEAD: Final = "dead"
DEAD_LETTERS: Final = {"q0": DEAD}
# Exchange, key, and the queues that are bound for good.
ROUTES: Final = (
    *[("", queue, (queue,)) for queue in QUEUES for _ in range(3)],
    ("fan", "", ("q1", "q2", "q3")),
    ("fan", "", ("q1", "q2", "q3")),
    ("topic", "a.b", ("q0", "q2")),
    ("topic", "nowhere", ()),
)
WINDOW: Final = 100
# Publishers wait while consumers are this far behind: recovery should not take longer from round to round.
BACKLOG: Final = 1500
_QOS: Final = methods.BasicQos(prefetch_count=64)
CHURNED: Final = tuple(f"churn{number}" for number in range(6))


def declare_topology(client: Client) -> None:
    client.declare_exchange("fan", "fanout")
    client.declare_exchange("topic", "topic")
    client.declare_exchange("graves", "direct")
    client.declare(DEAD)
    client.bind(DEAD, "graves", DEAD)
    client.declare("q0", {"x-dead-letter-exchange": "graves", "x-dead-letter-routing-key": DEAD})
    client.declare("q1")
    client.declare("q2", {"x-queue-type": "quorum"})
    client.declare("q3")
    for queue in ("q1", "q2", "q3"):
        client.bind(queue, "fan")
    for queue in ("q0", "q2"):
        client.bind(queue, "topic", "a.*")


class Load:
    """What lives as long as a data folder: the history, the numbering of messages, the balance of in and out."""

    def __init__(self, history: History, largest: int, fence: Method = _QOS) -> None:
        """What a consumer asks after some settlements: when it is answered, they are for good. A process that is killed
        has handed all to the operating system before it answers anything."""
        self.history = history
        self.fence = fence
        self.largest = largest
        self.counts = {"p0": 0, "p1": 0}
        self.churned: set[str] = set()
        self.copies = 0
        self.settled = 0
        # Closed by the broker although nobody told it to stop.
        self.refusals: list[str] = []
        self.is_stopping = False
        self._threads: list[threading.Thread] = []
        self._connected = threading.Semaphore(0)

    def body_for(self, identity: str) -> bytes:
        return body_for(identity, self.largest)

    def start(self, port: int, round_number: int, seed: int) -> None:
        """Returns when all are connected, or the broker is gone."""
        self.is_stopping = False
        # Before the clock of the round runs: a busy machine needs longer for it than a round may last.
        for queue in CHURNED:
            self.look_up(queue, port)
        actors: list[Callable[[str, Client, random.Random], None]] = [
            self.publish,
            self.publish,
            self.consume,
            self.consume,
            self.churn,
        ]
        names = ["p0", "p1", "c0", "c1", "d0"]
        self._threads = [
            threading.Thread(target=self._run, args=(actor, port, name, round_number, seed), name=name)
            for actor, name in zip(actors, names, strict=True)
        ]
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            self._connected.acquire(timeout=30)

    def connect(self, port: int, name: str = "") -> Client:
        return Client(port, name)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), f"{thread.name} does not end"

    def _run(
        self,
        actor: Callable[[str, Client, random.Random], None],
        port: int,
        name: str,
        round_number: int,
        seed: int,
    ) -> None:
        try:
            client = self.connect(port, f"r{round_number}.{name}")
        except Gone:
            return
        finally:
            self._connected.release()
        try:
            actor(name, client, random.Random(f"{seed}.{name}"))
        except Closed as error:
            if not self.is_stopping:
                self.refusals.append(f"{client.name}: {error}")
        except Gone:
            pass
        finally:
            client.close()

    # -- publishers ------------------------------------------------------------------------------------------------

    def publish(self, name: str, client: Client, rng: random.Random) -> None:
        client.confirm_select()
        waiting: dict[int, None] = {}
        tag = 0
        while True:
            batch = b""
            for _ in range(rng.randint(1, 8)):
                tag += 1
                waiting[tag] = None
                batch += self._message(name, client.name, tag, rng)
            client.send(batch)
            client.receive(0)
            self._take_answers(client, waiting)
            while len(waiting) > WINDOW or self.copies - self.settled > BACKLOG:
                client.receive(0.01)
                self._take_answers(client, waiting)

    def _message(self, name: str, channel: str, tag: int, rng: random.Random) -> bytes:
        self.counts[name] += 1
        identity = f"{name}-{self.counts[name]}"
        exchange, key, queues = rng.choice(ROUTES)
        self.history.publish(channel, tag, identity, queues)
        self.copies += len(queues)
        return publish_frames(exchange, key, identity, self.body_for(identity), mandatory=True)

    def _take_answers(self, client: Client, waiting: dict[int, None]) -> None:
        while client.events:
            event = client.events.popleft()
            method = event.method
            if isinstance(method, methods.BasicAck):
                self.history.confirm(client.name, method.delivery_tag, method.multiple)
                _forget(waiting, method.delivery_tag, method.multiple)
            elif isinstance(method, methods.BasicNack):
                self.history.nack(client.name, method.delivery_tag, method.multiple)
                _forget(waiting, method.delivery_tag, method.multiple)
            elif isinstance(method, methods.BasicReturn):
                self.history.returned(client.name, identity_of(event))

    # -- consumers -------------------------------------------------------------------------------------------------

    def consume(self, name: str, client: Client, rng: random.Random) -> None:
        client.qos(64)
        for queue in QUEUES if name == "c0" else ("q1", "q3", DEAD):
            client.consume(queue)
        settled = 0
        fences: list[int] = []
        while True:
            client.receive(0.05)
            answer = b""
            while client.events:
                event = client.events.popleft()
                if isinstance(event.method, (methods.BasicQosOk, methods.QueuePurgeOk)):
                    self.history.fence(client.name, fences.pop(0))
                elif isinstance(event.method, methods.BasicDeliver):
                    settled, reply = self._settle(client.name, event, settled, rng)
                    answer += reply
            if answer and rng.random() < 0.3:
                fences.append(settled)
                answer += frame_of(self.fence)
            if answer:
                client.send(answer)

    def _settle(self, channel: str, event: Received, settled: int, rng: random.Random) -> tuple[int, bytes]:
        deliver = event.method
        assert isinstance(deliver, methods.BasicDeliver)
        queue, tag, identity = deliver.consumer_tag, deliver.delivery_tag, identity_of(event)
        self.note_delivery(channel, event)
        chance = rng.random()
        if chance < 0.07:
            # Held until the end of the connection.
            return settled, b""
        if chance < 0.15 and not deliver.redelivered:
            return settled, frame_of(methods.BasicNack(tag, False, True))
        if chance < 0.22 and queue != DEAD:
            self.history.settle("reject", channel, queue, identity)
            self.settled += 0 if queue in DEAD_LETTERS else 1
            return settled + 1, frame_of(methods.BasicReject(tag, False))
        self.history.settle("ack", channel, queue, identity)
        self.settled += 1
        return settled + 1, frame_of(methods.BasicAck(tag, False))

    def note_delivery(self, channel: str, event: Received) -> None:
        deliver = event.method
        assert isinstance(deliver, methods.BasicDeliver)
        identity = identity_of(event)
        intact = event.body == self.body_for(identity)
        self.history.deliver(channel, deliver.consumer_tag, identity, deliver.redelivered, intact)

    # -- definitions -----------------------------------------------------------------------------------------------

    def churn(self, name: str, client: Client, rng: random.Random) -> None:
        while True:
            queue = rng.choice(CHURNED)
            if queue in self.churned:
                self.history.definition("delete", queue)
                self.churned.discard(queue)
                client.delete(queue)
                self.history.definition("deleted", queue)
            else:
                self.history.definition("declare", queue)
                if client.declare(queue) != 0 and self._was_deleted(queue):
                    self.refusals.append(f"{queue} was deleted, and is not empty when declared again")
                self.churned.add(queue)
                self.history.definition("declared", queue)
                client.bind(queue, "topic", "a.#")
            time.sleep(rng.uniform(0.001, 0.02))

    def look_up(self, queue: str, port: int) -> None:
        """On a connection of its own, because one that is not there closes the channel."""
        with self.connect(port) as client:
            try:
                client.declare(queue, passive=True)
            except Closed as error:
                if not str(error).startswith("404"):
                    raise
                self.history.definition("absent", queue)
                self.churned.discard(queue)
            else:
                self.history.definition("present", queue)
                self.churned.add(queue)

    def _was_deleted(self, queue: str) -> bool:
        for op in reversed(self.history.ops):
            if op.queue == queue and op.kind in ("declare", "delete", "deleted", "declared"):
                return op.kind == "deleted"
        return False


def _forget(waiting: dict[int, None], tag: int, multiple: bool) -> None:
    for one in [one for one in waiting if one <= tag] if multiple else [tag]:
        waiting.pop(one, None)


def drain(load: Load, port: int, queues: tuple[str, ...] = (*QUEUES, DEAD)) -> None:
    """Take and ack all that is left, queue by queue."""
    load.history.draining()
    for queue in queues:
        with load.connect(port, f"drain.{queue}") as client:
            _drain_queue(load, client, queue)


def _drain_queue(load: Load, client: Client, queue: str) -> None:
    client.qos(200)
    client.consume(queue)
    settled = 0
    while True:
        settled += _take_all(load, client)
        if client.declare(queue, passive=True) == 0 and not client.events:
            break
    client.qos(200)
    load.history.fence(client.name, settled)
    load.history.empty(queue)


def drain_stream(load: Load, port: int, stream: str) -> None:
    """Read all of it, from the first on."""
    arguments = table_of({"x-stream-offset": "first"})
    with load.connect(port, f"drain.{stream}") as client:
        client.qos(200)
        left = client.declare(stream, passive=True)
        consume = methods.BasicConsume(queue=stream, consumer_tag=stream, arguments=arguments)
        client.ask(consume, methods.BasicConsumeOk)
        while left > 0:
            if not client.events and not client.receive(10):
                raise AssertionError(f"{left} messages of the stream do not come")
            left -= _take_all(load, client)


def _take_all(load: Load, client: Client) -> int:
    taken = 0
    answer = b""
    while client.events:
        event = client.events.popleft()
        deliver = event.method
        if isinstance(deliver, methods.BasicDeliver):
            load.note_delivery(client.name, event)
            load.history.settle("ack", client.name, deliver.consumer_tag, identity_of(event))
            answer += frame_of(methods.BasicAck(deliver.delivery_tag, False))
            taken += 1
    client.send(answer)
    return taken
