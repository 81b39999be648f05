"""A virtual host: exchanges, queues and bindings under their names, and what happens to the rest when one goes.

Everything that changes what exists goes through here, so that routes remembered elsewhere are dropped, definitions
are recorded, policies apply and nothing dangles. Permissions and equivalence are the business of the declare files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.amqp.fields import Field, Table
from warren.broker.exchanges.base import Binding, Destination, Exchange
from warren.broker.exchanges.default import DefaultExchange
from warren.broker.exchanges.delayed import DelayedExchange
from warren.broker.exchanges.pipeline import NAME_ARGUMENT, NAME_SETTING, PipelineExchange, is_input
from warren.broker.exchanges.types import create
from warren.broker.queue.backing import Backing
from warren.broker.queue.declaration import Declaration
from warren.broker.queue.decorators import decorate_queue
from warren.broker.queue.errands import Budget
from warren.broker.queue.fifo import FifoQueue
from warren.broker.queue.queue import Queue
from warren.broker.queue.schedule import Schedule, schedule_of
from warren.broker.rules.arguments import check_queue_arguments, queue_type, resource
from warren.broker.rules.policies import PolicySet, effective
from warren.broker.rules.queue_settings import CLASSIC, STREAM
from warren.broker.stream.stream import Stream
from warren.broker.vhost.shapes import binding_item, binding_key, exchange_item, kept, queue_item
from warren.broker.vhost.sweeps import PolicySweep, QueueSweep, Removal
from warren.errors import NotAllowed, NotFound, PreconditionFailed, ResourceLocked

if TYPE_CHECKING:
    from warren.broker.queue.outlet import Outlet
    from warren.broker.vhost.realm import Realm

PREDECLARED: Final = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)
# With so many bindings, or fewer, a queue or an exchange goes at once.
_NARROW: Final[i64] = 64


class VHost:
    def __init__(self, node: Realm, name: str, description: str = "", tags: list[str] | None = None) -> None:
        self.node = node
        self.name = name
        self.description = description
        self.tags: list[str] = [] if tags is None else tags
        self.default_queue_type: str | None = None
        self.queues: dict[str, Queue] = {}
        self.exchanges: dict[str, Exchange] = {}
        self.policies = PolicySet()
        self.limits: dict[str, int] = {}
        self.parameters: dict[tuple[str, str], object] = {}
        self.connections: i64 = 0
        # It is being deleted, which takes a while: nobody comes in any more.
        self.is_leaving = False
        # The firehose is on: see firehose.py.
        self.tracing = False
        # Bindings by where they lead, so that they can go with their destination.
        self._incoming: dict[Destination, dict[Binding, bool]] = {}
        self.exchanges[""] = DefaultExchange(name, self.queues)
        for exchange, type_, internal in PREDECLARED:
            self._install(create(type_, name, exchange, True, False, internal))
        # Where consumers of direct reply-to sit; it holds nothing and is not listed.
        self.reply_queue = FifoQueue(node, name, Declaration("amq.rabbitmq.reply-to", CLASSIC, False, False, {}))

    # -- exchanges -------------------------------------------------------------------------------------------------

    def exchange(self, name: str) -> Exchange:
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no {resource('exchange', name, self.name)}")
        return exchange

    def add_exchange(
        self, name: str, type_: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        return self.install_exchange(create(type_, self.name, name, durable, auto_delete, internal, arguments))

    def install_exchange(self, exchange: Exchange, incarnation: str = "") -> Exchange:
        existing = self.exchanges.get(exchange.name)
        if existing is not None:
            return existing
        if isinstance(exchange, DelayedExchange):
            incarnation = incarnation or self.node.host.token()
            exchange.schedule = Schedule(self.node, exchange, incarnation)
        self._install(exchange)
        self.node.events.exchange("created", exchange)
        if exchange.durable:
            item = kept(exchange_item(exchange), exchange.arguments, incarnation)
            self.node.record("exchange", (self.name, exchange.name), item)
            exchange.recorded = self.node.recorded
        return exchange

    def add_system_exchange(self, name: str, type_: str) -> None:
        """One that only the broker publishes to; it is there in every start, so it is not recorded."""
        self._install(create(type_, self.name, name, True, False, True))

    def _install(self, exchange: Exchange) -> None:
        self.exchanges[exchange.name] = exchange
        self.apply_exchange_policy(exchange)
        self.node.topology_changed()

    def delete_exchange(self, exchange: Exchange) -> None:
        """With all bindings from it and to it."""
        self.begin_removal(Removal(self, exchange), None)

    def exchange_gone(self, exchange: Exchange) -> None:
        """Nothing is bound to it any more."""
        if self.exchanges.pop(exchange.name, None) is None:
            return
        schedule = schedule_of(exchange)
        if schedule is not None:
            schedule.close()
            self.node.errands.begin(self.node.store.delete(schedule), None)
        if exchange.durable:
            self.node.unrecord("exchange", (self.name, exchange.name))
        self.node.events.exchange("deleted", exchange)
        self.node.topology_changed()

    # -- queues ----------------------------------------------------------------------------------------------------

    def queue(self, name: str, connection: Outlet) -> Queue:
        """The queue of that name, if this connection may use it."""
        queue = self.queues.get(name)
        if queue is None or queue.deleted:
            raise NotFound(f"no {resource('queue', name, self.name)}")
        self.check_access(queue, connection)
        return queue

    def check_access(self, queue: Queue, connection: Outlet) -> None:
        if queue.exclusive_owner is not None and queue.exclusive_owner is not connection:
            raise _locked(queue)

    def check_exclusive(self, queue: Queue, connection: Outlet, wants_exclusive: bool) -> None:
        """A redeclaration must agree on who owns the queue."""
        owner = connection if wants_exclusive else None
        if queue.exclusive_owner is not owner:
            raise _locked(queue)

    def add_queue(self, name: str, durable: bool, auto_delete: bool, arguments: Table, incarnation: str = "") -> Queue:
        """From a definitions file, the management API or what was recorded: no owner, no permissions."""
        existing = self.queues.get(name)
        if existing is not None:
            return existing
        type_ = queue_type(arguments)
        check_queue_arguments(arguments, type_, name, self.name)
        return self.create_queue(Declaration(name, type_, durable, auto_delete, arguments, None, incarnation))

    def create_queue(self, declared: Declaration) -> Queue:
        if declared.durable and not declared.incarnation:
            declared.incarnation = self.node.host.token()
        kind = Stream if declared.type == STREAM else FifoQueue
        queue = kind(self.node, self.name, declared)
        self.queues[queue.name] = queue
        if declared.arguments or self.policies.count() > 0:
            # Else there is nothing that could apply.
            self._apply_queue_policy(queue)
        if declared.owner is not None:
            declared.owner.exclusive_queues[queue] = True
        self._record_queue(queue)
        self.node.counters.queues_created += 1
        decorate_queue(queue, self.node.queue_decorators)
        self.node.events.queue("created", queue)
        return queue

    def arguments_changed(self, queue: Queue) -> None:
        """They take effect, and are remembered."""
        self._apply_queue_policy(queue)
        decorate_queue(queue, self.node.queue_decorators)
        self._record_queue(queue)

    def _record_queue(self, queue: Queue) -> None:
        if queue.durable:
            item = kept(queue_item(queue), queue.arguments, queue.incarnation)
            self.node.record("queue", (self.name, queue.name), item)
            queue.recorded = self.node.recorded

    def with_default_type(self, arguments: Table, durable: bool, exclusive: bool, auto_delete: bool) -> Table:
        """The vhost's default queue type, where the declaration names none and could be of it."""
        default = self.default_queue_type
        if default is None or default == CLASSIC or "x-queue-type" in arguments:
            return arguments
        if not durable or exclusive or auto_delete:
            return arguments
        return {**arguments, "x-queue-type": Field("S", default)}

    def delete_queue(self, queue: Queue) -> None:
        """Its consumers are told, its bindings go, its messages are forgotten; nothing is dead-lettered."""
        if not queue.deleted:
            self.begin_removal(Removal(self, queue), None)

    def begin_removal(self, removal: Removal, waiter: Outlet | None) -> None:
        """At once where little is bound to it."""
        if self.bindings_of(removal.destination) <= _NARROW:
            self.node.errands.attempt(removal, Budget())
        else:
            self.node.errands.begin(removal, waiter)

    def queue_gone(self, queue: Queue) -> None:
        """Nothing is bound to it any more."""
        if self.queues.get(queue.name) is not queue:
            return
        queue.close()
        del self.queues[queue.name]
        if queue.exclusive_owner is not None:
            queue.exclusive_owner.exclusive_queues.pop(queue, None)
        for consumer in queue.consumers.all():
            consumer.channel.cancel_by_broker(consumer)
        self.node.errands.begin(self.node.store.delete(queue), None)
        if queue.backing.length == 0:
            # The store's knows the queue: without it, no circle is left for the collector.
            queue.backing = Backing()
        self.node.release_credit(queue)
        self.node.remember_counters(queue)
        if queue.durable:
            self.node.unrecord("queue", (self.name, queue.name))
        self.node.counters.queues_deleted += 1
        self.node.events.queue("deleted", queue)
        self.node.topology_changed()

    # -- bindings --------------------------------------------------------------------------------------------------

    def add_binding(
        self, source: str, destination_type: str, destination: str, routing_key: str, arguments: Table
    ) -> bool:
        """True when it is new."""
        return self.put_binding(self.make_binding(source, destination_type, destination, routing_key, arguments))

    def make_binding(
        self, source: str, destination_type: str, destination: str, routing_key: str, arguments: Table
    ) -> Binding:
        """Missing ends are refused, the source first."""
        exchange = self.exchange(source)
        binding = Binding(source, self.destination(destination_type, destination), routing_key, arguments)
        exchange.check_binding(binding)
        return binding

    def put_binding(self, binding: Binding) -> bool:
        exchange, target = self.exchanges[binding.source], binding.destination
        if not exchange.bind(binding):
            return False
        if isinstance(exchange, PipelineExchange) and isinstance(target, Queue) and not is_input(binding):
            target.expect_results()
        self._incoming.setdefault(target, {})[binding] = True
        if self._is_recorded(exchange, binding):
            self.node.record("binding", binding_key(binding), kept(binding_item(binding), binding.arguments))
        self.node.topology_changed()
        self.node.events.binding("created", self.name, binding)
        return True

    def remove_binding(
        self, source: str, destination_type: str, destination: str, routing_key: str, arguments: Table
    ) -> bool:
        """What is not there is no error, whichever part is missing."""
        binding = self.find_binding(source, destination_type, destination, routing_key, arguments)
        if binding is None:
            return False
        exchange = self.exchanges[source]
        self._forget_binding(exchange, binding)
        self.node.topology_changed()
        self._delete_if_unused(exchange)
        return True

    def find_binding(
        self, source: str, destination_type: str, destination: str, routing_key: str, arguments: Table
    ) -> Binding | None:
        exchange = self.exchanges.get(source)
        target = self._find(destination_type, destination)
        if exchange is None or target is None:
            return None
        return exchange.bindings.get(Binding(source, target, routing_key, arguments).identity)

    def bindings_to(self, destination: Destination) -> list[Binding]:
        return list(self._incoming.get(destination, {}))

    def _find(self, kind: str, name: str) -> Destination | None:
        if kind != "queue":
            return self.exchanges.get(name)
        queue = self.queues.get(name)
        return None if queue is None or queue.deleted else queue

    def destination(self, kind: str, name: str) -> Destination:
        found = self._find(kind, name)
        if found is None:
            raise NotFound(f"no {resource(kind, name, self.name)}")
        return found

    def _is_recorded(self, source: Exchange | None, binding: Binding) -> bool:
        return source is not None and source.durable and self.is_durable(binding.destination)

    def is_durable(self, destination: Destination) -> bool:
        if isinstance(destination, Queue):
            return destination.durable
        return isinstance(destination, Exchange) and destination.durable

    def bindings_of(self, destination: Destination) -> i64:
        """How many lead to it or from it."""
        count: i64 = len(self._incoming[destination]) if destination in self._incoming else 0
        return count + len(destination.bindings) if isinstance(destination, Exchange) else count

    def strip(self, destination: Destination, limit: i64) -> i64:
        """Remove so many of the bindings from it and to it, at most; how many it were."""
        stripped: list[Binding] = []
        if isinstance(destination, Exchange):
            for binding in destination.bindings.values():
                if len(stripped) == limit:
                    break
                stripped.append(binding)
            for binding in stripped:
                self._forget_binding(destination, binding)
        count: i64 = len(stripped)
        for binding in self._some_to(destination, limit - count):
            count += 1
            source = self.exchanges.get(binding.source)
            # An exchange that goes with its last binding may have taken others with it.
            if source is not None and binding.identity in source.bindings:
                self._forget_binding(source, binding)
                self._delete_if_unused(source)
        if count > 0:
            self.node.topology_changed()
        return count

    def _some_to(self, destination: Destination, limit: i64) -> list[Binding]:
        some: list[Binding] = []
        for binding in self._incoming.get(destination, {}):
            if len(some) >= limit:
                break
            some.append(binding)
        return some

    def _forget_binding(self, source: Exchange, binding: Binding) -> None:
        source.unbind(binding.identity)
        incoming = self._incoming[binding.destination]
        del incoming[binding]
        if not incoming:
            del self._incoming[binding.destination]
        if self._is_recorded(source, binding):
            self.node.unrecord("binding", binding_key(binding))
        self.node.events.binding("deleted", self.name, binding)

    def _delete_if_unused(self, exchange: Exchange) -> None:
        """An auto-delete exchange goes with its last binding."""
        if exchange.auto_delete and not exchange.bindings:
            self.delete_exchange(exchange)

    # -- policies and limits ---------------------------------------------------------------------------------------

    def reapply_policies(self, changed: dict[str, object] | None = None) -> None:
        """`changed` is the policy that was set, empty when one was deleted; without it nobody is told."""
        self.node.errands.begin(PolicySweep(self, changed), None)

    def reapply_queue_policy(self, queue: Queue, changed: dict[str, object] | None) -> None:
        if queue.deleted:
            return
        before = (queue.policy, queue.operator_policy, queue.effective_policy)
        self._apply_queue_policy(queue)
        decorate_queue(queue, self.node.queue_decorators)
        if changed is not None and before != (queue.policy, queue.operator_policy, queue.effective_policy):
            self.node.events.queue_policy(queue, changed)

    def delete_queues(self, queues: list[Queue], waiter: Outlet | None) -> None:
        """With what they were in: a connection, or this virtual host."""
        self.node.errands.begin(QueueSweep(self, queues, []), waiter)

    def apply_exchange_policy(self, exchange: Exchange) -> None:
        policy, operator = self.policies.match("exchange", exchange.name)
        definition = effective(policy, operator)
        argument = exchange.arguments.get("alternate-exchange")
        alternate = definition.get("alternate-exchange") if argument is None else argument.value
        exchange.alternate = alternate if isinstance(alternate, str) else None
        if isinstance(exchange, PipelineExchange) and NAME_ARGUMENT not in exchange.arguments:
            exchange.pipeline = str(definition.get(NAME_SETTING, ""))
        exchange.policy = None if policy is None else policy.name
        exchange.effective_policy = definition
        if exchange.name and self.node.exchange_decorators:
            exchange.decorators = [each for each in self.node.exchange_decorators if each.active_for(exchange)]

    def _apply_queue_policy(self, queue: Queue) -> None:
        policy, operator = self.policies.match("queue", queue.name, queue.type)
        queue.apply_policy(
            None if policy is None else policy.name,
            None if operator is None else operator.name,
            effective(policy, operator),
        )

    def check_queue_limit(self, name: str) -> None:
        limit = self.limits.get("max-queues", -1)
        if 0 <= limit <= len(self.queues):
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}' ({limit}) is reached"
            )

    def check_connection_limit(self, user: str) -> None:
        limit = self.limits.get("max-connections", -1)
        if 0 <= limit <= self.connections:
            raise NotAllowed(
                f"access to vhost '{self.name}' refused for user '{user}': connection limit ({limit}) is reached"
            )


def _locked(queue: Queue) -> ResourceLocked:
    return ResourceLocked(
        f"cannot obtain exclusive access to locked {resource('queue', queue.name, queue.vhost)}. "
        "It could be originally declared on another connection or the exclusive property value does not match that "
        "of the original declaration."
    )
