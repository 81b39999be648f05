"""Workloads of connections: opened and closed as fast as it goes, and many that do nothing."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from warren.amqp.constants import CONNECTION_CLOSE_OK, FRAME_MAX_BEFORE_OPEN
from warren.amqp.methods import ConnectionClose
from warren.client.address import BrokerAddress
from warren.client.connection import READ_BYTES, Client, connect
from warren.client.session import Credentials, Received, Session, frame_of, refusal
from warren.errors import WarrenError
from warren.perf.histogram import Histogram
from warren.perf.measure import Figures, Watch, measure_rounds
from warren.perf.plan import Plan
from warren.perf.processes import cpu_seconds, resident_bytes
from warren.perf.workers import Board, Phase, Starter

IDLE_MS: Final = 50
# How long connections stay idle while the broker's CPU time is looked at.
HOLD: Final = 1.0
# Closing with a reset: a port that lingers after every connection would run out of ports within seconds.
_RESET: Final = struct.pack("ii", 1, 0)
_GOODBYE: Final = frame_of(ConnectionClose(200, "bye"), 0)


class Life:
    """One connection that is opened and then closed."""

    def __init__(self, target: BrokerAddress, credentials: Credentials) -> None:
        self.born = time.monotonic_ns()
        self.socket = connect(target) if target.is_tls else _connect_quickly(target)
        self._session = Session(credentials)
        self.socket.send(self._session.greet())

    def is_over(self) -> bool:
        """Read what came, send what is next, and tell whether that was the end."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise WarrenError("lost the connection: the broker closed it without a word")
        self._session.feed(data)
        received = self._session.take()
        if received is None:
            return False
        if self._session.is_open:
            return self._end(received)
        self.socket.send(self._session.answer(received) or _GOODBYE)
        return False

    def _end(self, received: Received) -> bool:
        if received.method_id != CONNECTION_CLOSE_OK:
            raise refusal(received.method)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.socket.close()
        return True


def _connect_quickly(target: BrokerAddress) -> socket.socket:
    """Without a timeout, which would cost as much as a step of the handshake."""
    stream = socket.socket()
    stream.connect((target.host, target.port))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def churn_workers(plan: Plan, board: Board, starter: Starter) -> Histogram:
    """Keeps as many connections under way as the plan has publishers."""
    target = plan.target
    if not target.is_tls:
        # A name to look up costs as much again; with TLS it is what the broker must prove to be.
        target = replace(target, host=socket.gethostbyname(target.host))
    credentials = Credentials(
        target.user, target.password, target.vhost, "warren perf", frame_max=FRAME_MAX_BEFORE_OPEN, channel_max=1
    )
    times = Histogram()
    poller = select.poll()
    lives: dict[int, Life] = {}
    starter.wait_for_go()
    while board.phase < Phase.ENDING or lives:
        while len(lives) < plan.publishers and board.phase < Phase.ENDING:
            life = Life(target, credentials)
            lives[life.socket.fileno()] = life
            poller.register(life.socket, select.POLLIN)
        for fd, _ in poller.poll(IDLE_MS):
            life = lives[fd]
            if life.is_over():
                del lives[fd]
                poller.unregister(fd)
                board.published += 1
                if board.phase == Phase.MEASURING:
                    times.add(time.monotonic_ns() - life.born)
    return times


def churn(plan: Plan, pids: Sequence[int], watch: Watch) -> Figures:
    return measure_rounds("opened", churn_workers, plan, pids, watch)


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
