"""Whatever an extension raises is told once, with its name, and costs nobody but the client whose method it refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.harness import World, put_policy
from warren.amqp import methods
from warren.amqp.fields import Field, Table
from warren.broker.exchanges.base import Destination, Envelope, Exchange, ExchangeDecorator
from warren.broker.queue.decorators import QueueDecorator
from warren.broker.queue.queue import Queue
from warren.broker.session.channel import Channel
from warren.broker.session.interceptors import Interceptor
from warren.broker.session.tracer import Tracer
from warren.errors import WarrenError

KINDS = (Interceptor, ExchangeDecorator, QueueDecorator, Tracer)
# Asked once, when it is installed: there a fault stops the start.
AT_START = ("applies_to", "policy_keys")
CALLS = [(kind, name) for kind in KINDS for name in vars(kind) if not name.startswith("_")]
LATER = [(kind, name) for kind, name in CALLS if name not in AT_START]


def faulty(kind: type, name: str) -> tuple[type, list[object]]:
    """A class of which one method raises, an interceptor only for the user `victim`; and what it was called with."""
    calls: list[object] = []

    def fail(self: object, *arguments: object) -> object:
        channel = arguments[0] if arguments else None
        if isinstance(channel, Channel) and channel.user != "victim":
            return arguments[1] if name == "intercept" else arguments[1:]
        calls.append(arguments)
        raise RuntimeError(f"a bug in {name}")

    members: dict[str, object] = {name: fail}
    if kind is Interceptor and name != "applies_to":
        members["applies_to"] = lambda self: ["basic.publish"]
    return type("Faulty", (kind,), members), calls


def install(world: World, extension: object) -> None:
    if isinstance(extension, Interceptor):
        world.node.install_interceptor(extension)
    elif isinstance(extension, ExchangeDecorator):
        world.node.install_exchange_decorator(extension)
    elif isinstance(extension, QueueDecorator):
        world.node.install_queue_decorator(extension)
    else:
        assert isinstance(extension, Tracer)
        world.node.install_tracer(extension)


def errors_of(world: World) -> list[str]:
    return [text for level, text in world.host.lines if level >= 40]


def test_every_kind_of_extension_is_enumerated() -> None:
    assert {name for _, name in CALLS} >= {
        "intercept",
        "intercept_content",
        "route",
        "active_for",
        "shutdown",
        "routed",
    }
    assert len(CALLS) == 16


@pytest.mark.parametrize(("kind", "name"), [call for call in CALLS if call not in LATER])
def test_one_that_fails_when_it_is_installed_stops_the_start_with_its_name(kind: type, name: str) -> None:
    made, calls = faulty(kind, name)
    world = World()
    with pytest.raises(WarrenError, match=rf"Faulty failed in {name}: RuntimeError\('a bug in {name}'\)"):
        install(world, made())
    assert len(calls) == 1


@pytest.mark.parametrize(("kind", "name"), LATER)
def test_one_that_raises_is_told_once_and_the_others_go_on(kind: type, name: str) -> None:
    world = World()
    made, calls = faulty(kind, name)
    install(world, made())
    world.add_user("victim")
    other, victim = world.channel(), world.connect("victim").channel()
    victim.declare("mine", exclusive=True)
    other.declare("shared")
    other.declare("gone")
    other.bind("shared", "amq.topic", "#")
    other.confirm()
    victim.qos(1)
    victim.consume("shared", "c")
    victim.consume("mine", "d")
    # Twice each: the second fault is not told.
    for body in ("one", "two"):
        other.publish(body, "k", "amq.topic")
    assert [answer for answer, _, _ in other.confirms()] == ["ack", "ack"]
    put_policy(world.vhost.policies, "p", ".*", {"max-length": 100})
    world.vhost.reapply_policies()
    world.vhost.reapply_policies()
    victim.publish("three", "k", "amq.topic")
    if kind is Interceptor:
        assert [type(each.method) for each in victim.client.take()] == [methods.ConnectionClose]
    other.call(methods.QueueDelete(queue="gone"), methods.QueueDeleteOk)
    victim.client.lose()

    assert calls, "the broker has never called it"
    told = errors_of(world)
    assert len(told) == 1
    assert f":Faulty failed in {name}, and is passed over there" in told[0].replace("faulty.<locals>.", "")
    assert f"a bug in {name}" in told[0]
    # Nothing of the victim stays, and all it held is there for others.
    assert [connection.user for connection in world.node.connections.values()] == ["guest"]
    assert set(world.vhost.queues) == {"shared"}
    queue = world.queue("shared")
    assert (queue.unacked, queue.consumers.count) == (0, 0)
    expected = [b"one", b"two"] if kind is Interceptor else [b"one", b"two", b"three"]
    assert other.bodies_in("shared") == expected
    other.publish("after", "k", "amq.topic")
    assert [answer for answer, _, _ in other.confirms()] == ["ack"]
    assert other.bodies_in("shared") == [b"after"]
    assert world.node.monitor.failures == 0


def test_an_interceptors_fault_tells_the_peer_no_detail(world: World) -> None:
    made, _ = faulty(Interceptor, "intercept")
    install(world, made())
    world.add_user("victim")
    client = world.connect("victim")
    client.channel().publish("m", "q")
    assert client.expect_close() == (541, "INTERNAL_ERROR - unexpected error")


class Answering(ExchangeDecorator):
    def __init__(self, answer: Callable[[], object]) -> None:
        super().__init__()
        self.answer = answer

    def route(self, exchange: Exchange, envelope: Envelope) -> list[Destination]:
        return self.answer()  # type: ignore[return-value]


@pytest.mark.parametrize(
    "answer", [None, 1, ["q"], [None], [Destination("/", "q", False)]], ids=["None", "1", "name", "none", "no queue"]
)
def test_a_route_to_what_is_no_destination_is_a_fault_too(world: World, answer: object) -> None:
    install(world, Answering(lambda: answer))
    channel = world.channel()
    channel.declare("q")
    channel.bind("q", "amq.fanout")
    channel.publish("m", "", "amq.fanout")
    channel.publish("n", "", "amq.fanout")
    assert channel.bodies_in("q") == [b"m", b"n"]
    assert len(errors_of(world)) == 1


def test_a_route_to_a_queue_that_is_gone_leads_nowhere(world: World) -> None:
    channel = world.channel()
    channel.declare("kept")
    channel.declare("gone")
    both: list[Queue] = [world.queue("kept"), world.queue("gone")]
    install(world, Answering(lambda: both))
    channel.call(methods.QueueDelete(queue="gone"), methods.QueueDeleteOk)
    channel.publish("m", "k", "amq.direct")
    assert channel.bodies_in("kept") == [b"m"]
    assert errors_of(world) == []


class Rewriting(Interceptor):
    def __init__(self, method: object, content: object) -> None:
        super().__init__()
        self.method, self.content = method, content

    def applies_to(self) -> list[str]:
        return ["basic.publish"]

    def intercept(self, channel: Channel, method: methods.Method) -> methods.Method:
        return method if self.method is ... else self.method  # type: ignore[return-value]

    def intercept_content(self, channel: Channel, properties: bytes, body: bytes) -> tuple[bytes, bytes]:
        return self.content  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("method", "content"),
    [(None, None), (methods.BasicGet(), None), (..., None), (..., (b"\0\0", None)), (..., (b"\0\0", 5))],
)
def test_an_interceptor_that_hands_back_something_else_costs_its_client(
    world: World, method: object, content: object
) -> None:
    install(world, Rewriting(method, content))
    victim, other = world.channel(), world.channel()
    victim.publish("m", "q")
    assert victim.client.expect_close()[0] == 541
    assert len(errors_of(world)) == 1
    other.declare("q")


class Labelling(Tracer):
    def __init__(self, headers: object) -> None:
        super().__init__()
        self.headers = headers

    def publish_started(self, vhost: str, exchange: str, routing_key: str, headers: Table | None) -> Table | None:
        return self.headers  # type: ignore[return-value]


@pytest.mark.parametrize("headers", [5, {"a": 1}, {"a": Field("?", 1)}], ids=["number", "plain", "unknown tag"])
def test_headers_of_a_tracer_that_cannot_be_written_leave_the_message_as_it_is(world: World, headers: object) -> None:
    install(world, Labelling(headers))
    channel = world.channel()
    channel.declare("q")
    channel.publish("m", "q")
    seen = channel.got("q")
    assert (seen.body, seen.received.properties.headers) == (b"m", None)
    assert len(errors_of(world)) == 1
