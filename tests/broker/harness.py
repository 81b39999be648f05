"""A world for the core that a test holds in its hand: clock, disk, sockets and passwords are plain objects.

`World` is a node with one user (guest) and one vhost (/). `Client` speaks AMQP to it: what a test sends is handled and
flushed before the call returns, and what came back lies decoded in the inbox of its channel.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field
from typing import TypeVar

from warren.amqp import methods
from warren.amqp.constants import PROTOCOL_HEADER
from warren.amqp.fields import Field, table_of
from warren.amqp.frames import body_parts, content_frames
from warren.amqp.methods import Method
from warren.amqp.properties import Properties, encode_properties
from warren.broker.message import Message
from warren.broker.node import Node
from warren.broker.operate.first_start import make_defaults
from warren.broker.queue.backing import Backing
from warren.broker.queue.entry import Entry
from warren.broker.queue.errands import Errand
from warren.broker.queue.queue import Queue
from warren.broker.queue.store import Store
from warren.broker.rules.access import User
from warren.broker.rules.policies import POLICY, PolicySet, parse
from warren.broker.settings import Settings
from warren.broker.world import Host, Login, Wire
from warren.client.session import Session, frame_of

M = TypeVar("M", bound=Method)

START = 1_700_000_000_000
CAPABILITIES: dict[str, object] = {
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
    "publisher_confirms": True,
    "basic.nack": True,
}


class FakeHost(Host):
    def __init__(self) -> None:
        self.woken = False
        self.lines: list[tuple[int, str]] = []
        self.tokens = 0
        self.draws = 0
        # The stopwatch goes on by one whenever it is looked at.
        self.nanoseconds = 0
        self.arrived = 0
        # When set, passwords are checked only when the test calls `answer_passwords`.
        self.holds_passwords = False
        self.waiting_passwords: list[tuple[Login, bool]] = []

    def wake(self) -> None:
        self.woken = True

    def token(self) -> str:
        self.tokens += 1
        return f"token-{self.tokens:016d}"

    def draw(self) -> int:
        self.draws += 1
        return self.draws

    def stopwatch(self) -> int:
        self.nanoseconds += 1
        return self.nanoseconds

    def arrival(self) -> int:
        return self.arrived

    def remembers_password(self, algorithm: str, password_hash: str, password: str) -> bool:
        return False

    def verify_password(self, login: Login, algorithm: str, password_hash: str, password: str) -> None:
        is_right = bool(password_hash) and password_hash == password
        if self.holds_passwords:
            self.waiting_passwords.append((login, is_right))
        else:
            login.password_verified(is_right)

    def answer_passwords(self) -> None:
        waiting, self.waiting_passwords = self.waiting_passwords, []
        for connection, is_right in waiting:
            connection.password_verified(is_right)

    def log(self, level: int, text: str) -> None:
        self.lines.append((level, text))

    def logged(self) -> str:
        return "\n".join(text for _, text in self.lines)


class FakeWire(Wire):
    def __init__(self) -> None:
        self.written = bytearray()
        self.writes = 0
        self.reading = True
        self.closed = False

    def is_reading(self) -> bool:
        return self.reading

    def is_closed(self) -> bool:
        return self.closed

    def write(self, data: bytes) -> None:
        self.written += data
        self.writes += 1

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self, farewell: bytes) -> None:
        if farewell:
            self.write(farewell)
        self.closed = True


class FakeBacking(Backing):
    """Counts what a disk would have to write, and fails when told to."""

    def __init__(self, store: FakeStore, queue: Queue) -> None:
        super().__init__()
        self.store = store
        self.queue = queue
        self.settled: list[Entry] = []
        self.discarded: list[Message] = []

    def publish(self, entry: Entry) -> None:
        self._fail_if_told("publish")
        super().publish(entry)
        self._write(entry)

    def publish_delivered(self, entry: Entry) -> None:
        self._fail_if_told("publish")
        self._write(entry)

    def discard(self, message: Message) -> None:
        self._fail_if_told("publish")
        self.discarded.append(message)

    def fetch(self) -> Entry | None:
        self._fail_if_told("fetch")
        return super().fetch()

    def requeue(self, entry: Entry) -> None:
        self._fail_if_told("requeue")
        super().requeue(entry)

    def settle(self, entry: Entry) -> None:
        self._fail_if_told("settle")
        self.settled.append(entry)
        self._write(entry)

    def _fail_if_told(self, what: str) -> None:
        if (self.queue.name, what) in self.store.failing:
            raise OSError(f"the disk of {self.queue.name} failed")

    def _write(self, entry: Entry) -> None:
        if self.queue.durable and entry.message.persistent:
            self.store.wrote()


class FakeStore(Store):
    """A disk that syncs at once, unless the test holds it."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self.behind = False
        self.failing: set[tuple[str, str]] = set()
        self.deleted: list[str] = []

    def open(self, queue: Queue, level: int) -> Backing:
        return FakeBacking(self, queue)

    def delete(self, queue: Queue) -> Errand:
        self.deleted.append(queue.name)
        return super().delete(queue)

    def is_behind(self) -> bool:
        return self.behind

    def wrote(self) -> None:
        self.position += 1
        if not self.holds:
            self.synced = self.position


