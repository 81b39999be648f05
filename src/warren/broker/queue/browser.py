"""Browsing a queue: a consumer that gets copies of what is ready, in order of sequence, and takes nothing away.

Warren's own, by arguments of basic.consume: x-browse (true) and x-browse-from (a sequence, else the head). Each copy
tells its place in the header x-sequence, which never changes and is never given twice. With x-settle-to everything
ready up to a sequence is settled first, as if acked, and consume-ok says that this is durable. So whoever reads by
sequence number and notes how far it came can read again after a crash, and let go of what it is done with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.amqp.fields import Table, type_name
from warren.amqp.methods import BasicConsume, BasicConsumeOk
from warren.amqp.stamp import stamped
from warren.broker.message import NEVER, Message
from warren.broker.queue.awaiting import Awaiting
from warren.broker.queue.consumer import Consumer
from warren.broker.queue.entry import Entry
from warren.broker.queue.expiry import arm_expiry, is_expired
from warren.broker.queue.settling import Settling
from warren.broker.rules.arguments import resource
from warren.broker.rules.setting_kinds import integer, integer_problem
from warren.errors import PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.queue.fifo import FifoQueue
    from warren.broker.queue.recipient import Recipient

BROWSE: Final = "x-browse"
BROWSE_FROM: Final = "x-browse-from"
SETTLE_TO: Final = "x-settle-to"
_SEQUENCE: Final = b"x-sequence"
# Copies that are looked up at a time, and what one browser may get in a turn.
_BATCH: Final[i64] = 256
_TURN_BYTES: Final[i64] = 131072


class Browser(Consumer):
    def __init__(
        self, channel: Recipient, queue: FifoQueue, tag: str, method: BasicConsume, next_sequence: i64
    ) -> None:
        super().__init__(channel, queue, tag, False, method.exclusive, 0, method.arguments)
        self.source = queue
        self.active = False
        self.is_browser = True
        self.next_sequence: i64 = next_sequence
        # Not before consume-ok.
        self.has_begun = False
        self.no_wait = method.no_wait

    def begin(self) -> None:
        """consume-ok, then what is there; nothing for one that was cancelled while it waited."""
        channel = self.channel
        if channel.consumers.get(self.tag) is not self:
            return
        self.has_begun = True
        if not self.no_wait:
            channel.answer(BasicConsumeOk(self.tag))
        self.queue.node.drain_soon(self.queue)

    def send_copy(self, entry: Entry) -> None:
        channel = self.channel
        message = entry.message
        content = stamped(message.content, channel.number, _SEQUENCE, entry.sequence)
        told = Message(message.origin, content, channel.number, message.body_size)
        copy = Entry(told, self.queue, entry.sequence, NEVER)
        copy.is_copy = True
        copy.redelivered = entry.redelivered
        copy.returns = entry.returns
        copy.consumer = self
        self.unacked += 1
        self.queue.hold(copy)
        self.send(copy, channel.unacked.add(copy))


class AwaitingBrowser(Awaiting):
    """What it settled must be durable before it hears so."""

    def __init__(self, position: i64, browser: Browser) -> None:
        super().__init__(position)
        self.browser = browser

    def reached(self) -> None:
        self.browser.begin()


def wants_to_browse(arguments: Table) -> bool:
    field = arguments.get(BROWSE)
    return SETTLE_TO in arguments or (field is not None and field.value is not False)


def new_browser(channel: Recipient, queue: FifoQueue, tag: str, method: BasicConsume) -> Browser:
    """With all that may be refused checked. Settling is left to `begin_browsing`."""
    what = resource("queue", queue.name, queue.vhost)
    field = method.arguments.get(BROWSE)
    if field is not None and field.tag != "t":
        raise PreconditionFailed(f"invalid arg '{BROWSE}' for {what}: {{unacceptable_type,{type_name(field.tag)}}}")
    if channel.consumer_prefetch == 0:
        raise PreconditionFailed(f"consumer prefetch count is not set for browsing {what}")
    if method.no_ack:
        raise PreconditionFailed(f"automatic acknowledgement not supported by browsing {what}")
    first = _number(method.arguments, BROWSE_FROM, what, 0)
    settled = _number(method.arguments, SETTLE_TO, what, -1)
    return Browser(channel, queue, tag, method, first if settled < 0 else settled + 1)


def _number(arguments: Table, key: str, what: str, default: i64) -> i64:
    field = arguments.get(key)
    if field is None:
        return default
    problem = integer_problem(field)
    if problem:
        raise PreconditionFailed(f"invalid arg '{key}' for {what}: {problem}")
    return max(integer(field), 0)


def begin_browsing(browser: Browser) -> None:
    """At once, or when what it settled is durable."""
    queue = browser.queue
    node = queue.node
    if SETTLE_TO in browser.arguments:
        node.errands.begin(SettlingForBrowser(browser), browser.channel.outlet)
    else:
        browser.begin()


class SettlingForBrowser(Settling):
    """As if everything that is ready up to where it begins had been acked."""

    def __init__(self, browser: Browser) -> None:
        super().__init__(browser.source, browser.next_sequence - 1)
        self._browser = browser

    def done(self) -> None:
        queue = self.queue
        queue.counters.acked += self.count
        if queue.has_expiring and not queue.deleted:
            arm_expiry(queue)
        store = queue.node.store
        if store.position > store.synced:
            queue.node.await_position(AwaitingBrowser(store.position, self._browser))
        else:
            self._browser.begin()


def feed_browsers(queue: FifoQueue) -> None:
    """Everybody gets a little, and whoever could take more goes on in the next turn."""
    goes_on = False
    for browser in list(queue.browsers):
        if browser.has_begun and _feed(queue, browser):
            goes_on = True
    if goes_on:
        queue.node.drain_later(queue)


def _feed(queue: FifoQueue, browser: Browser) -> bool:
    """True when there may be more for it."""
    budget = _TURN_BYTES
    now = queue.node.now
    while browser.can_take():
        entries = queue.backing.browse(browser.next_sequence - 1, min(_BATCH, browser.prefetch - browser.unacked))
        if not entries:
            return False
        for entry in entries:
            if budget <= 0:
                return True
            if not browser.can_take():
                return False
            browser.next_sequence = entry.sequence + 1
            if is_expired(entry, now):
                continue
            budget -= len(entry.message.content)
            queue.counters.delivered += 1
            browser.send_copy(entry)
    return False
