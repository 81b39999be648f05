"""Every workload against a broker of ours: what was published is what came out, and nothing is left behind."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme

from warren import Broker
from warren.broker.node import Node
from warren.client.address import BrokerAddress, parse_uri
from warren.errors import WarrenError
from warren.perf import asking, backlog, connections, traffic
from warren.perf.batches import Batch
from warren.perf.consumer import ConsumingConnection
from warren.perf.plan import EXPIRE, QUORUM, REJECT, STREAM, Plan

MESSAGES = 7_013
PIDS = [os.getpid()]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def plan(broker: Broker, **settings: Any) -> Plan:
    return Plan(parse_uri(broker.url), **settings).check()


def watch_nothing(share: float, messages: int) -> None:
    """Nobody looks at the progress."""


def leftovers(node: Node) -> list[str]:
    vhost = node.vhosts["/"]
    return [*vhost.queues, *(name for name in vhost.exchanges if name.startswith("perf"))]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"size": 0},
        {"size": 300_000, "messages": 40},
        {"ack_every": 10, "prefetch": 100, "in_flight": 500},
        {"ack_every": 1, "prefetch": 1, "messages": 500},
        {"publishers": 3, "consumers": 4, "queues": 2, "in_flight": 1000, "ack_every": 7},
        {"exchange_type": "topic", "bindings": 50, "queues": 3, "consumers": 2, "in_flight": 1000},
        {"exchange_type": "topic", "bindings": 50, "all_properties": True},
        {"priorities": 10, "ack_every": 10, "prefetch": 100},
        {"ttl": 60_000, "persistent": True},
        {"queue_type": QUORUM, "ack_every": 10, "prefetch": 100},
        {"queue_type": STREAM, "ack_every": 10, "prefetch": 100},
    ],
    ids=str,
)
def test_all_that_is_published_is_consumed(broker: Broker, settings: dict[str, Any]) -> None:
    given = {"messages": MESSAGES, **settings}
    routed = broker.call(lambda node: int(node.counters.routed))
    figures = traffic.run(plan(broker, **given), [], watch_nothing)
    assert figures["published"] == figures["consumed"] == given["messages"]
    assert broker.call(lambda node: int(node.counters.routed)) - routed == given["messages"]
    assert broker.call(leftovers) == []


def test_all_that_is_published_is_confirmed_and_consumed(broker: Broker) -> None:
    settings = plan(broker, window=100, publishers=2, messages=MESSAGES, ack_every=10, prefetch=100)
    figures = traffic.run(settings, [], watch_nothing)
    assert figures["published"] == figures["confirmed"] == figures["consumed"] == MESSAGES
    assert figures["p50_us"] <= figures["p99_us"] <= figures["max_us"]


def test_all_that_is_persistent_is_confirmed(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path / "data")) as broker:
        settings = plan(broker, window=50, consumers=0, persistent=True, messages=1000)
        figures = traffic.run(settings, [], watch_nothing)
        assert figures["published"] == figures["confirmed"] == 1000
        assert broker.call(leftovers) == []


def test_every_queue_of_a_fanout_gets_all(broker: Broker) -> None:
    settings = plan(broker, exchange_type="fanout", queues=10, consumers=3, messages=1000, in_flight=200)
    figures = traffic.run(settings, [], watch_nothing)
    assert (figures["published"], figures["consumed"]) == (1000, 10_000)


def test_a_timed_run_ends_with_everything_consumed(broker: Broker) -> None:
    seen: list[float] = []
    settings = plan(broker, seconds=0.3, warmup=0.1, in_flight=1000)
    figures = traffic.run(settings, PIDS, lambda share, messages: seen.append(share))
    assert figures["published"] == figures["consumed"] > 0
    assert figures["rate"] > 0
    assert figures["cpu_us"] > 0
    assert seen == sorted(seen)


def test_latency_is_of_every_message_at_the_rate_asked_for(broker: Broker) -> None:
    settings = plan(broker, rate=1000.0, seconds=0.5, warmup=0.1, publishers=2)
    figures = traffic.run(settings, [], watch_nothing)
    assert figures["published"] == figures["consumed"]
    # No more than was due; how many less depends on the machine.
    assert 0 < figures["published_rate"] * figures["seconds"] <= 1000 * (figures["seconds"] + 0.2)
    assert 0 < figures["p50_us"] <= figures["max_us"]


def test_a_consumer_leaves_in_order_within_a_delivery(broker: Broker) -> None:
    settings = plan(broker, size=100_000, messages=100)
    with traffic.topology(settings) as client:
        batch = Batch("", [settings.queue(0)], settings.size, settings.properties(), client.frame_max)
        client.send([bytes(batch.view[: batch.stride])] * settings.messages)
        intake = ConsumingConnection(settings, 0)
        intake.subscribe()
        while not intake.counter.rest():
            select.select([intake], [], [])
            intake.read(None)
        # Raises unless the answer to the close is found behind all that is still on the way.
        intake.close()
        assert intake.counter.count < settings.messages


def test_a_backlog_is_filled_and_drained(broker: Broker) -> None:
    figures = backlog.run(plan(broker, messages=MESSAGES, size=100), [], watch_nothing)
    assert figures["published"] == figures["consumed"] == MESSAGES
    assert broker.call(leftovers) == []


def test_connections_come_and_go(broker: Broker) -> None:
    before = broker.call(lambda node: int(node.counters.connections_opened))
    settings = plan(broker, publishers=4, consumers=0, seconds=0.3, warmup=0.0)
    figures = connections.churn(settings, [], watch_nothing)
    opened = broker.call(lambda node: int(node.counters.connections_opened)) - before
    # One more asked whether the broker lets us in at all.
    assert figures["opened"] == opened - 1 > 0


def test_idle_connections_are_there_together(broker: Broker) -> None:
    most: list[int] = []
    figures = connections.idle(
        plan(broker, publishers=20), PIDS, lambda *_: most.append(broker.call(lambda node: len(node.connections)))
    )
    assert figures["connections"] == 20
    assert max(most) == 21
    assert "rss_per_connection" in figures


def test_a_queue_that_vanishes_ends_the_run_with_the_reason(broker: Broker) -> None:
    def delete_all(node: Node) -> None:
        vhost = node.vhosts["/"]
        for queue in list(vhost.queues.values()):
            vhost.delete_queue(queue)

    with pytest.raises(WarrenError, match=r"unexpected basic\.cancel|404"):
        traffic.run(plan(broker, seconds=30.0, in_flight=10), [], lambda *_: broker.call(delete_all))


@pytest.mark.parametrize("death", [REJECT, EXPIRE])
def test_every_message_that_dies_is_consumed_as_a_dead_letter(broker: Broker, death: str) -> None:
    settings = plan(broker, death=death, messages=MESSAGES, in_flight=500, ack_every=1, prefetch=100)
    before = broker.call(lambda node: dict(node.dead_letters.counted))
    figures = traffic.run(settings, [], watch_nothing)
    assert figures["published"] == figures["consumed"] == MESSAGES
    died = ("classic", "rejected" if death == REJECT else "expired")
    assert broker.call(lambda node: node.dead_letters.counted[died]) - before.get(died, 0) == MESSAGES
    assert broker.call(leftovers) == []


@pytest.mark.parametrize(
    ("workload", "settings"),
    [
        (asking.get, {"publishers": 3}),
        (asking.rpc, {"publishers": 2, "in_flight": 1}),
        (asking.declare, {"in_flight": 1}),
        (asking.declare, {"persistent": True, "publishers": 3}),
        (asking.confirm, {"publishers": 5, "in_flight": 2}),
        (asking.tx, {"batch": 3}),
    ],
)
def test_every_question_of_a_run_is_answered(broker: Broker, workload: Any, settings: dict[str, Any]) -> None:
    settled = broker.call(lambda node: int(node.counters.routed) + int(node.counters.queues_declared))
    figures = workload(plan(broker, consumers=0, seconds=0.3, warmup=0.1, **settings), PIDS, watch_nothing)
    assert figures["rounds"] > 0
    assert 0 < figures["p50_us"] <= figures["max_us"]
    now = broker.call(lambda node: int(node.counters.routed) + int(node.counters.queues_declared))
    assert now - settled >= figures["rounds"]
    assert broker.call(leftovers) == []


def test_an_answer_of_another_kind_ends_the_run_with_the_reason(broker: Broker) -> None:
    with ExitStack() as stack:
        booth = asking.Booth(plan(broker), 0, stack)
        party = asking.Party(asking.get_steps(booth))
        step = party.steps[0]
        step.question = step.question[step.question.rindex(b"\xce", 0, -1) + 1 :]
        party.begin()
        with pytest.raises(WarrenError, match=r"unexpected basic\.get-empty"):
            party.is_over()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerAddress]:
    folder = tmp_path_factory.mktemp("tls")
    ca, certificate = str(folder / "ca.pem"), str(folder / "broker.pem")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
    with Broker(tls_port=0, tls_cert=certificate) as running:
        yield parse_uri(f"amqps://guest:guest@127.0.0.1:{running.tls_port}/%2F?cacertfile={ca}")


@pytest.mark.parametrize(
    "settings",
    [
        {"ack_every": 10, "prefetch": 100},
        {"size": 300_000, "messages": 40},
        {"publishers": 3, "consumers": 2, "queues": 2, "in_flight": 1000},
    ],
    ids=str,
)
def test_all_that_is_published_over_tls_is_consumed(secured: BrokerAddress, settings: dict[str, Any]) -> None:
    given = {"messages": MESSAGES, **settings}
    figures = traffic.run(Plan(secured, **given).check(), [], watch_nothing)
    assert figures["published"] == figures["consumed"] == given["messages"]


@pytest.mark.parametrize("workload", [asking.get, asking.confirm, connections.churn])
def test_every_round_over_tls_is_answered(secured: BrokerAddress, workload: Any) -> None:
    settings = Plan(secured, publishers=3, consumers=0, seconds=0.5, warmup=0.0).check()
    figures = workload(settings, [], watch_nothing)
    assert figures.get("opened", figures.get("rounds", 0)) > 0