def put_policy(
    policies: PolicySet,
    name: str,
    pattern: object,
    definition: object,
    priority: object = 0,
    apply_to: object = "all",
    kind: str = POLICY,
) -> None:
    """Without telling the vhost, which applies it when it is asked to."""
    rule = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to}
    policies.put(parse(kind, "/", name, rule, {}))


class PlainHasher:
    def hash(self, password: str) -> tuple[str, str]:
        return "plain", password


class World:
    def __init__(self, settings: Settings | None = None, store: FakeStore | None = None) -> None:
        self.host = FakeHost()
        self.store = store or FakeStore()
        self.settings = settings or Settings()
        self.node = Node(self.host, self.settings, None, self.store, START)
        make_defaults(self.node, PlainHasher())
        self.vhost = self.node.vhosts["/"]

    def queue(self, name: str) -> Queue:
        return self.vhost.queues[name]

    def add_user(self, name: str, configure: str = ".*", write: str = ".*", read: str = ".*", **limits: int) -> User:
        user = User(name, name, "plain", [], {key.replace("_", "-"): value for key, value in limits.items()})
        self.node.access.put_user(user)
        self.node.access.set_permission(name, "/", configure, write, read)
        return user

    def set_policy(self, pattern: str, definition: dict[str, object], name: str = "p", apply_to: str = "all") -> None:
        put_policy(self.vhost.policies, name, pattern, definition, 0, apply_to)
        self.vhost.reapply_policies()
        self.flush()

    def clear_policy(self, name: str = "p") -> None:
        self.vhost.policies.delete(name)
        self.vhost.reapply_policies()
        self.flush()

    def advance(self, milliseconds: int) -> None:
        self.node.tick(self.node.now + milliseconds)
        self.flush()

    def flush(self) -> None:
        """End the turn, and the turns that this turn asks for."""
        for _ in range(10_000):
            if not self.host.woken:
                return
            self.host.woken = False
            self.node.flush()
        raise AssertionError("the node never comes to rest")

    def sync(self, position: int | None = None) -> None:
        """The disk has caught up (to `position`)."""
        self.store.synced = self.store.position if position is None else position
        self.store.behind = False
        self.node.flush()
        self.flush()

    def dial(self, peer_host: str = "127.0.0.1") -> Client:
        """A socket on which nothing was said yet."""
        return Client(self, peer_host)

    def connect(
        self,
        user: str = "guest",
        vhost: str = "/",
        capabilities: dict[str, object] | None = None,
        heartbeat: int = 0,
        frame_max: int = 0,
        channel_max: int = 0,
        publisher: dict[str, object] | None = None,
    ) -> Client:
        client = self.dial()
        client.log_in(user, user, CAPABILITIES if capabilities is None else capabilities, publisher)
        client.expect(methods.ConnectionTune)
        client.send(
            methods.ConnectionTuneOk(
                channel_max or self.settings.channel_max, frame_max or self.settings.frame_max, heartbeat
            )
        )
        client.send(methods.ConnectionOpen(vhost))
        client.expect(methods.ConnectionOpenOk)
        return client

    def channel(self) -> ChannelClient:
        """Channel 1 of a new connection."""
        return self.connect().channel()


@dataclass
class Received:
    channel: int
    method: Method
    properties: Properties = field(default_factory=Properties)
    body: bytes = b""
    # Sizes of the body frames that it came in.
    frames: list[int] = field(default_factory=list)

    def header(self, name: str) -> object:
        headers = self.properties.headers or {}
        found = headers.get(name)
        return None if found is None else found.value


@dataclass
class Seen:
    """A message as a consumer or a basic.get sees it."""

    tag: int
    body: bytes
    redelivered: bool
    exchange: str
    routing_key: str
    consumer: str
    received: Received


