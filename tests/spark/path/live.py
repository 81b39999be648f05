"""The live broker as the judge: real frames into a whole node, a clock moved by hand, all queues at once.

Every publish is a turn of its own, on a channel that is open: after a refusal the next one has a new channel, or a new
connection where that was closed. Timers fire exactly when they are due, before what is published at that moment.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from tests.broker.harness import (
    CAPABILITIES,
    ChannelClient,
    Client,
    FakeBacking,
    FakeHost,
    FakeStore,
    World,
    frame,
    publish_frames,
)
from tests.spark.path.outcome import Outcome
from tests.spark.path.traffic import START, Sent
from warren.amqp import methods
from warren.amqp.fields import plain
from warren.amqp.frames import body_of
from warren.amqp.properties import Properties
from warren.broker.node import Node
from warren.broker.operate.definitions import import_
from warren.broker.queue.backing import Backing
from warren.broker.queue.deadletter import DeadLetter, DeathListener
from warren.broker.queue.entry import Entry
from warren.broker.queue.queue import Queue
from warren.broker.queue.schedule import Schedule, schedule_of
from warren.broker.settings import Settings
from warren.broker.stream.stream import Stream
from warren.broker.world import Login
from warren.plugins import install
from warren.spark.path.consumers import Crew, Worker


class TrustingHost(FakeHost):
    """Knows no passwords: whoever has a name may log in."""

    def verify_password(self, login: Login, algorithm: str, password_hash: str, password: str) -> None:
        login.password_verified(algorithm != "")


class NotingDeaths(DeathListener):
    def __init__(self, node: Node, outcome: Outcome) -> None:
        self._node = node
        self._outcome = outcome

    def died(self, letter: DeadLetter) -> None:
        queue = letter.queue
        # Without its exchange a dead letter goes nowhere, and is none.
        if queue.options.dead_letter_exchange in self._node.vhosts[queue.vhost].exchanges:
            letters = self._outcome.dead_lettered.setdefault(place_of(queue), [])
            letters.append(f"{name_in(letter.entry.message.content)} {letter.reason}")


class LoggingStore(FakeStore):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome

    def open(self, queue: Queue, level: int) -> Backing:
        return LoggingBacking(self, queue)


class LoggingBacking(FakeBacking):
    def publish(self, entry: Entry) -> None:
        self._log(entry)
        super().publish(entry)

    def publish_delivered(self, entry: Entry) -> None:
        self._log(entry)
        super().publish_delivered(entry)

    def _log(self, entry: Entry) -> None:
        assert isinstance(self.store, LoggingStore)
        self.store.outcome.entered.setdefault(place_of(self.queue), []).append(name_in(entry.message.content))


def place_of(queue: Queue) -> tuple[str, str]:
    return queue.vhost, f"{queue.name} (scheduled)" if isinstance(queue, Schedule) else queue.name


def name_in(content: bytes) -> str:
    return body_of(content).decode().strip()


class LiveWorld(World):
    def __init__(
        self,
        definitions: dict[str, Any],
        settings: Settings,
        started_at: int,
        outcome: Outcome,
        extensions: dict[str, list[str]],
    ) -> None:
        self.host: TrustingHost = TrustingHost()
        self.store = LoggingStore(outcome)
        self.settings = settings
        self.node = Node(self.host, settings, None, self.store, started_at)
        install(self.node, **extensions)
        self.node.dead_letters.listener = NotingDeaths(self.node, outcome)
        import_(self.node, json.loads(json.dumps(definitions)))
        self.vhost = self.node.vhosts["/"]


class LiveBroker:
    def __init__(
        self,
        definitions: dict[str, Any],
        max_message_size: int,
        started_at: int = START,
        crew: Crew | None = None,
        **extensions: Any,
    ) -> None:
        self.outcome = Outcome()
        settings = Settings(max_message_size=max_message_size, login_failures_max=0)
        self.world = LiveWorld(definitions, settings, started_at, self.outcome, extensions)
        self._clients: dict[tuple[str, str], Client] = {}
        self._channels: dict[tuple[str, str], ChannelClient] = {}
        self._numbers: dict[tuple[str, str], int] = defaultdict(int)
        self._deaths: dict[int, Any] = {}
        self._workers: list[tuple[Worker, ChannelClient]] = []
        for plan in () if crew is None else crew.plans:
            for number in range(plan.count):
                self._hire(plan, f"{plan.queue}-{number}", crew.seed if crew is not None else 0)

    # -- time and consumers ------------------------------------------------------------------------------------------

    def _hire(self, plan: Any, tag: str, seed: int) -> None:
        channel = self.world.connect(plan.user, plan.vhost).channel()
        channel.qos(plan.prefetch)
        channel.consume(plan.queue, tag)
        self._workers.append((Worker(plan, tag, seed, lambda method: self._feed(channel, method)), channel))
        channel.client.wire.written.clear()

    def _feed(self, channel: ChannelClient, method: methods.Method) -> None:
        channel.client.connection.feed(frame(method, channel.number))

    def advance(self, until: int) -> None:
        node = self.world.node
        while True:
            timer = node.next_deadline()
            due, worker = min(
                ((worker.due, place) for place, (worker, _) in enumerate(self._workers) if worker.due >= 0),
                default=(-1, -1),
            )
            if 0 <= timer <= until and (due < 0 or timer <= due):
                node.tick(timer)
            elif 0 <= due <= until:
                node.tick(due)
                self._workers[worker][0].say()
            else:
                break
            self.end_turn()
        node.tick(until)
        self.end_turn()

    def end_turn(self) -> None:
        self.world.flush()
        for worker, channel in self._workers:
            written = bytes(channel.client.wire.written)
            channel.client.wire.written.clear()
            if written:
                worker.hear(written, int(self.world.node.now))

    # -- publishing --------------------------------------------------------------------------------------------------

    def publish(self, sent: Sent) -> None:
        self.advance(max(sent.at, int(self.world.node.now)))
        name = f"{sent.publisher}:{sent.sequence}"
        refusal = self._open(sent.user, sent.vhost)
        if refusal is not None:
            self.outcome.refusals[name] = refusal
            return
        place = (sent.user, sent.vhost)
        client, channel = self._clients[place], self._channels[place]
        properties = Properties(headers=sent.headers, **sent.properties)
        client.connection.feed(
            publish_frames(
                channel.number, sent.body, sent.routing_key, sent.exchange, sent.mandatory, properties,
                int(client.connection.frame_max),
            )
        )  # fmt: skip
        self.end_turn()
        client.receive()
        self._listen(place, name)

    def _listen(self, place: tuple[str, str], name: str) -> None:
        client, channel = self._clients[place], self._channels[place]
        for received in client.take(0):
            assert isinstance(received.method, methods.ConnectionClose), received.method
            self.outcome.refusals[name] = (received.method.reply_code, received.method.reply_text)
            client.send(methods.ConnectionCloseOk())
            client.lose()
            del self._clients[place], self._channels[place]
        for received in channel.take():
            method = received.method
            if isinstance(method, methods.BasicReturn):
                assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
                self.outcome.returns.append(name)
            elif isinstance(method, methods.ChannelClose):
                self.outcome.refusals[name] = (method.reply_code, method.reply_text)
                channel.send(methods.ChannelCloseOk())
                del self._channels[place]
            else:
                assert isinstance(method, (methods.BasicAck, methods.BasicNack)), method
                assert name not in self.outcome.confirms
                self.outcome.confirms[name] = "ack" if isinstance(method, methods.BasicAck) else "nack"

    def _open(self, user: str, vhost: str) -> tuple[int, str] | None:
        """A channel in confirm mode, or why there is none."""
        place = (user, vhost)
        if place not in self._clients:
            client = self.world.dial()
            client.log_in(user, user, CAPABILITIES)
            settings = self.world.settings
            client.send(methods.ConnectionTuneOk(settings.channel_max, settings.frame_max, 0))
            client.send(methods.ConnectionOpen(vhost))
            for received in client.take(0):
                if isinstance(received.method, methods.ConnectionClose):
                    client.send(methods.ConnectionCloseOk())
                    client.lose()
                    return received.method.reply_code, received.method.reply_text
            self._clients[place] = client
        if place not in self._channels:
            channel = self._clients[place].channel(1)
            channel.confirm()
            self._channels[place] = channel
        return None

    # -- the end -----------------------------------------------------------------------------------------------------

    def finish(self, until: int) -> Outcome:
        self.advance(until)
        assert self.world.node.monitor.failures == 0
        for vhost in list(self.world.node.vhosts.values()):
            schedules = [schedule_of(exchange) for exchange in vhost.exchanges.values()]
            for queue in [*vhost.queues.values(), *(schedule for schedule in schedules if schedule is not None)]:
                self._read(queue)
        return self.outcome

    def _read(self, queue: Queue) -> None:
        """Without taking anything: a basic.get would let the next head expire."""
        found: list[tuple[str, str, str, Any]] = []
        is_stream = isinstance(queue, Stream)
        for entry in queue.browse(0, 1_000_000) if is_stream else queue.backing.snapshot(1_000_000):
            message = entry.message
            headers = message.properties().headers or {}
            deaths = None if "x-death" not in headers else plain(headers["x-death"])
            found.append((name_in(message.content), message.origin.exchange, message.origin.keys[0], deaths))
        if found:
            self.outcome.contents[place_of(queue)] = found
        if found and is_stream:
            self.outcome.entered[place_of(queue)] = [row[0] for row in found]
