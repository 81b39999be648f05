"""Queues against a plain Python list: whatever clients do in whatever order, both hold and hand out the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.broker.harness import ChannelClient, Seen, World
from warren.amqp import methods
from warren.amqp.frames import body_of
from warren.amqp.properties import Properties

PRIORITIES = 3


@dataclass
class Item:
    """A message as the model knows it."""

    body: bytes
    order: int
    priority: int
    expires: int | None
    redelivered: bool = False


@dataclass
class Model:
    """One queue: ready items in a list, held ones by channel and tag."""

    max_length: int | None
    has_priorities: bool
    ttl: int | None
    ready: list[Item] = field(default_factory=list)
    dead: list[tuple[bytes, str]] = field(default_factory=list)
    published: int = 0

    def put(self, body: bytes, priority: int, expiration: int | None, now: int) -> Item:
        self.published += 1
        lives = [ttl for ttl in (self.ttl, expiration) if ttl is not None]
        level = min(priority, PRIORITIES) if self.has_priorities else 0
        return Item(body, self.published, level, now + min(lives) if lives else None)

    def enqueue(self, items: list[Item], now: int) -> None:
        self.ready += items
        self.ready.sort(key=lambda item: (-item.priority, item.order))
        while self.max_length is not None and len(self.ready) > self.max_length:
            self.dead.append((self.ready.pop(0).body, "maxlen"))
        self.expire(now)

    def expire(self, now: int) -> None:
        while self.ready and self.ready[0].expires is not None and self.ready[0].expires <= now:
            self.dead.append((self.ready.pop(0).body, "expired"))


class Client:
    """One channel, with at most one consumer, and what it holds."""

    def __init__(self, channel: ChannelClient) -> None:
        self.channel = channel
        self.held: dict[int, tuple[Item, bool]] = {}
        self.tag = 0
        self.consumer = ""
        self.prefetch = 0

    def consumed(self) -> int:
        return sum(1 for _, by_consumer in self.held.values() if by_consumer)

    def can_take(self) -> bool:
        return bool(self.consumer) and (self.prefetch == 0 or self.consumed() < self.prefetch)


class QueueMachine(RuleBasedStateMachine):
    @initialize(
        max_length=st.none() | st.integers(0, 4),
        has_priorities=st.booleans(),
        ttl=st.none() | st.integers(1, 50),
    )
    def start(self, max_length: int | None, has_priorities: bool, ttl: int | None) -> None:
        self.world = World()
        self.model = Model(max_length, has_priorities, ttl)
        self.publisher = self.world.channel()
        self.publisher.declare("dead")
        arguments: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        if max_length is not None:
            arguments["x-max-length"] = max_length
        if has_priorities:
            arguments["x-max-priority"] = PRIORITIES
        if ttl is not None:
            arguments["x-message-ttl"] = ttl
        self.publisher.declare("q", more=arguments)
        self.clients = [Client(self.world.channel()) for _ in range(2)]
        # In the order in which it is their turn.
        self.consumers: list[Client] = []
        self.count = 0

    # -- the model's own delivery ----------------------------------------------------------------------------------

    def now(self) -> int:
        return int(self.world.node.now)

    def next_able(self) -> Client | None:
        for place, client in enumerate(self.consumers):
            if client.can_take():
                self.consumers = self.consumers[place + 1 :] + self.consumers[: place + 1]
                return client
        return None

    def drain(self) -> None:
        """Hand out, and compare with what the broker handed out."""
        expected: dict[int, list[tuple[int, bytes, bool]]] = {id(client): [] for client in self.clients}
        while self.model.ready:
            client = self.next_able()
            if client is None:
                break
            item = self.model.ready.pop(0)
            if item.expires is not None and item.expires <= self.now():
                # It used up a turn: who is next among equals is no promise, only that all get some.
                self.model.dead.append((item.body, "expired"))
                continue
            self.hand_over(client, item, expected)
        self.model.expire(self.now())
        for client in self.clients:
            seen = [(one.tag, one.body, one.redelivered) for one in client.channel.deliveries()]
            assert seen == expected[id(client)]

    def hand_over(self, client: Client, item: Item, expected: dict[int, list[tuple[int, bytes, bool]]]) -> None:
        client.tag += 1
        client.held[client.tag] = (item, True)
        expected[id(client)].append((client.tag, item.body, item.redelivered))

    # -- what clients do -------------------------------------------------------------------------------------------

    @rule(priority=st.integers(0, PRIORITIES + 2), expiration=st.none() | st.integers(0, 60))
    def publish(self, priority: int, expiration: int | None) -> None:
        self.count += 1
        body = str(self.count).encode()
        properties = Properties(priority=priority, expiration=None if expiration is None else str(expiration))
        item = self.model.put(body, priority, expiration, self.now())
        self.publisher.publish(body, "q", properties=properties)
        if not self.model.ready:
            client = self.next_able()
            if client is not None:
                expected: dict[int, list[tuple[int, bytes, bool]]] = {id(one): [] for one in self.clients}
                self.hand_over(client, item, expected)
                seen = [(one.tag, one.body, one.redelivered) for one in client.channel.deliveries()]
                assert seen == expected[id(client)]
                return
        self.model.enqueue([item], self.now())
        self.drain()

    @rule(which=st.integers(0, 1), prefetch=st.integers(0, 3))
    def consume(self, which: int, prefetch: int) -> None:
        client = self.clients[which]
        if client.consumer:
            return
        client.channel.qos(prefetch)
        client.prefetch = prefetch
        client.channel.send(methods.BasicConsume(queue="q"))
        client.consumer = client.channel.expect(methods.BasicConsumeOk).consumer_tag
        # What an earlier consumer of the channel still holds is not this one's.
        client.held = {tag: (item, False) for tag, (item, _) in client.held.items()}
        self.consumers.append(client)
        self.drain()

    @rule(which=st.integers(0, 1))
    def cancel(self, which: int) -> None:
        client = self.clients[which]
        if not client.consumer:
            return
        client.channel.cancel(client.consumer)
        client.consumer = ""
        self.consumers.remove(client)
        self.drain()

    @rule(which=st.integers(0, 1), keep=st.booleans())
    def get(self, which: int, keep: bool) -> None:
        client = self.clients[which]
        self.model.expire(self.now())
        seen: Seen | None = client.channel.get("q", no_ack=not keep)
        if not self.model.ready:
            assert seen is None
            return
        item = self.model.ready.pop(0)
        client.tag += 1
        assert seen is not None
        assert (seen.tag, seen.body, seen.redelivered) == (client.tag, item.body, item.redelivered)
        if keep:
            client.held[client.tag] = (item, False)
        self.drain()

    @precondition(lambda self: any(client.held for client in self.clients))
    @rule(data=st.data(), outcome=st.sampled_from(["ack", "requeue", "reject"]), multiple=st.booleans())
    def settle(self, data: st.DataObject, outcome: str, multiple: bool) -> None:
        client = data.draw(st.sampled_from([one for one in self.clients if one.held]))
        tag = data.draw(st.sampled_from(sorted(client.held)))
        tags = [one for one in sorted(client.held) if one <= tag] if multiple else [tag]
        items = [client.held.pop(one)[0] for one in tags]
        if outcome == "ack":
            client.channel.ack(tag, multiple)
        else:
            client.channel.nack(tag, multiple, requeue=outcome == "requeue")
        if outcome == "reject":
            self.model.dead += [(item.body, "rejected") for item in items]
        if outcome == "requeue":
            self.requeue(items)
        self.drain()

    def requeue(self, items: list[Item]) -> None:
        for item in items:
            item.redelivered = True
        self.model.enqueue(items, self.now())

    @rule(which=st.integers(0, 1))
    def leave(self, which: int) -> None:
        """The channel closes and another takes its place."""
        client = self.clients[which]
        client.channel.close()
        if client in self.consumers:
            self.consumers.remove(client)
        self.requeue([item for item, _ in client.held.values()])
        self.clients[which] = Client(self.world.channel())
        self.drain()

    @rule(milliseconds=st.integers(1, 40))
    def wait(self, milliseconds: int) -> None:
        self.world.advance(milliseconds)
        self.model.expire(self.now())
        self.drain()

    @rule()
    def purge(self) -> None:
        ok = self.publisher.call(methods.QueuePurge(queue="q"), methods.QueuePurgeOk)
        assert ok.message_count == len(self.model.ready)
        self.model.ready.clear()

    @invariant()
    def both_hold_the_same(self) -> None:
        if not hasattr(self, "world"):
            return
        queue = self.world.queue("q")
        waiting = [body_of(entry.message.content) for entry in queue.backing.snapshot(1000)]
        assert waiting == [item.body for item in self.model.ready]
        assert queue.backing.length == len(self.model.ready)
        assert queue.backing.body_bytes == sum(len(item.body) for item in self.model.ready)
        assert queue.unacked == sum(len(client.held) for client in self.clients)

    @invariant()
    def the_dead_are_the_same(self) -> None:
        if not hasattr(self, "world"):
            return
        found: list[tuple[bytes, object]] = []
        seen = self.publisher.get("dead", no_ack=True)
        while seen is not None:
            found.append((seen.body, seen.received.header("x-last-death-reason")))
            seen = self.publisher.get("dead", no_ack=True)
        assert found == self.model.dead
        self.model.dead.clear()


TestQueueModel = QueueMachine.TestCase
TestQueueModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
