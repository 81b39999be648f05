"""The publishing process: sends prepared batches on all its connections as far as the limits of the run allow."""

from __future__ import annotations

import select
import time
from typing import Final

from warren.amqp.methods import ConfirmSelect, ConfirmSelectOk
from warren.client.connection import READ_BYTES, Client
from warren.errors import WarrenError
from warren.perf.batches import SEND_BYTES, Batch
from warren.perf.confirms import ConfirmTimes
from warren.perf.histogram import Histogram
from warren.perf.plan import Plan
from warren.perf.sockets import unwaiting
from warren.perf.workers import Board, Phase, Starter

# How long nothing may happen before the phase is looked at again, in milliseconds.
IDLE_MS: Final = 50
# How soon to look again whether consumers have made room, in seconds.
RECHECK: Final = 100e-6
# A broker that has not confirmed the last messages after this is taken for stuck.
PATIENCE_NS: Final = 30_000_000_000
_ENDLESS: Final = 1 << 62


class PublishingConnection:
    """One connection: how far it has come in the endless row of its batch, in bytes and in whole messages."""

    def __init__(self, plan: Plan, number: int) -> None:
        self.client = Client(plan.target)
        # RabbitMQ's own tools leave transient messages without properties at all, and so do we where none is asked for.
        self._batch = Batch(plan.exchange, plan.keys_of(number), plan.size, plan.properties(), self.client.frame_max)
        self._chunk = max(1, SEND_BYTES // self._batch.stride)
        self._bytes = 0
        self.sent = 0
        self.confirms: ConfirmTimes | None = None
        self._is_timed = plan.rate > 0
        if plan.window:
            self.client.call(ConfirmSelect(), ConfirmSelectOk)
            self.confirms = ConfirmTimes(self.client.session)
        self._flags = unwaiting(self.client)

    def fileno(self) -> int:
        return self.client.socket.fileno()

    def begun(self) -> int:
        """Messages of which at least a byte is sent: a run must not end within one."""
        return -(-self._bytes // self._batch.stride)

    def send_towards(self, target: int) -> None:
        """One send, of at most a chunk, that goes no further than message number `target`."""
        stride = self._batch.stride
        at = self._bytes % len(self._batch.data)
        first = at // stride
        last = min(first + self._chunk, first + target - self.sent, self._batch.count)
        end = last * stride
        if end <= at:
            return
        now = time.monotonic_ns()
        if self._is_timed:
            # One whose beginning is already on its way keeps its time.
            self._batch.stamp(first + (at % stride > 0), last, now)
        try:
            self._bytes += self.client.socket.send(self._batch.view[at:end], self._flags)
        except BlockingIOError:
            return
        sent = self._bytes // stride
        if self.confirms is not None and sent > self.sent:
            self.confirms.sent(sent, now)
        self.sent = sent

    def read(self) -> None:
        data = self.client.socket.recv(READ_BYTES, self._flags)
        if not data:
            raise WarrenError("lost the connection: the broker closed it without a word")
        # Without confirms nothing is due, so this can only be the reason for a close.
        (self.confirms or ConfirmTimes(self.client.session)).feed(data, time.monotonic_ns())


class PublishingProcess:
    def __init__(self, plan: Plan, board: Board, starter: Starter) -> None:
        self._plan = plan
        self._board = board
        self._starter = starter
        self._streams = [PublishingConnection(plan, number) for number in range(plan.publishers)]
        self._by_fd = {stream.fileno(): stream for stream in self._streams}
        self._poller = select.poll()
        self._poller.register(starter, select.POLLIN)
        for stream in self._streams:
            self._poller.register(stream, select.POLLIN | select.POLLOUT)
        self._start = 0
        self._is_measuring = False

    def run(self) -> Histogram:
        self._starter.wait_for_go()
        self._start = time.monotonic_ns()
        while self._board.phase < Phase.ENDING and self._board.published < (self._plan.messages or _ENDLESS):
            self._turn()
        self._finish()
        for stream in self._streams:
            stream.client.close()
        return self._waits()

    def _turn(self) -> None:
        targets = self._targets()
        has_work = self._wait_for_writing(targets)
        # What only time can change is waited for by sleeping: poll knows nothing finer than a millisecond.
        pause = None if has_work else self._pause()
        if pause is not None:
            time.sleep(pause)
        self._serve(targets, IDLE_MS if pause is None else 0)

    def _serve(self, targets: dict[int, int], timeout: int) -> None:
        for fd, events in self._poller.poll(timeout):
            stream = self._by_fd.get(fd)
            if stream is None:
                raise EOFError
            if events & ~select.POLLOUT:
                stream.read()
            if events & select.POLLOUT:
                stream.send_towards(targets[fd])
        self._board.published = sum(stream.sent for stream in self._streams)
        if self._plan.window:
            self._count_confirms()

    def _wait_for_writing(self, targets: dict[int, int]) -> bool:
        """Ask for room to write only where something may be sent; poll keeps that list in our own memory."""
        has_work = False
        for fd, stream in self._by_fd.items():
            may_send = targets[fd] > stream.sent
            self._poller.modify(fd, select.POLLIN | select.POLLOUT if may_send else select.POLLIN)
            has_work |= may_send
        return has_work

    def _targets(self) -> dict[int, int]:
        """How far each stream may go, by its socket."""
        plan, board = self._plan, self._board
        allowance = _ENDLESS
        # Of begun messages, not of sent ones: half a message helps nobody, so its other half is already granted.
        begun = sum(stream.begun() for stream in self._streams)
        if plan.in_flight:
            allowance = plan.in_flight - (begun - board.consumed // plan.copies)
        if plan.messages:
            allowance = min(allowance, plan.messages - begun)
        share, rest = divmod(max(allowance, 0), len(self._streams))
        now = time.monotonic_ns() if plan.rate else 0
        targets = {}
        for number, (fd, stream) in enumerate(self._by_fd.items()):
            target = stream.begun() + share + (number < rest)
            if stream.confirms is not None:
                target = min(target, stream.confirms.count + plan.window)
            if plan.rate:
                target = min(target, self._due(number, now))
            targets[fd] = target
        return targets

    def _due(self, number: int, now: int) -> int:
        """Messages that stream `number` should have sent by now; the streams take turns."""
        each = self._plan.rate / len(self._streams)
        return int((now - self._start) / 1e9 * each - number / len(self._streams)) + 1

    def _pause(self) -> float | None:
        """How long to sleep before looking again; None when it is the broker's turn."""
        if self._plan.rate:
            now = time.monotonic_ns()
            return max(0.0, min(self._next_due() - now, IDLE_MS * 1_000_000) / 1e9)
        return RECHECK if self._plan.in_flight and not self._is_window_full() else None

    def _next_due(self) -> float:
        count, each = len(self._streams), self._plan.rate / len(self._streams)
        return min(
            self._start + (stream.sent + number / count) / each * 1e9 for number, stream in enumerate(self._streams)
        )

    def _is_window_full(self) -> bool:
        return self._plan.window > 0 and all(
            stream.confirms is not None and stream.sent - stream.confirms.count >= self._plan.window
            for stream in self._streams
        )

    def _count_confirms(self) -> None:
        self._board.confirmed = sum(stream.confirms.count for stream in self._streams if stream.confirms is not None)
        if not self._is_measuring and self._board.phase == Phase.MEASURING:
            # The warm-up's times do not count.
            self._is_measuring = True
            for stream in self._streams:
                if stream.confirms is not None:
                    stream.confirms.waits.clear()

    def _finish(self) -> None:
        """End no stream within a message, and wait for the confirms that are due."""
        targets = {fd: stream.begun() for fd, stream in self._by_fd.items()}
        deadline = time.monotonic_ns() + PATIENCE_NS
        while self._wait_for_writing(targets) or (self._plan.window and self._board.confirmed < self._board.published):
            self._serve(targets, IDLE_MS)
            if time.monotonic_ns() > deadline:
                missing = self._board.published - self._board.confirmed
                raise WarrenError(f"the broker is stuck: {missing} messages are not confirmed")

    def _waits(self) -> Histogram:
        waits = Histogram()
        for stream in self._streams:
            if stream.confirms is not None:
                waits.merge(stream.confirms.waits)
        return waits


def publish(plan: Plan, board: Board, starter: Starter) -> Histogram:
    return PublishingProcess(plan, board, starter).run()
