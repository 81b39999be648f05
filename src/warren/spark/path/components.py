"""Which queues must be played together: those that dead letters connect.

A queue reaches whatever its dead-letter exchange may lead to. Where the dead-letter routing key is given and only
keys decide, the broker's own routing says what that is; elsewhere every binding counts. Too many is only slower.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from warren.broker.exchanges.base import Envelope
from warren.broker.exchanges.route import is_cacheable, route
from warren.broker.node import Node
from warren.broker.queue.fifo import FifoQueue
from warren.broker.queue.queue import Queue
from warren.broker.queue.schedule import Schedule, schedule_of
from warren.broker.vhost.vhost import VHost
from warren.spark.path.topology import Name, Topology, queues_of


@dataclass(frozen=True)
class Components:
    # By number of the queue: the number of its component.
    of_queue: list[int]
    # By number of the component: whether a message without a TTL that enters stays where it is for ever.
    is_plain: list[bool]


@lru_cache(maxsize=4)
def known_components(topology: Topology, consumed: frozenset[Name] = frozenset()) -> Components:
    """Once for each worker process, however many tasks it has."""
    return components_of(topology.sample, consumed)


def components_of(node: Node, consumed: frozenset[Name] = frozenset()) -> Components:
    """`consumed` are the queues that somebody consumes from."""
    queues = queues_of(node)
    # A queue that expires takes its bindings along, and an alternate exchange may step in: no route lasts there.
    unsteady = {queue.vhost for queue in queues if queue.options.expires >= 0}
    numbers = {queue: number for number, queue in enumerate(queues)}
    leaders = list(range(len(queues)))
    for queue in queues:
        for reached in dead_letter_queues(node, queue, queue.vhost not in unsteady):
            _join(leaders, numbers[queue], numbers[reached])
    leading = [_leader(leaders, number) for number in range(len(queues))]
    compact = {leader: number for number, leader in enumerate(dict.fromkeys(leading))}
    of_queue = [compact[leader] for leader in leading]
    sizes = Counter(of_queue)
    is_plain = [sizes[number] == 1 for number in range(len(compact))]
    for number, queue in enumerate(queues):
        if not _is_plain(queue) or (queue.vhost, queue.name) in consumed:
            is_plain[of_queue[number]] = False
    return Components(of_queue, is_plain)


def dead_letter_queues(node: Node, queue: Queue, is_steady: bool) -> list[Queue]:
    """Every queue that a message dead-lettered from this one may go to."""
    vhost = node.vhosts[queue.vhost]
    if isinstance(queue, Schedule):
        return _reachable(vhost, queue.exchange.name, None)
    name = queue.options.dead_letter_exchange
    exchange = None if name is None else vhost.exchanges.get(name)
    if exchange is None:
        return []
    key = queue.options.dead_letter_routing_key
    if key is not None and is_steady and is_cacheable(vhost.exchanges, exchange):
        found = route(vhost.exchanges, exchange, Envelope([key]))
        return [destination for destination in found if isinstance(destination, Queue)]
    return _reachable(vhost, exchange.name, key)


def _reachable(vhost: VHost, start: str, key: str | None) -> list[Queue]:
    found: dict[Queue, None] = {}
    waiting = [start]
    for name in waiting:
        exchange = vhost.exchanges.get(name)
        if exchange is None:
            continue
        schedule = schedule_of(exchange)
        if schedule is not None:
            found[schedule] = None
        if name == "":
            direct = vhost.queues if key is None else {key: vhost.queues[key]} if key in vhost.queues else {}
            found.update(dict.fromkeys(direct.values()))
        if exchange.decorators:
            # Nobody knows where to before it is asked about a message.
            found.update(dict.fromkeys(vhost.queues.values()))
        for binding in exchange.bindings.values():
            if isinstance(binding.destination, Queue):
                found[binding.destination] = None
        waiting.extend(following for following in exchange.next_exchanges() if following not in waiting)
    return list(found)


def _is_plain(queue: Queue) -> bool:
    options = queue.options
    if isinstance(queue, Schedule):
        return False
    if not isinstance(queue, FifoQueue):
        return queue.deduplication is None
    return (
        options.ttl < 0
        and options.expires < 0
        and not options.has_length_limit
        and options.dead_letter_exchange is None
        and queue.deduplication is None
        and queue.max_priority == 0
    )


def _leader(leaders: list[int], number: int) -> int:
    while leaders[number] != number:
        leaders[number] = leaders[leaders[number]]
        number = leaders[number]
    return number


def _join(leaders: list[int], one: int, other: int) -> None:
    first, second = sorted((_leader(leaders, one), _leader(leaders, other)))
    leaders[second] = first
