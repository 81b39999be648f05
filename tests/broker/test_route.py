"""Routing through exchanges of exchanges and alternates: against a plain model, and the edges by name."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.amqp.fields import Field
from warren.broker.exchanges.base import Binding, Destination, Envelope, Exchange, ExchangeDecorator
from warren.broker.exchanges.default import DefaultExchange
from warren.broker.exchanges.route import is_cacheable, route
from warren.broker.exchanges.types import create

KEYS = ["", "a", "a.b"]


@dataclass
class Topology:
    """Exchanges and queues of one vhost, for tests: everything is made and bound by name."""

    exchanges: dict[str, Exchange] = field(default_factory=dict)
    queues: dict[str, Destination] = field(default_factory=dict)

    def declare(self, name: str, type: str = "fanout", alternate: str | None = None) -> Exchange:
        exchange = create(type, "/", name)
        exchange.alternate = alternate
        self.exchanges[name] = exchange
        return exchange

    def to_queue(self, source: str, queue: str, key: str = "") -> None:
        destination = self.queues.setdefault(queue, Destination("/", queue, False))
        self.exchanges[source].bind(Binding(source, destination, key, {}))

    def to_exchange(self, source: str, target: str, key: str = "") -> None:
        self.exchanges[source].bind(Binding(source, self.exchanges[target], key, {}))

    def route(self, start: str, *keys: str) -> list[str]:
        found = route(self.exchanges, self.exchanges[start], Envelope(list(keys) or [""]))
        return [queue.name for queue in found]


@dataclass(frozen=True)
class Link:
    source: str
    target: str
    key: str


@dataclass
class Plan:
    """What hypothesis draws: types, alternates (some of them missing) and bindings between names."""

    types: dict[str, str]
    alternates: dict[str, str]
    links: list[Link]

    def build(self) -> Topology:
        topology = Topology()
        for name, type in self.types.items():
            topology.declare(name, type, self.alternates.get(name))
        for link in self.links:
            if link.target in self.types:
                topology.to_exchange(link.source, link.target, link.key)
            else:
                topology.to_queue(link.source, link.target, link.key)
        return topology

    def targets(self, name: str, keys: list[str]) -> set[str]:
        return {
            link.target
            for link in self.links
            if link.source == name and (self.types[name] == "fanout" or link.key in keys)
        }

    def reached(self, start: str, keys: list[str]) -> set[str]:
        """Grow the set of reached names until nothing is added; what is no exchange is a queue."""
        names = {start}
        while True:
            grown = set(names)
            for name in names & self.types.keys():
                own = self.targets(name, keys)
                alternate = self.alternates.get(name, "missing")
                grown |= own if own else {alternate} & self.types.keys()
            if grown == names:
                return {name for name in names if name not in self.types}
            names = grown


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    names = [f"x{number}" for number in range(draw(st.integers(1, 5)))]
    targets = st.sampled_from([*names, "q0", "q1", "q2"])
    # No wildcards: topic against its definition has its own test; here it is a third type on the way.
    links = st.builds(Link, st.sampled_from(names), targets, st.sampled_from(KEYS))
    return Plan(
        types={name: draw(st.sampled_from(["direct", "fanout", "topic"])) for name in names},
        alternates=draw(st.dictionaries(st.sampled_from(names), st.sampled_from([*names, "missing"]), max_size=3)),
        links=draw(st.lists(links, max_size=14)),
    )


@given(plans(), st.lists(st.sampled_from(KEYS), min_size=1, max_size=2))
def test_routes_are_what_a_plain_reading_of_the_rules_gives(plan: Plan, keys: list[str]) -> None:
    found = plan.build().route("x0", *keys)
    assert set(found) == plan.reached("x0", keys)
    assert len(found) == len(set(found))
    assert found == plan.build().route("x0", *keys)


@given(plans())
def test_exchanges_that_look_at_keys_only_are_cacheable_together(plan: Plan) -> None:
    topology = plan.build()
    assert is_cacheable(topology.exchanges, topology.exchanges["x0"])


def test_two_bindings_that_match_give_one_copy() -> None:
    topology = Topology()
    topology.declare("t", "topic")
    topology.to_queue("t", "q", "a.#")
    topology.to_queue("t", "q", "*.b")
    assert topology.route("t", "a.b") == ["q"]


def test_the_routing_key_and_cc_reach_a_queue_once_between_them() -> None:
    topology = Topology()
    topology.declare("d", "direct")
    topology.to_queue("d", "q", "one")
    topology.to_queue("d", "q", "two")
    topology.to_queue("d", "p", "two")
    assert topology.route("d", "one", "two") == ["q", "p"]


def test_the_default_exchange_routes_each_key_once() -> None:
    queues = {"a": Destination("/", "a", False), "b": Destination("/", "b", False)}
    default = DefaultExchange("/", queues)
    found = route({"": default}, default, Envelope(["b", "a", "b", "none"]))
    assert [queue.name for queue in found] == ["b", "a"]
    assert route({"": default}, default, Envelope(["none"])) == []
    assert is_cacheable({"": default}, default)


def test_a_chain_of_exchanges_is_followed() -> None:
    topology = Topology()
    for name in ("x", "y", "z"):
        topology.declare(name)
    topology.to_exchange("x", "y")
    topology.to_exchange("y", "z")
    topology.to_queue("z", "q")
    assert topology.route("x") == ["q"]


def test_every_exchange_on_the_way_sees_the_same_keys() -> None:
    topology = Topology()
    topology.declare("t", "topic")
    topology.declare("d", "direct")
    topology.to_exchange("t", "d", "a.#")
    topology.to_queue("d", "q", "a.b")
    assert topology.route("t", "a.b") == ["q"]
    assert topology.route("t", "a.c") == []


def test_a_circle_ends_and_an_exchange_bound_to_itself_does_no_harm() -> None:
    topology = Topology()
    topology.declare("x")
    topology.declare("y")
    topology.to_exchange("x", "x")
    topology.to_exchange("x", "y")
    topology.to_exchange("y", "x")
    assert topology.route("x") == []
    topology.to_queue("y", "q")
    assert topology.route("x") == ["q"]
    assert topology.route("y") == ["q"]


def test_a_diamond_gives_one_copy() -> None:
    topology = Topology()
    for name in ("top", "left", "right", "bottom"):
        topology.declare(name)
    topology.to_exchange("top", "left")
    topology.to_exchange("top", "right")
    topology.to_exchange("left", "bottom")
    topology.to_exchange("right", "bottom")
    topology.to_queue("bottom", "q")
    assert topology.route("top") == ["q"]


def test_a_thousand_exchanges_in_a_row_need_no_recursion() -> None:
    topology = Topology()
    topology.declare("x0")
    for number in range(1, 2_000):
        topology.declare(f"x{number}")
        topology.to_exchange(f"x{number - 1}", f"x{number}")
    topology.to_queue("x1999", "q")
    assert topology.route("x0") == ["q"]
    assert is_cacheable(topology.exchanges, topology.exchanges["x0"])


def test_a_deleted_exchange_leads_nowhere() -> None:
    topology = Topology()
    topology.declare("x")
    topology.declare("y")
    topology.to_exchange("x", "y")
    topology.to_queue("y", "q")
    del topology.exchanges["y"]
    assert topology.route("x") == []


def test_the_alternate_is_asked_only_when_nothing_matched() -> None:
    topology = Topology()
    topology.declare("d", "direct", alternate="lost")
    topology.declare("lost")
    topology.to_queue("lost", "unrouted")
    topology.to_queue("d", "q", "a")
    assert topology.route("d", "a") == ["q"]
    assert topology.route("d", "b") == ["unrouted"]


def test_a_match_that_leads_nowhere_still_counts_as_one() -> None:
    topology = Topology()
    topology.declare("x", alternate="lost")
    topology.declare("y")
    topology.declare("lost")
    topology.to_queue("lost", "unrouted")
    topology.to_exchange("x", "y")
    assert topology.route("x") == []


def test_an_alternate_on_the_way_is_asked_too() -> None:
    topology = Topology()
    topology.declare("x")
    topology.declare("y", alternate="lost")
    topology.declare("lost")
    topology.to_queue("lost", "unrouted")
    topology.to_exchange("x", "y")
    topology.to_queue("x", "q")
    assert topology.route("x") == ["q", "unrouted"]


def test_the_alternate_of_an_alternate_is_asked() -> None:
    topology = Topology()
    topology.declare("x", alternate="y")
    topology.declare("y", "direct", alternate="z")
    topology.declare("z")
    topology.to_queue("z", "q")
    assert topology.route("x", "k") == ["q"]


@pytest.mark.parametrize("alternate", ["missing", "x", ""])
def test_an_alternate_that_is_missing_or_itself_or_the_default_leads_nowhere(alternate: str) -> None:
    topology = Topology()
    topology.declare("x", alternate=alternate)
    topology.queues["k"] = Destination("/", "k", False)
    topology.exchanges[""] = DefaultExchange("/", topology.queues)
    assert topology.route("x", "k") == []


def test_alternates_in_a_circle_end() -> None:
    topology = Topology()
    topology.declare("x", alternate="y")
    topology.declare("y", alternate="x")
    assert topology.route("x") == []


class Copies(ExchangeDecorator):
    """Adds fixed destinations to whatever the exchange finds."""

    def __init__(self, *added: Destination) -> None:
        super().__init__()
        self.added = list(added)

    def route(self, exchange: Exchange, envelope: Envelope) -> list[Destination]:
        return self.added


def test_decorators_add_destinations_once_and_leave_the_exchange_as_it_was() -> None:
    topology = Topology()
    exchange = topology.declare("x")
    topology.to_queue("x", "q")
    extra = Destination("/", "extra", False)
    exchange.decorators.append(Copies(extra, topology.queues["q"]))
    assert topology.route("x") == ["q", "extra"]
    exchange.decorators.clear()
    assert topology.route("x") == ["q"]


def test_what_decorators_add_does_not_keep_the_alternate_from_being_asked() -> None:
    topology = Topology()
    topology.declare("lost")
    topology.to_queue("lost", "unrouted")
    exchange = topology.declare("x", "direct", alternate="lost")
    exchange.decorators.append(Copies(Destination("/", "extra", False)))
    assert set(topology.route("x", "nothing")) == {"extra", "unrouted"}


def test_a_decorator_may_lead_to_an_exchange() -> None:
    topology = Topology()
    topology.declare("y")
    topology.to_queue("y", "q")
    topology.declare("x").decorators.append(Copies(topology.exchanges["y"]))
    assert topology.route("x") == ["q"]


@pytest.mark.parametrize("type", ["headers", "x-random"])
def test_an_exchange_that_looks_beyond_keys_is_not_cacheable_nor_is_what_leads_to_it(type: str) -> None:
    topology = Topology()
    topology.declare("x")
    topology.declare("y", type)
    assert not is_cacheable(topology.exchanges, topology.exchanges["y"])
    assert is_cacheable(topology.exchanges, topology.exchanges["x"])
    topology.to_exchange("x", "y", "k")
    assert not is_cacheable(topology.exchanges, topology.exchanges["x"])
    for identity in list(topology.exchanges["x"].bindings):
        topology.exchanges["x"].unbind(identity)
    assert is_cacheable(topology.exchanges, topology.exchanges["x"])
    topology.exchanges["x"].alternate = "y"
    assert not is_cacheable(topology.exchanges, topology.exchanges["x"])


def test_an_exchange_bound_by_two_keys_stays_in_reach_until_both_are_gone() -> None:
    topology = Topology()
    source = topology.declare("x", "direct")
    topology.declare("h", "headers")
    topology.to_exchange("x", "h", "one")
    topology.to_exchange("x", "h", "two")
    one, two = list(source.bindings)
    source.unbind(one)
    assert not is_cacheable(topology.exchanges, source)
    source.unbind(two)
    assert is_cacheable(topology.exchanges, source)


def test_decorators_and_circles_are_seen_by_is_cacheable() -> None:
    topology = Topology()
    topology.declare("x")
    topology.declare("y")
    topology.to_exchange("x", "y")
    topology.to_exchange("y", "x")
    assert is_cacheable(topology.exchanges, topology.exchanges["x"])
    topology.exchanges["y"].decorators.append(Copies())
    assert not is_cacheable(topology.exchanges, topology.exchanges["x"])


def test_a_hash_of_the_routing_key_is_cacheable_and_a_hash_of_a_header_is_not() -> None:
    by_key = create("x-consistent-hash", "/", "k")
    by_header = create("x-consistent-hash", "/", "h", arguments={"hash-header": Field("S", "user")})
    assert is_cacheable({}, by_key)
    assert not is_cacheable({}, by_header)
