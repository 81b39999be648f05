"""A small AMQP client for scripted sessions: blocking sockets, every frame that arrives is kept in order per channel.

It never guesses: a reply that does not come within the deadline is an event of its own, and so is the server closing
the socket. Closes by the server are answered with close-ok unless the script wants to be rude.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Final

from tests.differential import wire

PATIENCE: Final = 12.0
# Round trips that only make sure that everything before them has been handled go over a channel of their own.
HIDDEN_CHANNEL: Final = 2000
CAPABILITIES: Final[dict[str, object]] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}
_WITH_CONTENT: Final = ("basic.deliver", "basic.get-ok", "basic.return")
_CONFIRMS: Final = ("basic.ack", "basic.nack")


class Broken(Exception):
    """The script cannot go on: what it needs did not arrive."""


@dataclass
class Event:
    """Something that arrived: a method with its content, or what befell the socket."""

    name: str
    fields: dict[str, object] = field(default_factory=dict)
    properties: dict[str, object] | None = None
    body: bytes = b""

    @property
    def tag(self) -> int:
        value = self.fields["delivery_tag"]
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str:
        value = self.fields[name]
        assert isinstance(value, str)
        return value


def confirmed_by(event: Event) -> set[int]:
    """The publishes that a basic.ack or basic.nack from the server speaks of."""
    return set(range(1, event.tag + 1)) if event.fields["multiple"] else {event.tag}


class Connection:
    """One TCP connection; `login` does the usual handshake, `start` leaves every step of it to the script."""

    def __init__(self, host: str, port: int) -> None:
        self.events: dict[int, list[Event]] = {}
        self.closed_channels: set[int] = set()
        self.open_channels: set[int] = set()
        self.sent: set[str] = set()
        self.answers_closes = True
        self.is_closing = False
        self.has_left = False
        self.is_over = False
        self._inbox: dict[int, list[Event]] = {}
        self._incomplete: dict[int, tuple[Event, int]] = {}
        self._received = b""
        self._socket = socket.create_connection((host, port), timeout=PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    # ---- sending ----

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            # The server is gone; reading says so in order.
            return

    def frame(self, kind: int, channel: int, payload: bytes, end: int = wire.END) -> None:
        self.send(wire.frame(kind, channel, payload, end))

    def method(self, channel: int, name: str, **fields: object) -> None:
        self.sent.add(name)
        self.frame(wire.METHOD, channel, wire.encode_method(name, **fields))

    def call(self, channel: int, name: str, **fields: object) -> Event:
        """Sends a method and waits for its reply, or for the close that comes instead."""
        self.method(channel, name, **fields)
        return self.reply(channel, *wire.METHODS[name].replies)

    # ---- waiting ----

    def reply(self, channel: int, *names: str) -> Event:
        """The next event of one of these names, or the close that makes it impossible."""
        closes = ("connection.close", "socket closed")
        deadline = time.monotonic() + PATIENCE
        while True:
            for place, names_there in ((channel, (*names, "channel.close")), (0, closes)):
                event = self._take(place, names_there)
                if event:
                    return event
            if self.is_over or not self._read(deadline):
                return self._note(channel, Event(f"nothing came, expected {' or '.join(names)}"))

    def expect(self, channel: int, name: str) -> Event:
        event = self.reply(channel, name)
        if event.name != name:
            raise Broken(f"waited for {name}, got {event.name}")
        return event

    def wait_closed(self, patience: float = PATIENCE) -> None:
        """Reads until the server closes the socket."""
        deadline = time.monotonic() + patience
        while not self.is_over:
            if not self._read(deadline):
                self._note(0, Event("nothing came, expected the server to close the socket"))
                return

    def _take(self, channel: int, names: tuple[str, ...]) -> Event | None:
        inbox = self._inbox.get(channel, [])
        for event in inbox:
            if event.name in names:
                inbox.remove(event)
                # A dead connection stays dead for whoever asks next.
                if event.name in ("connection.close", "socket closed"):
                    inbox.append(event)
                return event
        return None

    # ---- receiving ----

    def _read(self, deadline: float) -> bool:
        """Takes in what the socket has; False when the deadline passes first."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        self._socket.settimeout(left)
        try:
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            return False
        except OSError:
            data = b""
        if not data:
            self.is_over = True
            self._note(0, Event("socket closed"))
            return True
        self._received += data
        while self._cut_frame():
            pass
        return True

    def _cut_frame(self) -> bool:
        data = self._received
        if data[:4] == b"AMQP" and len(data) >= 8:
            self._received = data[8:]
            self._note(0, Event(f"protocol header {' '.join(str(octet) for octet in data[4:8])}"))
            return True
        if len(data) < 8 or data[:4] == b"AMQP":
            return False
        kind, channel, size = struct.unpack_from(">BHI", data)
        if len(data) < size + 8:
            return False
        payload, end, self._received = data[7 : size + 7], data[size + 7], data[size + 8 :]
        if end != wire.END:
            raise Broken(f"the server sent a frame that ends with {end:#x}")
        if kind != wire.HEARTBEAT:
            self._take_in(kind, channel, payload)
        return True

    def _take_in(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == wire.METHOD:
            self._take_in_method(channel, payload)
            return
        if channel not in self._incomplete:
            self._note(channel, Event(f"frame of type {kind} out of place"))
            return
        event, missing = self._incomplete.pop(channel)
        if kind == wire.HEADER:
            missing, event.properties = wire.decode_header(payload)
        else:
            event.body += payload
            missing -= len(payload)
        if missing:
            self._incomplete[channel] = (event, missing)
        else:
            self._note(channel, event)

    def _take_in_method(self, channel: int, payload: bytes) -> None:
        name, fields = wire.decode_method(payload)
        event = Event(name, fields)
        if name in _WITH_CONTENT:
            self._incomplete[channel] = (event, -1)
            return
        self._note(channel, event)
        if name == "connection.close-ok":
            self.has_left = True
        if not self.answers_closes:
            return
        if name == "channel.close":
            self.method(channel, "channel.close-ok")
            self.closed_channels.add(channel)
            self.open_channels.discard(channel)
        elif name == "connection.close":
            self.is_closing = True
            self.method(0, "connection.close-ok")

    def _note(self, channel: int, event: Event) -> Event:
        if channel != HIDDEN_CHANNEL:
            self.events.setdefault(channel, []).append(event)
        self._inbox.setdefault(channel, []).append(event)
        return event

    def forget(self, channel: int, event: Event) -> None:
        """Takes an event out of the record: it belongs to the test's own housekeeping."""
        events = self.events.get(channel, [])
        # By identity: two events of equal content are still two.
        self.events[channel] = [kept for kept in events if kept is not event]

    # ---- the usual steps ----

    def start(self) -> None:
        """Asks for AMQP 0-9-1 and takes connection.start, which is long and recorded where it is the subject."""
        self.send(wire.PROTOCOL_HEADER)
        event = self.reply(0, "connection.start")
        if event.name == "connection.start":
            self.forget(0, event)

    def start_ok(self, user: str = "guest", password: str = "guest", **fields: object) -> None:
        given: dict[str, object] = {
            "client_properties": {"product": "differential", "capabilities": CAPABILITIES},
            "mechanism": "PLAIN",
            "response": f"\0{user}\0{password}",
            "locale": "en_US",
        }
        self.method(0, "connection.start-ok", **(given | fields))

    def tune_ok(self, channel_max: int = 2047, frame_max: int = 131072, heartbeat: int = 0) -> None:
        self.method(0, "connection.tune-ok", channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)

    def login(self, user: str, password: str, vhost: str, **tune: int) -> None:
        """The handshake that goes well, left out of the record; when it does not go well the record shows it."""
        self.start()
        self.start_ok(user, password)
        if self.reply(0, "connection.tune").name == "connection.tune":
            self.tune_ok(**tune)
            self.call(0, "connection.open", virtual_host=vhost)
        if self.events.get(0, [])[-1].name == "connection.open-ok":
            self.events[0] = []

    def channel(self, number: int = 1) -> Channel:
        channel = Channel(self, number)
        event = self.call(number, "channel.open")
        if event.name == "channel.open-ok":
            self.forget(number, event)
            self.open_channels.add(number)
        return channel

    # ---- making sure ----

    @property
    def is_gone(self) -> bool:
        """Nothing more can be asked: one of the two sides has closed it."""
        return self.is_over or self.is_closing or self.has_left

    def round_trip(self) -> None:
        """Returns when the server has handled everything sent on the open channels so far."""
        if self.is_gone:
            return
        channels = sorted(self.open_channels)
        for channel in channels:
            self.method(channel, "channel.flow", active=True)
        for channel in channels:
            event = self.reply(channel, "channel.flow-ok")
            if event.name == "channel.flow-ok":
                self.forget(channel, event)

    def depth(self, queue: str) -> int:
        """Ready messages of a queue, asked outside the record; -1 when there is no such queue."""
        if HIDDEN_CHANNEL not in self.open_channels:
            self.call(HIDDEN_CHANNEL, "channel.open")
            self.closed_channels.discard(HIDDEN_CHANNEL)
            self.open_channels.add(HIDDEN_CHANNEL)
        event = self.call(HIDDEN_CHANNEL, "queue.declare", queue=queue, passive=True)
        count = event.fields.get("message_count", -1)
        assert isinstance(count, int)
        return count

    def settle(self, *queues: str) -> None:
        """Returns when the channels, then these queues in this order, then the channels again have nothing pending.

        Naming the queues along the way of a dead-lettered message follows the message.
        """
        self.round_trip()
        for queue in queues:
            if not self.is_gone:
                self.depth(queue)
        self.round_trip()

    def until_depth(self, queue: str, count: int) -> None:
        """Waits until the queue has that many ready messages (-1: until it is gone)."""
        deadline = time.monotonic() + PATIENCE
        in_a_row = 0
        # Twice in a row: a message on its way to the queue is not counted yet.
        while in_a_row < 2:
            found = self.depth(queue)
            in_a_row = in_a_row + 1 if found == count else 0
            if time.monotonic() > deadline:
                raise Broken(f"waited for {count} messages in a queue that has {found}")
            time.sleep(0.01)

    def close(self) -> None:
        """Leaves politely; nothing of it is recorded."""
        if not self.is_gone:
            kept = {channel: list(events) for channel, events in self.events.items()}
            self.call(0, "connection.close", reply_code=200, reply_text="bye")
            self.events = kept
        self._socket.close()

    def drop(self) -> None:
        """Leaves without a word."""
        self.is_over = True
        self._socket.close()


class Channel:
    """A channel and the calls that scripts make most; everything else goes through `call` and `send`."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self._confirmed: set[int] = set()

    def send(self, name: str, **fields: object) -> None:
        self.connection.method(self.number, name, **fields)

    def call(self, name: str, **fields: object) -> Event:
        return self.connection.call(self.number, name, **fields)

    def expect(self, name: str) -> Event:
        return self.connection.expect(self.number, name)

    def settle(self, *queues: str) -> None:
        self.connection.settle(*queues)

    def declare(self, queue: str = "", **fields: object) -> str:
        """Declares a queue and gives its name."""
        event = self.call("queue.declare", queue=queue, **fields)
        return event.text("queue") if event.name == "queue.declare-ok" else queue

    def exchange(self, exchange: str, kind: str = "direct", **fields: object) -> str:
        self.call("exchange.declare", exchange=exchange, exchange_type=kind, **fields)
        return exchange

    def bind(self, queue: str, exchange: str, key: str = "", **arguments: object) -> None:
        self.call("queue.bind", queue=queue, exchange=exchange, routing_key=key, arguments=arguments)

    def publish(
        self,
        exchange: str,
        key: str,
        body: bytes = b"hello",
        mandatory: bool = False,
        immediate: bool = False,
        **properties: object,
    ) -> None:
        flags: dict[str, object] = {"mandatory": mandatory, "immediate": immediate}
        self.send("basic.publish", exchange=exchange, routing_key=key, **flags)
        self.content(body, **properties)

    def content(self, body: bytes, **properties: object) -> None:
        self.raw(wire.HEADER, wire.header(len(body), wire.encode_properties(**properties)))
        for start in range(0, len(body), 131064):
            self.raw(wire.BODY, body[start : start + 131064])

    def raw(self, kind: int, payload: bytes) -> None:
        self.connection.frame(kind, self.number, payload)

    def get(self, queue: str, no_ack: bool = True) -> Event:
        return self.call("basic.get", queue=queue, no_ack=no_ack)

    def get_all(self, *queues: str) -> None:
        """Empties the queues, one after the other."""
        for queue in queues:
            while self.get(queue).name == "basic.get-ok":
                pass

    def consume(self, queue: str, tag: str = "c", **fields: object) -> Event:
        return self.call("basic.consume", queue=queue, consumer_tag=tag, **fields)

    def deliveries(self, count: int) -> list[Event]:
        return [self.expect("basic.deliver") for _ in range(count)]

    def ack(self, tag: int, multiple: bool = False) -> None:
        self.send("basic.ack", delivery_tag=tag, multiple=multiple)

    def nack(self, tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self.send("basic.nack", delivery_tag=tag, multiple=multiple, requeue=requeue)

    def reject(self, tag: int, requeue: bool = True) -> None:
        self.send("basic.reject", delivery_tag=tag, requeue=requeue)

    def confirms(self, upto: int) -> None:
        """Waits until all tags up to this one are confirmed, one by one or several at once."""
        while not self._confirmed.issuperset(range(1, upto + 1)):
            event = self.connection.reply(self.number, *_CONFIRMS)
            if event.name not in _CONFIRMS:
                raise Broken(f"waited for confirms, got {event.name}")
            self._confirmed |= confirmed_by(event)

    def close(self) -> None:
        self.call("channel.close", reply_code=200, reply_text="bye")
        self.connection.open_channels.discard(self.number)
