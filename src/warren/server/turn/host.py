"""The process as the core sees it: end of turn, randomness, passwords checked off the loop, the log."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from warren.broker.node import Node
from warren.broker.queue.awaiting import Awaiting
from warren.broker.world import Login
from warren.server import logs
from warren.server.fair_line import FairLine
from warren.server.leadership import Leadership
from warren.server.passwords import Passwords
from warren.server.turn.archiver import Archiver
from warren.server.turn.clock import Clock
from warren.server.turn.syncer import Syncer
from warren.server.turn.timers import DeadlineTimer
from warren.server.turn.transport import AmqpTransport, Turns

log = logging.getLogger("warren")

# Hashing is slow on purpose; more threads than this would only let a flood of logins take all cores.
PASSWORD_THREADS = 2


class LeadershipLost(Exception):
    """Not the disk failed: what was not answered is another's to answer."""


class AwaitingFuture(Awaiting):
    """Somebody outside the core who waits for the disk."""

    def __init__(self, position: int, future: asyncio.Future[bool]) -> None:
        super().__init__(position)
        self.future = future

    def reached(self) -> None:
        if not self.future.done():
            self.future.set_result(True)


class LoopHost(Turns):
    """Serves one node on one loop. `attach` comes right after the node was made with this host."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        passwords: Passwords,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.passwords = passwords
        self._on_fatal = on_fatal
        self._node: Node | None = None
        self._timer: DeadlineTimer | None = None
        self._is_flush_due = False
        # Somebody will say when the turn that is under way may end.
        self._is_held = False
        self._is_ending = False
        self._leaving: list[AmqpTransport] = []
        self._syncer: Syncer | None = None
        self._archiver: Archiver | None = None
        self._leadership: Leadership | None = None
        self.is_halted = False
        self._waiting: set[asyncio.Future[bool]] = set()
        self._threads = ThreadPoolExecutor(PASSWORD_THREADS, thread_name_prefix="warren-password")
        self._line = FairLine(loop, self._threads, PASSWORD_THREADS)

    def attach(
        self,
        node: Node,
        syncer: Syncer | None = None,
        archiver: Archiver | None = None,
        leadership: Leadership | None = None,
    ) -> None:
        self._node = node
        self._leadership = leadership
        self._syncer = syncer
        self._archiver = archiver
        self._timer = DeadlineTimer(self.loop, node, self.clock, self.tick)
        self.wake()

    def detach(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._node = None
        self._line.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def halt(self) -> None:
        """The disk failed: nothing that happens from now on, and nothing that waited for it, is told to anybody."""
        self.is_halted = True
        for future in self._waiting:
            if not future.done():
                future.set_result(False)

    async def durable(self) -> bool:
        """Until all that has happened so far is durable. False when it never will be."""
        node = self._node
        if self.is_halted or node is None:
            return False
        if node.store.synced >= node.store.position:
            return True
        future: asyncio.Future[bool] = self.loop.create_future()
        self._waiting.add(future)
        node.await_position(AwaitingFuture(node.store.position, future))
        self.wake()
        try:
            return await future
        finally:
            self._waiting.discard(future)

    def wake(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            if not self._is_held:
                self.loop.call_soon(self.end_turn)

    def hold(self) -> None:
        # A turn that is due already ends when the loop said it would.
        self._is_held = not self._is_flush_due

    def let_go(self, at_once: bool) -> None:
        if not self._is_held:
            return
        self._is_held = False
        if not self._is_flush_due:
            return
        if at_once:
            self.end_turn()
        else:
            self.loop.call_soon(self.end_turn)

    def after_turn(self, leaving: AmqpTransport) -> None:
        self._leaving.append(leaving)
        if not self._is_ending:
            self.wake()

    def tick(self) -> None:
        """Hand in the time; due timers fire."""
        node = self._node
        if node is None:
            return
        try:
            node.tick(self.clock.now())
        except Exception:
            log.exception("a timer failed")

    def advance(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        if self._timer is not None:
            # It counts down in the time that was; the end of the turn sets it anew.
            self._timer.cancel()
        self.tick()

    def end_turn(self) -> None:
        """Everything that happened takes effect outside, now."""
        self._is_flush_due = False
        node, timer = self._node, self._timer
        if node is None or timer is None or self.is_halted:
            return
        if self._leadership is not None and not self._leadership.may_speak():
            self._on_fatal(LeadershipLost("another node may lead by now"))
            return
        self._is_ending = True
        try:
            node.flush()
            if self._leadership is not None:
                self._leadership.pump()
            syncer = self._syncer
            while syncer is not None and syncer.kick():
                # Confirms that waited for it go out in the same turn.
                node.flush()
            if self._archiver is not None:
                self._archiver.kick()
            if self._leaving:
                leaving, self._leaving = self._leaving, []
                for transport in leaving:
                    transport.tell_lost()
            timer.arm()
        except OSError as error:
            # What was not made durable must not be promised: no retry, no confirm, stop.
            self._on_fatal(error)
        except Exception:
            log.exception("output failed")
        finally:
            self._is_ending = False

    def token(self) -> str:
        return secrets.token_urlsafe(16)

    def draw(self) -> int:
        # It deals out messages and guards nothing, so the system need not be asked.
        return random.getrandbits(32)

    def stopwatch(self) -> int:
        return time.monotonic_ns()

    def arrival(self) -> int:
        # The clock is read whenever a socket was.
        return self.clock.asked_ns

    def remembers_password(self, algorithm: str, password_hash: str, password: str) -> bool:
        return self.passwords.remembers(algorithm, password_hash, password)

    def verify_password(self, login: Login, algorithm: str, password_hash: str, password: str) -> None:
        done = self.is_right_password(login.peer_host, algorithm, password_hash, password)
        done.add_done_callback(lambda done: self._verified(login, done))

    def is_right_password(
        self, address: str, algorithm: str, password_hash: str, password: str
    ) -> asyncio.Future[bool]:
        return self._line.join(address, self.passwords.verify, algorithm, password_hash, password)

    def hash_password(self, password: str) -> asyncio.Future[tuple[str, str]]:
        return self.loop.run_in_executor(self._threads, self.passwords.hash, password)

    def _verified(self, login: Login, done: asyncio.Future[bool]) -> None:
        if done.cancelled() or self._node is None:
            return
        error = done.exception()
        if error is not None:
            log.error("a password could not be checked", exc_info=error)
        self.tick()
        login.password_verified(error is None and done.result())
        self.wake()

    def log(self, level: int, text: str) -> None:
        logs.tell(log, level, text)
