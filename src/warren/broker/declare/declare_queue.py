"""Queues as clients ask for them: declare, bind, unbind, purge, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.amqp import methods
from warren.amqp.constants import REPLY_QUEUE
from warren.amqp.fields import Table
from warren.amqp.replies import count_of
from warren.broker.consume.reply_to import check_reply_address, is_reply_address
from warren.broker.declare.declare_exchange import check_binding, strip_line_ends
from warren.broker.queue.declaration import Declaration
from warren.broker.queue.fifo import FifoQueue
from warren.broker.queue.queue import Queue
from warren.broker.queue.settling import Purge
from warren.broker.rules.arguments import (
    check_queue_arguments,
    check_queue_equivalence,
    check_stream_arguments,
    compare_flag,
    queue_type,
    resource,
)
from warren.broker.rules.queue_settings import CLASSIC, QUORUM
from warren.broker.session.late_method import LateMethod
from warren.broker.vhost.sweeps import Removal
from warren.errors import AccessRefused, NotImplementedByBroker, PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel


def declare(channel: Channel, method: methods.QueueDeclare) -> None:
    name = strip_line_ends(method.queue)
    channel.connection.node.counters.queues_declared += 1
    if name == REPLY_QUEUE or is_reply_address(name):
        check_reply_address(channel.connection.node, name, channel.vhost.name)
        channel.answer(methods.QueueDeclareOk(name, 0, 1))
        return
    existing = channel.vhost.queues.get(name)
    if existing is not None and existing.deleted and not method.passive:
        channel.connection.node.errands.begin(LateDeclare(channel, method, existing), channel.connection)
        return
    queue = _passive(channel, name) if method.passive else _active(channel, method, name)
    queue.last_used = channel.connection.node.now
    queue.arm_idle()
    channel.last_queue = queue.name
    if not method.no_wait:
        channel.answer(methods.QueueDeclareOk(queue.name, count_of(queue.backing.length), queue.consumers.count))


class LateDeclare(LateMethod):
    """A queue of that name is being deleted, and its bindings are not all gone: the new one comes after it."""

    def __init__(self, channel: Channel, method: methods.QueueDeclare, leaving: Queue) -> None:
        super().__init__(channel, method.id)
        self._method = method
        self._leaving = leaving

    def must_wait(self) -> bool:
        return self.channel.vhost.queues.get(self._leaving.name) is self._leaving

    def do(self) -> None:
        declare(self.channel, self._method)
        self.channel.connection.hold(self.channel.connection.node.recorded)


def _passive(channel: Channel, name: str) -> Queue:
    channel.connection.node.access.check_any(channel.user, channel.vhost.name, "queue", name)
    return channel.vhost.queue(name, channel.connection)


def _active(channel: Channel, method: methods.QueueDeclare, name: str) -> Queue:
    vhost = channel.vhost
    server_named = name == ""
    if server_named:
        name = f"amq.gen-{channel.connection.node.host.token()}"
    # An exclusive queue dies with its connection, so it cannot be durable whatever was asked for.
    durable = method.durable and not method.exclusive
    channel.check("queue", name, "configure")
    if name.startswith("amq.") and not server_named:
        # Even one that exists under a name of our own making: RabbitMQ lets it be declared only passively.
        raise AccessRefused(f"queue name '{name}' contains reserved prefix 'amq.*'")
    arguments = vhost.with_default_type(method.arguments, durable, method.exclusive, method.auto_delete)
    existing = vhost.queues.get(name)
    if existing is not None:
        _check_equivalence(channel, existing, method, durable, arguments)
        return existing
    _check_dead_letter_rights(channel, name, method.arguments)
    type_ = queue_type(arguments)
    check_queue_arguments(arguments, type_, name, vhost.name)
    _check_type(type_, name, vhost.name, durable, method, server_named)
    check_stream_arguments(arguments, name, vhost.name, vhost.node.store.can_archive)
    vhost.check_queue_limit(name)
    owner = channel.connection if method.exclusive else None
    return vhost.create_queue(Declaration(name, type_, durable, method.auto_delete, arguments, owner))


def _check_equivalence(
    channel: Channel, queue: Queue, method: methods.QueueDeclare, durable: bool, arguments: Table
) -> None:
    what = resource("queue", queue.name, queue.vhost)
    channel.vhost.check_exclusive(queue, channel.connection, method.exclusive)
    compare_flag("durable", durable, queue.durable, what)
    compare_flag("auto_delete", method.auto_delete, queue.auto_delete, what)
    check_queue_equivalence(arguments, queue.arguments, queue.type, queue.name, queue.vhost)


def _check_type(
    type_: str, name: str, vhost: str, durable: bool, method: methods.QueueDeclare, server_named: bool
) -> None:
    if type_ == CLASSIC:
        return
    what = resource("queue", name, vhost)
    if server_named:
        raise PreconditionFailed(f"Cannot declare a server-named queue for type rabbit_{type_}_queue")
    if method.auto_delete:
        raise PreconditionFailed(f"invalid property 'auto-delete' for {what}")
    if method.exclusive:
        raise PreconditionFailed(f"invalid property 'exclusive-owner' for {what}")
    if not durable:
        raise PreconditionFailed(f"invalid property 'non-durable' for {what}")


def _check_dead_letter_rights(channel: Channel, name: str, arguments: Table) -> None:
    field = arguments.get("x-dead-letter-exchange")
    if field is not None and isinstance(field.value, str):
        channel.check("queue", name, "read")
        channel.check("exchange", field.value, "write")


def bind(channel: Channel, method: methods.QueueBind) -> None:
    queue, key = _names(channel, method.queue, method.routing_key)
    exchange = strip_line_ends(method.exchange)
    check_binding(channel, exchange, "queue", queue, key)
    binding = channel.vhost.make_binding(exchange, "queue", queue, key, method.arguments)
    _check_lock(channel, queue)
    channel.vhost.put_binding(binding)
    if not method.no_wait:
        channel.answer(methods.QueueBindOk())


def unbind(channel: Channel, method: methods.QueueUnbind) -> None:
    queue, key = _names(channel, method.queue, method.routing_key)
    exchange = strip_line_ends(method.exchange)
    check_binding(channel, exchange, "queue", queue, key)
    if channel.vhost.find_binding(exchange, "queue", queue, key, method.arguments) is not None:
        _check_lock(channel, queue)
    channel.vhost.remove_binding(exchange, "queue", queue, key, method.arguments)
    channel.answer(methods.QueueUnbindOk())


def _names(channel: Channel, queue: str, key: str) -> tuple[str, str]:
    """With neither queue nor key given, both are the last declared queue's name."""
    queue = strip_line_ends(queue)
    name = channel.queue_name(queue)
    return name, name if queue == "" and key == "" else key


