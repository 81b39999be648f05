"""The second half of basic.publish: what is checked and routed goes into its queues, and its publisher hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.constants import NO_ROUTE
from warren.amqp.methods import BasicReturn
from warren.amqp.replies import frame
from warren.broker.consume.reply_to import deliver_replies
from warren.broker.exchanges.base import Exchange
from warren.broker.message import Message
from warren.broker.publish.republish import IS_KEPT, SOME_FAILED, SOME_REFUSED, SOME_TOOK, WIDE, FanOut, deliver
from warren.broker.queue.outcome import DUPLICATE
from warren.broker.queue.queue import Queue
from warren.broker.session.numbering import Numbering
from warren.broker.session.observer import Delivery, Observer

if TYPE_CHECKING:
    from warren.broker.queue.monitor import Monitor
    from warren.broker.session.channel import Channel


def deliver_routed(channel: Channel, delivery: Delivery) -> None:
    """What was checked and routed, now or before a transaction was committed."""
    if delivery.queues and len(delivery.message.origin.keys) > 1:
        # CC may name requesters besides queues.
        deliver_replies(channel.connection.node, delivery.message)
    numbering = channel.connection.numbering
    if numbering is not None:
        _deliver_numbered(channel, delivery, numbering)
        return
    deliver_to_queues(
        channel,
        delivery.message,
        delivery.exchange,
        delivery.queues,
        delivery.mandatory,
        delivery.seqno,
        delivery.observer,
    )


def fan_out_of(channel: Channel, delivery: Delivery) -> FanOut:
    """The same for very many queues, to be done in pieces."""
    delivery.exchange.published_in += 1
    numbering = channel.connection.numbering
    if numbering is not None:
        numbering.number += 1
        return NumberedFanOut(channel, delivery, numbering)
    return ClientFanOut(channel, delivery)


def deliver_to_queues(
    channel: Channel,
    message: Message,
    exchange: Exchange,
    queues: list[Queue],
    mandatory: bool,
    seqno: i64,
    observer: Observer | None,
) -> None:
    """Into every queue, then the answers: a return before the ack, a nack if any queue refused."""
    node = channel.connection.node
    exchange.published_in += 1
    if not queues:
        _unrouted(channel, message, mandatory, seqno, observer)
        return
    if len(queues) > WIDE:
        wide = Delivery(message, exchange, queues, mandatory, seqno, observer)
        node.errands.begin(ClientFanOut(channel, wide), channel.connection)
        return
    said = deliver(node.monitor, exchange, message, queues, observer)
    _answer(channel, message, queues, mandatory, seqno, observer, said)


def _deliver_numbered(channel: Channel, delivery: Delivery, numbering: Numbering) -> None:
    """The publisher hears the same whether it is new or came again."""
    if len(delivery.queues) > WIDE:
        channel.connection.node.errands.begin(fan_out_of(channel, delivery), channel.connection)
        return
    delivery.exchange.published_in += 1
    numbering.number += 1
    if numbering.has_failed:
        if delivery.seqno != 0:
            channel.refused(delivery.seqno)
    elif not delivery.queues:
        _unrouted(channel, delivery.message, delivery.mandatory, delivery.seqno, delivery.observer)
    else:
        said = _give_numbered(
            channel.connection.node.monitor, delivery, delivery.queues, numbering.key, numbering.number
        )
        _answer_numbered(channel, delivery, numbering, said)


def _give_numbered(monitor: Monitor, delivery: Delivery, queues: list[Queue], key: bytes, number: i64) -> i64:
    """Into those of the queues that have not had it."""
    message, observer = delivery.message, delivery.observer
    said: i64 = 0
    for queue in queues:
        if queue.has_passed(key, number):
            said |= SOME_TOOK | IS_KEPT if queue.keeps(message) else SOME_TOOK
            if observer is not None:
                observer.queued(queue, DUPLICATE)
            continue
        queue.backing.begin_together()
        outcome = deliver(monitor, delivery.exchange, message, [queue], observer)
        if outcome & SOME_TOOK:
            queue.note_publisher(key, number, message)
        said |= outcome
    return said


def _answer_numbered(channel: Channel, delivery: Delivery, numbering: Numbering, said: i64) -> None:
    if said & (SOME_REFUSED | SOME_FAILED):
        numbering.has_failed = True
    _answer(channel, delivery.message, delivery.queues, delivery.mandatory, delivery.seqno, delivery.observer, said)


def _answer(
    channel: Channel,
    message: Message,
    queues: list[Queue],
    mandatory: bool,
    seqno: i64,
    observer: Observer | None,
    said: i64,
) -> None:
    node = channel.connection.node
    node.counters.routed += 1
    if mandatory and said == SOME_FAILED:
        # Every queue broke over it. Routed to nobody, as far as its publisher is concerned.
        _return(channel, message, observer)
    is_kept = said & IS_KEPT != 0
    if is_kept and node.store.is_behind():
        for queue in queues:
            channel.spend(queue, message.body_size)
    if observer is not None:
        observer.answered(seqno, is_kept)
    if seqno == 0:
        return
    if said & (SOME_REFUSED | SOME_FAILED):
        channel.refused(seqno)
    elif is_kept and node.store.position > node.store.synced:
        channel.await_sync(seqno, queues)
    else:
        channel.confirmed(seqno)


class ClientFanOut(FanOut):
    """A publish to very many queues: whoever published it is not read on, so what follows comes after it."""

    def __init__(self, channel: Channel, delivery: Delivery) -> None:
        monitor = channel.connection.node.monitor
        super().__init__(monitor, delivery.exchange, delivery.message, delivery.queues, delivery.observer)
        self.channel = channel
        self.delivery = delivery

    def done(self) -> None:
        sent = self.delivery
        _answer(self.channel, sent.message, sent.queues, sent.mandatory, sent.seqno, sent.observer, self.said)


class NumberedFanOut(ClientFanOut):
    def __init__(self, channel: Channel, delivery: Delivery, numbering: Numbering) -> None:
        super().__init__(channel, delivery)
        self._numbering = numbering
        self._number: i64 = numbering.number
        if numbering.has_failed:
            # Nothing passes what was refused.
            self.queues = []
            self.said = SOME_REFUSED

    def give(self, queues: list[Queue]) -> i64:
        return _give_numbered(self.monitor, self.delivery, queues, self._numbering.key, self._number)

    def done(self) -> None:
        _answer_numbered(self.channel, self.delivery, self._numbering, self.said)


def _unrouted(channel: Channel, message: Message, mandatory: bool, seqno: i64, observer: Observer | None) -> None:
    node = channel.connection.node
    if deliver_replies(node, message):
        node.counters.routed += 1
    elif mandatory:
        _return(channel, message, observer)
    else:
        node.counters.dropped += 1
        if observer is not None:
            observer.dropped()
    if observer is not None:
        observer.answered(seqno, False)
    if seqno != 0:
        channel.confirmed(seqno)


def _return(channel: Channel, message: Message, observer: Observer | None) -> None:
    channel.connection.node.counters.returned += 1
    channel.counters.returned += 1
    if observer is not None:
        observer.returned()
    if channel.is_closed:
        # While the message went to very many queues, which broke over it.
        return
    origin = message.origin
    head = frame(channel.number, BasicReturn(NO_ROUTE, "NO_ROUTE", origin.exchange, origin.keys[0]))
    channel.connection.send_content(head, channel.framed(message))
