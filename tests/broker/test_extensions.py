"""Plug-ins: interceptors that change or refuse methods, decorators of exchanges and queues."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World, publish_frames
from warren.amqp import methods
from warren.amqp.methods import Method
from warren.amqp.properties import Properties, encode_properties
from warren.broker.channel import Channel
from warren.broker.exchanges.base import Destination, Envelope, Exchange, ExchangeDecorator
from warren.broker.interceptors import Interceptor, QueueDecorator
from warren.broker.queue import Queue
from warren.errors import NotAllowed, PreconditionFailed, WarrenError


class Recording(Interceptor):
    """Keeps what it sees; renames queues, refuses some, and rewrites contents."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = list(names)
        self.seen: list[Method] = []

    def applies_to(self) -> list[str]:
        return self.names

    def intercept(self, channel: Channel, method: Method) -> Method:
        self.seen.append(method)
        if isinstance(method, methods.QueueDeclare):
            if method.queue == "soft":
                raise PreconditionFailed("not this one")
            if method.queue == "hard":
                raise NotAllowed("not here")
            method.queue = f"{channel.user}.{method.queue}"
        if isinstance(method, methods.BasicPublish) and method.routing_key == "old":
            return methods.BasicPublish(exchange=method.exchange, routing_key="new", mandatory=method.mandatory)
        return method

    def intercept_content(self, channel: Channel, properties: bytes, body: bytes) -> tuple[bytes, bytes]:
        return encode_properties(Properties(app_id="stamped")), body.upper()


def install(world: World, *names: str) -> Recording:
    interceptor = Recording(*names)
    world.node.install_interceptor(interceptor)
    return interceptor


def test_an_interceptor_changes_a_method(world: World) -> None:
    install(world, "queue.declare")
    assert world.channel().declare("q").queue == "guest.q"
    assert "guest.q" in world.vhost.queues


def test_an_interceptor_refuses_a_method_softly(world: World) -> None:
    install(world, "queue.declare")
    channel = world.channel()
    channel.send(methods.QueueDeclare(queue="soft"))
    close = channel.expect(methods.ChannelClose)
    assert (close.reply_code, close.reply_text) == (406, "PRECONDITION_FAILED - not this one")
    assert (close.class_id, close.method_id) == (50, 10)


def test_an_interceptor_refuses_a_method_hard(world: World) -> None:
    install(world, "queue.declare")
    channel = world.channel()
    channel.send(methods.QueueDeclare(queue="hard"))
    assert channel.client.expect_close() == (530, "NOT_ALLOWED - not here")


def test_an_interceptor_sees_only_what_it_asked_for(world: World) -> None:
    interceptor = install(world, "basic.get")
    channel = world.channel()
    channel.declare("q")
    channel.publish("m", "q")
    channel.got("q")
    assert [method.name for method in interceptor.seen] == ["basic.get"]


@pytest.mark.parametrize("frame_max", [131072, 12])
def test_an_interceptor_changes_a_publish_and_its_content(world: World, frame_max: int) -> None:
    install(world, "basic.publish")
    channel = world.channel()
    channel.declare("new")
    channel.confirm()
    properties = Properties(app_id="own", content_type="text/plain")
    channel.client.feed(publish_frames(1, "quiet words", "old", properties=properties, frame_max=frame_max))
    assert channel.confirms() == [("ack", 1, False)]
    seen = channel.got("new")
    assert (seen.body, seen.routing_key) == (b"QUIET WORDS", "new")
    assert seen.received.properties == Properties(app_id="stamped")


def test_acks_are_intercepted_like_all_methods(world: World) -> None:
    interceptor = install(world, "basic.ack")
    channel = world.channel()
    channel.declare("q")
    channel.publish("m", "q")
    channel.get("q")
    channel.ack(1)
    assert interceptor.seen == [methods.BasicAck(1)]
    assert world.queue("q").unacked == 0


