"""basic.consume, cancel, qos and get: how clients ask for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.amqp import methods, replies
from warren.amqp.constants import REPLY_QUEUE, STREAM_OFFSET
from warren.amqp.fields import Table
from warren.broker.consume.reply_to import open_reply_queue
from warren.broker.queue.browser import (
    BROWSE,
    BROWSE_FROM,
    SETTLE_TO,
    Browser,
    begin_browsing,
    new_browser,
    wants_to_browse,
)
from warren.broker.queue.consumer import Consumer
from warren.broker.queue.fifo import FifoQueue
from warren.broker.queue.queue import Queue
from warren.broker.rules.arguments import resource
from warren.broker.rules.queue_settings import QUORUM
from warren.broker.rules.setting_kinds import integer, integer_problem
from warren.broker.session.late_method import LateMethod
from warren.broker.stream.stream import Stream
from warren.broker.stream.stream_consumer import StreamConsumer, check_stream_consumer
from warren.errors import AccessRefused, NotAllowed, NotImplementedByBroker, PreconditionFailed, ResourceLocked

if TYPE_CHECKING:
    from warren.broker.session.channel import Channel

# Consumer arguments that streams do not know, and that only they know.
_OF_QUEUES: Final = ("x-priority", BROWSE, BROWSE_FROM, SETTLE_TO)
_OF_STREAMS: Final = (STREAM_OFFSET, "x-stream-filter", "x-stream-match-unfiltered")


def consume(channel: Channel, method: methods.BasicConsume) -> None:
    if method.consumer_tag and method.consumer_tag in channel.consumers:
        raise NotAllowed(f"attempt to reuse consumer tag '{method.consumer_tag}'")
    tag = method.consumer_tag or f"amq.ctag-{channel.connection.node.host.token()}"
    if method.queue == REPLY_QUEUE:
        _consume_replies(channel, method, tag)
        return
    name = channel.queue_name(method.queue)
    channel.check("queue", name, "read")
    queue = channel.vhost.queue(name, channel.connection)
    consumer = _consumer(channel, queue, tag, method)
    channel.consumers[tag] = consumer
    queue.add_consumer(consumer)
    if isinstance(consumer, Browser):
        begin_browsing(consumer)
        return
    if not method.no_wait:
        channel.answer(methods.BasicConsumeOk(tag))
    channel.connection.node.monitor.drain(queue)


def _consumer(channel: Channel, queue: Queue, tag: str, method: methods.BasicConsume) -> Consumer:
    """With all that may be refused checked."""
    _check_arguments(queue, method.arguments)
    if isinstance(queue, Stream):
        check_stream_consumer(channel, queue, method.no_ack)
        _check_exclusive(queue, method.exclusive)
        return StreamConsumer(channel, queue, tag, method.exclusive, method.arguments)
    if queue.type == QUORUM and channel.prefetch != 0:
        what = resource("queue", queue.name, queue.vhost)
        raise NotImplementedByBroker(f"{what} does not support global qos")
    if isinstance(queue, FifoQueue) and wants_to_browse(method.arguments):
        _check_owner(queue, method.exclusive)
        return new_browser(channel, queue, tag, method)
    priority = _priority(method.arguments, queue)
    _check_exclusive(queue, method.exclusive)
    return Consumer(channel, queue, tag, method.no_ack, method.exclusive, priority, method.arguments)


def _consume_replies(channel: Channel, method: methods.BasicConsume, tag: str) -> None:
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.reply_consumer is not None:
        raise PreconditionFailed("reply consumer already set")
    open_reply_queue(channel, Consumer(channel, channel.vhost.reply_queue, tag, True, False, 0, {}))
    if not method.no_wait:
        channel.answer(methods.BasicConsumeOk(tag))


def _priority(arguments: Table, queue: Queue) -> i64:
    field = arguments.get("x-priority")
    if field is None:
        return 0
    problem = integer_problem(field)
    if problem:
        what = resource("queue", queue.name, queue.vhost)
        raise PreconditionFailed(f"invalid arg 'x-priority' for {what}: {problem}")
    return integer(field)


def _check_arguments(queue: Queue, arguments: Table) -> None:
    for key in _OF_QUEUES if queue.keeps_all else _OF_STREAMS:
        if key in arguments:
            what = resource("queue", queue.name, queue.vhost)
            raise PreconditionFailed(f"invalid arg '{key}' for {what} of queue type rabbit_{queue.type}_queue")


def _check_exclusive(queue: Queue, wants_exclusive: bool) -> None:
    in_use = queue.exclusive_consumer is not None
    if wants_exclusive and (queue.consumers.count > 0 or queue.single_active):
        in_use = True
    if in_use:
        raise AccessRefused(f"{resource('queue', queue.name, queue.vhost)} in exclusive use")


def _check_owner(queue: Queue, wants_exclusive: bool) -> None:
    """Copies harm nobody: an exclusive browser keeps out those who take messages, and other exclusive ones."""
    owner = queue.exclusive_consumer
    in_use = owner is not None and (wants_exclusive or not owner.is_browser)
    if wants_exclusive and queue.consumers.first() is not None:
        in_use = True
    if in_use:
        raise AccessRefused(f"{resource('queue', queue.name, queue.vhost)} in exclusive use")


def cancel(channel: Channel, method: methods.BasicCancel) -> None:
    """Unacked messages of the consumer stay with the channel. An unknown tag is no error."""
    consumer = channel.consumers.pop(method.consumer_tag, None)
    reply_consumer = channel.reply_consumer
    if consumer is not None:
        consumer.queue.remove_consumer(consumer)
    elif reply_consumer is not None and reply_consumer.tag == method.consumer_tag:
        channel.close_reply_queue()
    if not method.no_wait:
        channel.answer(methods.BasicCancelOk(method.consumer_tag))
    if consumer is not None and consumer.queue.is_unused_auto_delete():
        channel.vhost.delete_queue(consumer.queue)


def qos(channel: Channel, method: methods.BasicQos) -> None:
    """Without `global`: for consumers that start after it, each for itself. With it: for the channel as a whole."""
    if method.prefetch_size != 0:
        raise NotImplementedByBroker(f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_:
        channel.prefetch = method.prefetch_count
        for consumer in channel.consumers.values():
            channel.connection.drain_soon(consumer.queue)
    else:
        channel.consumer_prefetch = method.prefetch_count
    channel.answer(methods.BasicQosOk())


def get(channel: Channel, method: methods.BasicGet) -> None:
    name = channel.queue_name(method.queue)
    channel.check("queue", name, "read")
    queue = channel.vhost.queue(name, channel.connection)
    # Not when it is asked for one: whatever a queue raises then counts as its failure.
    queue.check_get()
    if queue.type == QUORUM and queue.single_active:
        raise ResourceLocked(
            f"cannot obtain access to locked {resource('queue', name, queue.vhost)}. "
            "basic.get operations are not supported by quorum queues with single active consumer"
        )
    failed_at = queue.failed_at
    entry = channel.connection.node.monitor.get(queue)
    if entry is None:
        if queue.is_behind() and queue.failed_at == failed_at:
            channel.connection.node.errands.begin(LateGet(channel, method, queue), channel.connection)
        else:
            channel.answer(methods.BasicGetEmpty())
        return
    message = entry.message
    if channel.connection.node.watches_deliveries:
        channel.connection.node.watch_delivery(channel, queue, entry)
    channel.counters.got += 1
    if method.no_ack:
        queue.counters.got_no_ack += 1
        tag = channel.unacked.skip()
        queue.backing.settle(entry)
    else:
        queue.counters.got += 1
        tag = channel.unacked.add(entry)
        queue.hold(entry)
    origin = message.origin
    content = channel.framed(message)
    if entry.is_counted():
        content = entry.counted_content(channel.number, channel.connection.frame_max)
    length = queue.backing.length
    head = replies.get_ok(channel.number, tag, entry.redelivered, origin.exchange, origin.keys[0], length)
    channel.connection.send_content(head, content)


class LateGet(LateMethod):
    """More have expired than a turn takes out: who asks for one waits for them."""

    def __init__(self, channel: Channel, method: methods.BasicGet, queue: Queue) -> None:
        super().__init__(channel, method.id)
        self._method = method
        self._queue = queue

    def must_wait(self) -> bool:
        queue = self._queue
        if queue.deleted:
            return False
        failed_at = queue.failed_at
        queue.node.monitor.expire(queue)
        return queue.is_behind() and queue.failed_at == failed_at

    def do(self) -> None:
        get(self.channel, self._method)
