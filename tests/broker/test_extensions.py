"""Plug-ins: interceptors that change or refuse methods, decorators of exchanges and queues."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World, publish_frames
from warren.amqp import methods
from warren.amqp.methods import Method
from warren.amqp.properties import Properties, encode_properties
from warren.broker.exchanges.base import Destination, Envelope, Exchange, ExchangeDecorator
from warren.broker.exchanges.route import is_cacheable
from warren.broker.operate import administer, definitions
from warren.broker.queue.decorators import QueueDecorator
from warren.broker.queue.queue import Queue
from warren.broker.rules.policies import OPERATOR_POLICY, ValidationFailed
from warren.broker.rules.setting_kinds import Flag, Kind, Number
from warren.broker.session.channel import Channel
from warren.broker.session.interceptors import Interceptor
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


def test_rejects_are_intercepted_like_all_methods(world: World) -> None:
    interceptor = install(world, "basic.nack", "basic.reject")
    channel = world.channel()
    channel.declare("q")
    for body in ("m", "n"):
        channel.publish(body, "q")
        channel.get("q")
    channel.reject(1)
    channel.send(methods.BasicNack(2, requeue=False))
    assert interceptor.seen == [methods.BasicReject(1, requeue=False), methods.BasicNack(2, requeue=False)]
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
    world.node.install_exchange_decorator(decorator)
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
    world.node.install_exchange_decorator(Copying(world.queue("copies")))
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
    world.node.install_queue_decorator(decorator)
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
    world.node.install_queue_decorator(decorator)
    channel: ChannelClient = world.channel()
    channel.declare("q")
    channel.consume("q")
    decorator.heard.clear()
    channel.client.lose()
    assert decorator.heard == ["consumers q 0"]


class Chosen(ExchangeDecorator):
    """Copies to a queue, on the exchanges whose policy says so."""

    def __init__(self, queue: Destination) -> None:
        super().__init__()
        self.queue = queue

    def policy_keys(self) -> dict[str, Kind]:
        return {"copies": Flag()}

    def active_for(self, exchange: Exchange) -> bool:
        return exchange.effective_policy.get("copies") is True

    def route(self, exchange: Exchange, envelope: Envelope) -> list[Destination]:
        return [self.queue]


def test_a_policy_chooses_the_exchanges_that_a_decorator_is_active_for(world: World) -> None:
    channel = world.channel()
    channel.declare("copies")
    world.node.install_exchange_decorator(Chosen(world.queue("copies")))
    channel.declare_exchange("x", "direct")
    channel.publish("before", "k", "x")
    administer.set_policy(world.node, "/", "p", "^(x|later)$", {"copies": True}, 0, "exchanges")
    channel.publish("during", "k", "x")
    channel.declare_exchange("later", "direct")
    channel.publish("new", "k", "later")
    channel.publish("other", "k", "amq.direct")
    administer.delete_policy(world.node, "/", "p")
    channel.publish("after", "k", "x")
    assert channel.bodies_in("copies") == [b"during", b"new"]


def test_a_decorator_costs_nothing_where_it_is_not_active(world: World) -> None:
    channel = world.channel()
    channel.declare("copies")
    world.node.install_exchange_decorator(Chosen(world.queue("copies")))
    channel.declare_exchange("x", "direct")
    channel.declare_exchange("y", "direct")
    administer.set_policy(world.node, "/", "p", "^x$", {"copies": True}, 0, "exchanges")
    exchanges = world.vhost.exchanges
    assert not is_cacheable(exchanges, exchanges["x"])
    assert is_cacheable(exchanges, exchanges["y"])
    administer.delete_policy(world.node, "/", "p")
    assert is_cacheable(exchanges, exchanges["x"])


def test_what_the_broker_says_of_itself_is_not_decorated_unless_a_decorator_wants_it(world: World) -> None:
    class Eager(Copying):
        def active_for(self, exchange: Exchange) -> bool:
            return True

    channel = world.channel()
    channel.declare("copies")
    decorator, eager = Copying(world.queue("copies")), Eager(world.queue("copies"))
    world.node.install_exchange_decorator(decorator)
    world.node.install_exchange_decorator(eager)
    channel.declare("q")
    assert decorator.keys == []
    assert eager.keys == ["queue.created"]


class Picky(Listening):
    def policy_keys(self) -> dict[str, Kind]:
        return {"listened": Number(1, 5)}

    def active_for(self, queue: Queue) -> bool:
        return "listened" in queue.effective_policy


def test_a_policy_chooses_the_queues_that_a_decorator_hears_of(world: World) -> None:
    decorator = Picky()
    world.node.install_queue_decorator(decorator)
    channel = world.channel()
    channel.declare("q")
    channel.declare("other")
    channel.consume("q", "c")
    assert decorator.heard == []
    administer.set_policy(world.node, "/", "p", "^q", {"listened": 1}, 0, "queues")
    administer.set_policy(world.node, "/", "p", "^q", {"listened": 2}, 0, "queues")
    channel.cancel("c")
    administer.delete_policy(world.node, "/", "p")
    channel.consume("q", "c")
    assert decorator.heard == ["startup q", "policy q", "consumers q 0", "shutdown q"]


def test_a_key_of_an_extension_is_held_to_its_values(world: World) -> None:
    world.node.install_queue_decorator(Picky())
    with pytest.raises(ValidationFailed, match="9 is not a valid listened value"):
        administer.set_policy(world.node, "/", "p", "^q", {"listened": 9}, 0, "queues")
    with pytest.raises(ValidationFailed, match="are not recognised policy settings"):
        administer.set_policy(world.node, "/", "p", "^q", {"listened": 1}, 0, "queues", OPERATOR_POLICY)
    with pytest.raises(ValidationFailed, match="are not recognised policy settings"):
        administer.set_policy(World().node, "/", "p", "^q", {"listened": 1}, 0, "queues")


def test_a_recorded_policy_with_the_key_of_an_extension_that_is_gone_does_not_stop_a_start() -> None:
    rule = {"pattern": "^q", "definition": {"listened": 1, "max-length": 5}, "priority": 0, "apply-to": "queues"}
    world = World()
    definitions.restore(world.node, [("policy", ("/", "p"), {"vhost": "/", "name": "p", **rule})])
    channel = world.channel()
    channel.declare("q")
    assert world.queue("q").options.max_length == 5
    assert world.vhost.policies.policies["p"].rule() == rule


def test_a_policy_key_has_one_owner(world: World) -> None:
    world.node.install_queue_decorator(Picky())
    with pytest.raises(WarrenError, match=r"[.:]Picky wants the policy key listened, which is taken"):
        world.node.install_queue_decorator(Picky())