def _check_lock(channel: Channel, name: str) -> None:
    queue = channel.vhost.queues.get(name)
    if queue is not None:
        channel.vhost.check_access(queue, channel.connection)


def purge(channel: Channel, method: methods.QueuePurge) -> None:
    name = channel.queue_name(strip_line_ends(method.queue))
    channel.check("queue", name, "read")
    queue = channel.vhost.queue(name, channel.connection)
    if not isinstance(queue, FifoQueue):
        what = resource("queue", queue.name, queue.vhost)
        raise NotImplementedByBroker(f"queue.purge not supported by stream queues {what}")
    channel.connection.node.errands.begin(ClientPurge(queue, channel, method.no_wait), channel.connection)


class ClientPurge(Purge):
    def __init__(self, queue: FifoQueue, channel: Channel, no_wait: bool) -> None:
        super().__init__(queue)
        self._channel = channel
        self._no_wait = no_wait

    def done(self) -> None:
        connection = self._channel.connection
        if self.queue.durable:
            connection.hold(connection.node.store.position)
        if not self._no_wait:
            self._channel.answer(methods.QueuePurgeOk(count_of(self.count)))


def delete(channel: Channel, method: methods.QueueDelete) -> None:
    name = channel.queue_name(strip_line_ends(method.queue))
    channel.check("queue", name, "configure")
    queue = channel.vhost.queues.get(name)
    if queue is None or queue.deleted:
        if not method.no_wait:
            channel.answer(methods.QueueDeleteOk(0))
        return
    channel.vhost.check_access(queue, channel.connection)
    if queue.type == QUORUM and (method.if_unused or method.if_empty):
        flag = "if-unused" if method.if_unused else "if-empty"
        raise NotImplementedByBroker(
            f"cannot delete {resource('queue', name, queue.vhost)}. "
            f"queue.delete operations with {flag} flag set are not supported by quorum queues"
        )
    if method.if_empty and queue.backing.length > 0:
        raise PreconditionFailed(f"{resource('queue', queue.name, queue.vhost)} not empty")
    if method.if_unused and queue.consumers.count > 0:
        raise PreconditionFailed(f"{resource('queue', queue.name, queue.vhost)} in use")
    channel.vhost.begin_removal(ClientQueueRemoval(channel, queue, method), channel.connection)


class ClientQueueRemoval(Removal):
    def __init__(self, channel: Channel, queue: Queue, method: methods.QueueDelete) -> None:
        super().__init__(channel.vhost, queue)
        self._channel = channel
        self._queue = queue
        self._method = method
        # While very many bindings go nothing may come of what was checked for: from now on it is there for nobody.
        if method.if_empty or method.if_unused:
            queue.deleted = True

    def finish(self) -> None:
        channel = self._channel
        if not self._method.no_wait:
            channel.answer(methods.QueueDeleteOk(count_of(self._queue.backing.length)))
        # Last: who deletes what it consumes from must hear delete-ok before basic.cancel, or py-amqp never takes it.
        super().finish()
        channel.connection.hold(channel.connection.node.recorded)

    def failed(self) -> bool:
        if self.vhost.queues.get(self._queue.name) is self._queue:
            self._queue.deleted = False
        return super().failed()