class Client:
    def __init__(self, world: World, peer_host: str = "127.0.0.1") -> None:
        self.world = world
        self.wire = FakeWire()
        self.connection = world.node.connect(self.wire, peer_host, 40000, "127.0.0.1", 5672)
        self.session = Session()
        self.inbox: dict[int, deque[Received]] = {}
        self._read = 0

    @property
    def heartbeats(self) -> int:
        return self.session.heartbeats

    # -- out -------------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """One read of the broker's socket, and the end of its turn."""
        self.connection.feed(data)
        self.world.flush()
        self.receive()

    def send(self, method: Method, channel: int = 0) -> None:
        self.feed(frame(method, channel))

    def log_in(
        self,
        user: str,
        password: str,
        capabilities: dict[str, object] | None = None,
        publisher: dict[str, object] | None = None,
    ) -> None:
        self.feed(PROTOCOL_HEADER)
        self.expect(methods.ConnectionStart)
        properties = table_of({"capabilities": CAPABILITIES if capabilities is None else capabilities})
        if publisher is not None:
            properties["x-publisher"] = Field("F", table_of(publisher))
        self.send(methods.ConnectionStartOk(properties, "PLAIN", f"\0{user}\0{password}".encode()))

    def channel(self, number: int = 1) -> ChannelClient:
        self.send(methods.ChannelOpen(), number)
        channel = ChannelClient(self, number)
        channel.expect(methods.ChannelOpenOk)
        return channel

    def lose(self) -> None:
        """The socket breaks."""
        self.connection.lost()
        self.world.flush()

    # -- in --------------------------------------------------------------------------------------------------------

    def receive(self) -> None:
        """Decode what the broker wrote since."""
        data = bytes(self.wire.written[self._read :])
        self._read += len(data)
        if data == PROTOCOL_HEADER:
            return
        self.session.feed(data)
        while (found := self.session.take()) is not None:
            received = Received(found.channel, found.method, found.properties, found.body)
            if found.content:
                # Class basic and weight 0, and no frame of a body without a byte in it.
                assert found.content[7:11] == b"\x00\x3c\x00\x00"
                received.frames = [len(part) for part in body_parts(found.content)]
                assert all(received.frames)
            self.inbox.setdefault(found.channel, deque()).append(received)

    def take(self, channel: int = 0) -> list[Received]:
        """All that came on a channel and was not taken yet."""
        self.receive()
        box = self.inbox.setdefault(channel, deque())
        taken = list(box)
        box.clear()
        return taken

    def expect(self, kind: type[M], channel: int = 0) -> M:
        """The next method on a channel, which must be of this kind."""
        self.receive()
        box = self.inbox.setdefault(channel, deque())
        assert box, f"nothing came on channel {channel}, expected {kind.__name__}"
        method = box.popleft().method
        assert isinstance(method, kind), f"expected {kind.__name__}, came {method!r}"
        return method

    def expect_close(self) -> tuple[int, str]:
        close = self.expect(methods.ConnectionClose)
        return close.reply_code, close.reply_text