def test_empty_names_are_filled_in_before_interceptors_see_them(world: World) -> None:
    interceptor = install(world, "queue.bind", "basic.get", "basic.consume", "queue.purge", "queue.delete")
    channel = world.channel()
    channel.declare("q")
    channel.send(methods.QueueBind(exchange="amq.direct"))
    channel.send(methods.BasicGet())
    channel.send(methods.BasicConsume())
    channel.send(methods.QueuePurge())
    channel.send(methods.QueueDelete())
    assert [method.queue for method in interceptor.seen] == ["q"] * 5  # type: ignore[attr-defined]
    first = interceptor.seen[0]
    assert isinstance(first, methods.QueueBind)
    assert first.routing_key == "q"


def test_a_method_has_one_interceptor(world: World) -> None:
    install(world, "basic.get")
    with pytest.raises(WarrenError, match=r"two interceptors want basic\.get: Recording and Recording"):
        install(world, "basic.get")


def test_a_faulty_interceptor_costs_one_connection(world: World) -> None:
    class Faulty(Interceptor):
        def applies_to(self) -> list[str]:
            return ["basic.get"]

        def intercept(self, channel: Channel, method: Method) -> Method:
            raise RuntimeError("a bug in a plug-in")

    world.node.install_interceptor(Faulty())
    channel, other = world.channel(), world.channel()
    channel.send(methods.BasicGet(queue="q"))
    assert channel.client.expect_close()[0] == 541
    other.declare("q")


class Copying(ExchangeDecorator):
    """Sends a copy of everything to one queue."""

    def __init__(self, queue: Destination) -> None:
        super().__init__()
        self.queue = queue
        self.keys: list[str] = []

    def route(self, exchange: Exchange, envelope: Envelope) -> list[Destination]:
        self.keys += envelope.keys
        return [self.queue] if exchange.name else []


def test_an_exchange_decorator_adds_destinations_and_queues_get_one_copy(world: World) -> None:
    channel = world.channel()
    channel.declare("copies")
    channel.declare("q")
    channel.bind("q", "amq.direct", "k")
    channel.bind("copies", "amq.direct", "both")
    decorator = Copying(world.queue("copies"))
    world.node.exchange_decorators.append(decorator)
    world.node.topology_changed()
    for key in ("k", "k", "both", "neither"):
        channel.publish(key, key, "amq.direct")
    assert channel.bodies_in("q") == [b"k", b"k"]
    assert channel.bodies_in("copies") == [b"k", b"k", b"both", b"neither"]
    assert decorator.keys == ["k", "k", "both", "neither"]


def test_what_a_decorator_adds_counts_as_routed_but_not_against_the_alternate(world: World) -> None:
    channel = world.channel()
    channel.declare("copies")
    channel.declare("q")
    channel.bind("q", "amq.fanout")
    channel.declare_exchange("x", "direct", alternate_exchange="amq.fanout")
    world.node.exchange_decorators.append(Copying(world.queue("copies")))
    channel.publish("m", "k", "x", mandatory=True)
    assert channel.take() == []
    assert channel.bodies_in("copies") == [b"m"]
    assert channel.bodies_in("q") == [b"m"]


class Listening(QueueDecorator):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def startup(self, queue: Queue) -> None:
        self.heard.append(f"startup {queue.name}")

    def shutdown(self, queue: Queue) -> None:
        self.heard.append(f"shutdown {queue.name}")

    def policy_changed(self, queue: Queue) -> None:
        self.heard.append(f"policy {queue.name}")

    def consumer_state_changed(self, queue: Queue) -> None:
        self.heard.append(f"consumers {queue.name} {queue.consumers.count}")


def test_a_queue_decorator_hears_of_a_queues_life(world: World) -> None:
    decorator = Listening()
    world.node.queue_decorators.append(decorator)
    channel = world.channel()
    channel.declare("q")
    assert decorator.heard[-1] == "startup q"
    decorator.heard.clear()
    channel.consume("q", "c")
    channel.cancel("c")
    world.set_policy("^q$", {"max-length": 5})
    channel.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk)
    assert decorator.heard == ["consumers q 1", "consumers q 0", "policy q", "shutdown q"]


def test_a_queue_decorator_hears_of_consumers_that_vanish(world: World) -> None:
    decorator = Listening()
    world.node.queue_decorators.append(decorator)
    channel: ChannelClient = world.channel()
    channel.declare("q")
    channel.consume("q")
    decorator.heard.clear()
    channel.client.lose()
    assert decorator.heard == ["consumers q 0"]
