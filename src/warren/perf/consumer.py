"""The consuming process: reads as much as there is, counts it, and acknowledges in the pattern of the run."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from warren.amqp.methods import BasicConsume, BasicConsumeOk, BasicNack, BasicQos, BasicQosOk
from warren.amqp.replies import ack
from warren.client.connection import Client
from warren.client.session import CHANNEL, frame_of
from warren.errors import WarrenError
from warren.perf.deliveries import DeliveryCounter
from warren.perf.histogram import Histogram
from warren.perf.plan import Plan
from warren.perf.sockets import has_more, unwaiting
from warren.perf.workers import Board, Phase, Starter

IDLE_MS: Final = 50
# The frame that says what becomes of a delivery: channel, tag, and whether of all before it too.
Settled: TypeAlias = Callable[[int, int, bool], bytes]


class ConsumingConnection:
    """One connection and the deliveries that came in on it."""

    def __init__(self, plan: Plan, number: int, settled: Settled = ack) -> None:
        self._ack_every = plan.ack_every
        self._acked = 0
        self._queues = plan.queues_of(number)
        self._settled = settled
        self.client = Client(plan.target)
        self.counter = DeliveryCounter()
        self._flags = 0
        if plan.prefetch:
            self.client.call(BasicQos(prefetch_count=plan.prefetch), BasicQosOk)

    def subscribe(self) -> None:
        for queue in self._queues:
            # The tag that the broker makes up would be longer than all the rest of a small delivery.
            consume = BasicConsume(queue=queue, consumer_tag=queue[-3:], no_ack=not self._ack_every)
            self.client.call(consume, BasicConsumeOk)
        unread = self.client.hand_over()
        self._flags = unwaiting(self.client)
        self.counter.room()[: len(unread)] = unread
        self.take(len(unread), None)

    def fileno(self) -> int:
        return self.client.socket.fileno()

    def read(self, times: Histogram | None) -> None:
        self._read_once(times)
        while has_more(self.client):
            self._read_once(times)

    def _read_once(self, times: Histogram | None) -> None:
        size = self.client.socket.recv_into(self.counter.room(), 0, self._flags)
        if not size:
            raise WarrenError("lost the connection: the broker closed it without a word")
        self.take(size, times)

    def take(self, size: int, times: Histogram | None) -> None:
        whole = self.counter.received(size)
        if not whole:
            return
        if times is not None:
            now = time.monotonic_ns()
            for then in self.counter.sent_times(whole):
                times.add(now - then)
        self.counter.drop(whole)
        if self._ack_every:
            self._acknowledge()

    def _acknowledge(self) -> None:
        every = self._ack_every
        last = self.counter.count // every * every
        tags = range(self._acked + every, last + 1, every)
        if tags:
            self.client.socket.sendall(b"".join([self._settled(CHANNEL, tag, every > 1) for tag in tags]))
            self._acked = last

    def close(self) -> None:
        if self._ack_every and self._acked < self.counter.count:
            self._acked = self.counter.count
            self.client.socket.sendall(self._settled(CHANNEL, self._acked, True))
        # After a timed run deliveries may still be coming, and the answer to the close is behind them.
        self.client.session.feed(self.counter.rest())
        self.client.close()


class ConsumingProcess:
    def __init__(self, plan: Plan, board: Board, starter: Starter, rejects: bool = False) -> None:
        self._plan = plan
        self._rejects = rejects
        self._board = board
        self._starter = starter
        self._times = Histogram()
        self._connections = [
            ConsumingConnection(plan, number, _rejected if rejects else ack) for number in range(plan.consumers)
        ]
        self._by_fd = {connection.fileno(): connection for connection in self._connections}
        self._poller = select.poll()
        self._poller.register(starter, select.POLLIN)
        for connection in self._connections:
            self._poller.register(connection, select.POLLIN)

    def run(self) -> Histogram:
        # Before the publishers begin; but where a full queue is drained, that is when the clock starts.
        if self._plan.publishers:
            self._subscribe()
        self._starter.wait_for_go()
        if not self._plan.publishers:
            self._subscribe()
        while self._board.phase < Phase.CLOSING:
            self._turn()
        for connection in self._connections:
            connection.close()
        return self._times

    def _subscribe(self) -> None:
        for connection in self._connections:
            connection.subscribe()

    def _turn(self) -> None:
        ready = self._poller.poll(IDLE_MS)
        times = self._times if self._plan.rate and self._board.phase == Phase.MEASURING else None
        for fd, _ in ready:
            connection = self._by_fd.get(fd)
            if connection is None:
                raise EOFError
            connection.read(times)
        if not self._rejects:
            self._board.consumed = sum([connection.counter.count for connection in self._connections])
        if not ready:
            for connection in self._connections:
                connection.counter.explain()


def consume(plan: Plan, board: Board, starter: Starter) -> Histogram:
    # Where messages die first, the settings of acknowledgements are of those who reject them.
    plan = replace(plan, ack_every=0, prefetch=0) if plan.death else plan
    return ConsumingProcess(plan, board, starter).run()


def reject(plan: Plan, board: Board, starter: Starter) -> Histogram:
    return ConsumingProcess(replace(plan, death=""), board, starter, rejects=True).run()


def _rejected(channel: int, tag: int, multiple: bool) -> bytes:
    return frame_of(BasicNack(delivery_tag=tag, multiple=multiple, requeue=False), channel)