class ChannelClient:
    def __init__(self, client: Client, number: int) -> None:
        self.client = client
        self.number = number

    def send(self, method: Method) -> None:
        self.client.send(method, self.number)

    def take(self) -> list[Received]:
        return self.client.take(self.number)

    def heard(self) -> list[Method]:
        return [received.method for received in self.take()]

    def names(self) -> list[str]:
        return [method.name for method in self.heard()]

    def expect(self, kind: type[M]) -> M:
        return self.client.expect(kind, self.number)

    def call(self, method: Method, answer: type[M]) -> M:
        self.send(method)
        return self.expect(answer)

    def refused(self, method: Method) -> tuple[int, str]:
        """Send what closes the channel; code and text of the close."""
        self.send(method)
        return self.expect_close()

    def expect_close(self) -> tuple[int, str]:
        close = self.expect(methods.ChannelClose)
        return close.reply_code, close.reply_text

    # -- what clients ask ------------------------------------------------------------------------------------------

    def declare(
        self,
        queue: str = "",
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        more: dict[str, object] | None = None,
        **arguments: object,
    ) -> methods.QueueDeclareOk:
        """x_message_ttl=5 is the argument x-message-ttl; `more` are arguments by their names on the wire."""
        table = table_of({key.replace("_", "-"): value for key, value in arguments.items()} | (more or {}))
        method = methods.QueueDeclare(
            queue=queue,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            passive=passive,
            arguments=table,
        )
        return self.call(method, methods.QueueDeclareOk)

    def declare_exchange(
        self, name: str, type: str = "direct", internal: bool = False, auto_delete: bool = False, **arguments: object
    ) -> None:
        table = table_of({key.replace("_", "-"): value for key, value in arguments.items()})
        method = methods.ExchangeDeclare(
            exchange=name, type=type, internal=internal, auto_delete=auto_delete, arguments=table
        )
        self.call(method, methods.ExchangeDeclareOk)

    def bind(self, queue: str, exchange: str, key: str = "") -> None:
        self.call(methods.QueueBind(queue=queue, exchange=exchange, routing_key=key), methods.QueueBindOk)

    def publish(
        self,
        body: bytes | str,
        key: str = "",
        exchange: str = "",
        mandatory: bool = False,
        properties: Properties | None = None,
    ) -> None:
        frame_max = int(self.client.connection.frame_max)
        self.client.feed(publish_frames(self.number, body, key, exchange, mandatory, properties, frame_max))

    def persist(self, body: bytes | str, key: str = "", exchange: str = "") -> None:
        self.publish(body, key, exchange, properties=Properties(delivery_mode=2))

    def consume(
        self,
        queue: str,
        tag: str = "",
        no_ack: bool = False,
        exclusive: bool = False,
        **arguments: object,
    ) -> str:
        table = table_of({key.replace("_", "-"): value for key, value in arguments.items()})
        method = methods.BasicConsume(
            queue=queue, consumer_tag=tag, no_ack=no_ack, exclusive=exclusive, arguments=table
        )
        return self.call(method, methods.BasicConsumeOk).consumer_tag

    def cancel(self, tag: str) -> None:
        self.call(methods.BasicCancel(tag), methods.BasicCancelOk)

    def qos(self, count: int, whole_channel: bool = False) -> None:
        self.call(methods.BasicQos(0, count, whole_channel), methods.BasicQosOk)

    def ack(self, tag: int, multiple: bool = False) -> None:
        self.send(methods.BasicAck(tag, multiple))

    def nack(self, tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self.send(methods.BasicNack(tag, multiple, requeue))

    def reject(self, tag: int, requeue: bool = False) -> None:
        self.send(methods.BasicReject(tag, requeue))

    def get(self, queue: str, no_ack: bool = False) -> Seen | None:
        """None when the queue is empty."""
        self.send(methods.BasicGet(queue=queue, no_ack=no_ack))
        received = self.client.inbox[self.number].popleft()
        if isinstance(received.method, methods.BasicGetEmpty):
            return None
        return _message(received)

    def got(self, queue: str) -> Seen:
        message = self.get(queue, no_ack=True)
        assert message is not None
        return message

    def bodies_in(self, queue: str) -> list[bytes]:
        """Take all that is ready."""
        found: list[bytes] = []
        message = self.get(queue, no_ack=True)
        while message is not None:
            found.append(message.body)
            message = self.get(queue, no_ack=True)
        return found

    def deliveries(self) -> list[Seen]:
        """What was delivered since; nothing else may have come."""
        return [_message(received) for received in self.take()]

    def delivered(self) -> list[bytes]:
        return [message.body for message in self.deliveries()]

    def confirm(self) -> None:
        self.call(methods.ConfirmSelect(), methods.ConfirmSelectOk)

    def confirms(self) -> list[tuple[str, int, bool]]:
        """("ack" or "nack", number, multiple) since; nothing else may have come."""
        found: list[tuple[str, int, bool]] = []
        for method in self.heard():
            assert isinstance(method, (methods.BasicAck, methods.BasicNack)), method
            found.append((method.name.removeprefix("basic."), method.delivery_tag, method.multiple))
        return found

    def begin(self) -> None:
        self.call(methods.TxSelect(), methods.TxSelectOk)

    def commit(self) -> None:
        self.call(methods.TxCommit(), methods.TxCommitOk)

    def close(self) -> None:
        self.call(methods.ChannelClose(200, "bye"), methods.ChannelCloseOk)


def _message(received: Received) -> Seen:
    method = received.method
    assert isinstance(method, (methods.BasicDeliver, methods.BasicGetOk)), method
    return Seen(
        method.delivery_tag,
        received.body,
        method.redelivered,
        method.exchange,
        method.routing_key,
        method.consumer_tag if isinstance(method, methods.BasicDeliver) else "",
        received,
    )


def frame(method: Method, channel: int = 0) -> bytes:
    return frame_of(method, channel)


def publish_frames(
    channel: int,
    body: bytes | str,
    key: str = "",
    exchange: str = "",
    mandatory: bool = False,
    properties: Properties | None = None,
    frame_max: int = 131072,
) -> bytes:
    raw = body.encode() if isinstance(body, str) else body
    method = methods.BasicPublish(exchange=exchange, routing_key=key, mandatory=mandatory)
    encoded = encode_properties(properties or Properties())
    return frame(method, channel) + content_frames(channel, encoded, raw, frame_max)


def raw_frame(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])
