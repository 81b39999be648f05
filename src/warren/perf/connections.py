"""Workloads of connections: opened and closed as fast as it goes, and many that do nothing."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from warren.amqp.constants import FRAME_MAX_BEFORE_OPEN, FRAME_OVERHEAD, PROTOCOL_HEADER
from warren.amqp.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    ConnectionTuneOk,
)
from warren.client.address import Target
from warren.client.connection import READ_BYTES, Client, first_method, frame_of, refusal, start_ok
from warren.errors import WarrenError
from warren.perf.crew import ENDING, MEASURING, Board, Crew, Starter
from warren.perf.histogram import Histogram
from warren.perf.measure import Figures, Watch, measure
from warren.perf.plan import Plan
from warren.perf.processes import cpu_seconds, resident_bytes

IDLE_MS: Final = 50
# How long connections stay idle while the broker's CPU time is looked at.
HOLD: Final = 1.0
# Closing with a reset: a port that lingers after every connection would run out of ports within seconds.
_RESET: Final = struct.pack("ii", 1, 0)
# Of the size in a frame's head.
_SIZE: Final = struct.Struct(">3xI")


def script_of(target: Target) -> list[tuple[bytes, int]]:
    """The life of a connection: what we send, and the method that must come back before we send the next."""
    tune_ok = frame_of(ConnectionTuneOk(1, FRAME_MAX_BEFORE_OPEN, 0), 0)
    return [
        (PROTOCOL_HEADER, ConnectionStart.id),
        (frame_of(start_ok(target), 0), ConnectionTune.id),
        (tune_ok + frame_of(ConnectionOpen(target.vhost), 0), ConnectionOpenOk.id),
        (frame_of(ChannelOpen()), ChannelOpenOk.id),
        (frame_of(ConnectionClose(200, "bye"), 0), ConnectionCloseOk.id),
    ]


class Life:
    """One connection on its way through the script."""

    def __init__(self, address: tuple[str, int], script: Sequence[tuple[bytes, int]]) -> None:
        self.born = time.monotonic_ns()
        # Without a name to look up and without a timeout, each of which would cost as much as a step of the script.
        self.socket = socket.socket()
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._script = script
        self._step = 0
        self._unread = b""
        self.socket.send(script[0][0])

    def is_over(self) -> bool:
        """Read what came, send what is next, and tell whether that was the end."""
        data = self._unread + self.socket.recv(READ_BYTES)
        if not data:
            raise WarrenError("lost the connection: the broker closed it without a word")
        if len(data) < _SIZE.size or len(data) < _SIZE.unpack_from(data)[0] + FRAME_OVERHEAD:
            self._unread = data
            return False
        self._unread = b""
        if data[7:11] != self._script[self._step][1].to_bytes(4, "big"):
            method = first_method(data)
            raise refusal(method) if method is not None else WarrenError("the broker sent half a frame")
        self._step += 1
        if self._step == len(self._script):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.socket.close()
            return True
        self.socket.send(self._script[self._step][0])
        return False


def churn_workers(plan: Plan, board: Board, starter: Starter) -> Histogram:
    """Keeps as many connections under way as the plan has publishers."""
    script = script_of(plan.target)
    address = (socket.gethostbyname(plan.target.host), plan.target.port)
    times = Histogram()
    poller = select.poll()
    lives: dict[int, Life] = {}
    starter.wait_for_go()
    while board.phase < ENDING or lives:
        while len(lives) < plan.publishers and board.phase < ENDING:
            life = Life(address, script)
            lives[life.socket.fileno()] = life
            poller.register(life.socket, select.POLLIN)
        for fd, _ in poller.poll(IDLE_MS):
            life = lives[fd]
            if life.is_over():
                del lives[fd]
                poller.unregister(fd)
                board.published += 1
                if board.phase == MEASURING:
                    times.add(time.monotonic_ns() - life.born)
    return times


def churn(plan: Plan, pids: Sequence[int], watch: Watch) -> Figures:
    # A broker that refuses us should say so before any process is started.
    with Client(plan.target), Crew(plan, [churn_workers]) as crew:
        run = measure(crew, plan, pids, watch)
    figures = {"rate": run.rate("published"), "seconds": run.seconds, "opened": run.published}
    return figures | run.times.figures() | run.cost(run.count("published"))


def idle(plan: Plan, pids: Sequence[int], watch: Watch) -> Figures:
    """As many connections as the plan has publishers, each with a channel."""
    count = plan.publishers
    with ExitStack() as stack:
        # The first one makes the broker import and allocate what it needs once.
        stack.enter_context(Client(plan.target))
        memory, start = resident_bytes(pids), time.monotonic()
        for number in range(count):
            stack.enter_context(Client(plan.target))
            watch((number + 1) / count, number + 1)
        opened = time.monotonic() - start
        cpu = cpu_seconds(pids)
        time.sleep(HOLD)
        figures = {"connections": float(count), "rate": count / opened}
        if pids:
            figures["rss_per_connection"] = (resident_bytes(pids) - memory) / count
            figures["idle_cpu_percent"] = 100 * (cpu_seconds(pids) - cpu) / HOLD
    return figures
