"""The gate in front of every port: who may come in, before anything is spent on them.

A stranger is a connection that has not logged in yet. Strangers are counted, all of them and by their address; when
there are too many, the one that has waited longest goes, so that sockets which never say anything keep nobody out.
Some descriptors are never given to sockets: without them the store could begin no file.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from warren.config import Config
from warren.server.visitor import Kind, Visitor

log = logging.getLogger("warren.gate")

BACKLOG: Final = 1024
# New sockets in one turn of the loop, so that a flood of them leaves room for those who are in.
ACCEPTS_PER_TURN: Final = 32
# Turns in a row that each found one, after which more are taken for likely: to ask in vain costs as much as one.
STREAK: Final = 8
# Seconds that a stranger has at least: a login takes less, also when a thousand clients come back at once.
STRANGER_SECONDS: Final = 1.0
TLS_HANDSHAKE_TIMEOUT: Final = 5.0
# Between two turns while there are many strangers: 320 more in a second are less than can log in.
CROWD_SECONDS: Final = 0.1
# When even the descriptor for a refusal is missing.
RETRY_SECONDS: Final = 0.1
TELL_SECONDS: Final = 10.0


def descriptor_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def descriptors_for_sockets(config: Config) -> int:
    """The kernel gives the lowest number that is free: who gets this one or a higher has come too late."""
    limit = descriptor_limit()
    return limit - (config.descriptors_reserved or min(limit // 4, 1024))


MakeProtocol = Callable[[Visitor], asyncio.BaseProtocol]


class Gate:
    def __init__(self, config: Config, most: int) -> None:
        # Of this gate, strangers included; 0 = any number.
        self._most = most
        self._descriptors = descriptors_for_sockets(config)
        share = max(self._descriptors // 4, 1)
        self._strangers_max = min(config.strangers_max, share)
        self._per_address_max = min(config.strangers_per_address_max, max(share // 2, 1))
        self.visitors: set[Visitor] = set()
        # Those who have waited longest in front; the first by their descriptor, as protocols know them.
        self._strangers: dict[int, Visitor] = {}
        self._by_address: dict[str, dict[int, Visitor]] = {}
        self.refused = 0
        self._told_at = -TELL_SECONDS

    def open(
        self,
        listening: socket.socket,
        make_protocol: MakeProtocol,
        tls: ssl.SSLContext | None = None,
    ) -> Entrance:
        """Raises OSError when nobody can listen there."""
        return Entrance(self, listening, make_protocol, tls)

    def admit(self, like: Kind, number: int, address: str, port: int) -> Visitor | None:
        """None, and the descriptor is closed, when there is no room for it."""
        now = time.monotonic()
        why = self._refusal(number, address, now)
        if why:
            os.close(number)
            self.refused += 1
            if now - self._told_at >= TELL_SECONDS:
                self._told_at = now
                log.warning("a connection from %s was refused: %s (%d refused so far)", address, why, self.refused)
            return None
        visitor = Visitor(self, like, number, address, port, now)
        self.visitors.add(visitor)
        self._strangers[number] = visitor
        self._by_address.setdefault(address, {})[number] = visitor
        return visitor

    def is_crowded(self, address: str) -> bool:
        """Strangers have half of their places, in all or from there."""
        others = self._by_address.get(address, {})
        return len(self._strangers) * 2 > self._strangers_max or len(others) * 2 > self._per_address_max

    def _refusal(self, number: int, address: str, now: float) -> str:
        if 0 < self._most <= len(self.visitors):
            return f"{len(self.visitors)} are connected"
        if number >= self._descriptors:
            self._make_room(self._strangers, now)
            return f"the descriptors from {self._descriptors} on are kept for files"
        others = self._by_address.get(address, {})
        if len(others) >= self._per_address_max and not self._make_room(others, now):
            return f"{len(others)} connections from there have not logged in"
        if len(self._strangers) >= self._strangers_max and not self._make_room(self._strangers, now):
            return f"{len(self._strangers)} connections have not logged in"
        return ""

    def _make_room(self, strangers: dict[int, Visitor], now: float) -> bool:
        oldest = next(iter(strangers.values()), None)
        if oldest is None or now - oldest.came_at < STRANGER_SECONDS:
            return False
        self.proven(oldest.number)
        # Its protocol reads the end of the stream, and cleans up as for any other. It may have gone by itself.
        with suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)
        return True

    def proven(self, number: int) -> None:
        """The one with this descriptor is no stranger any more."""
        visitor = self._strangers.pop(number, None)
        if visitor is None:
            return
        others = self._by_address[visitor.address]
        del others[number]
        if not others:
            del self._by_address[visitor.address]

    def left(self, visitor: Visitor) -> None:
        self.visitors.discard(visitor)
        if self._strangers.get(visitor.number) is visitor:
            self.proven(visitor.number)


class Entrance:
    """One port's socket: takes those whom the gate admits, and makes a protocol for each."""

    def __init__(
        self,
        gate: Gate,
        listening: socket.socket,
        make_protocol: MakeProtocol,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._gate = gate
        self._socket = listening
        self._like: Kind = (int(listening.family), int(listening.type), listening.proto)
        self._make_protocol = make_protocol
        self._tls = tls
        self._entering: dict[Visitor, asyncio.Task[None]] = {}
        self._streak = 0
        # uvloop sees to that itself.
        self._never_blocks = not isinstance(self._loop, asyncio.BaseEventLoop)
        listening.listen(BACKLOG)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    async def wait_closed(self) -> None:
        """As uvicorn asks of its servers: there is nothing to wait for."""

    def _accept(self) -> None:
        address = ""
        most = 1 if self._streak < STREAK else ACCEPTS_PER_TURN
        self._streak += 1
        for _ in range(most):
            try:
                # As socket.accept, which makes a socket of it that would be taken apart at once.
                number, name = self._socket._accept()  # type: ignore[attr-defined]
            except (BlockingIOError, ConnectionAbortedError):
                self._streak = 0
                return
            except OSError as error:
                log.error("no connection can be accepted: %s", error)
                self._wait(RETRY_SECONDS)
                return
            address, port = address_of(name)
            visitor = self._gate.admit(self._like, number, address, port)
            if visitor is not None:
                if not self._never_blocks:
                    visitor.setblocking(False)
                self._entering[visitor] = self._loop.create_task(self._let_in(visitor))

        if most > 1 and self._gate.is_crowded(address):
            # Clients that all come back at once wait in the kernel's line: better than to be refused.
            self._wait(CROWD_SECONDS)

    def _wait(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    async def _let_in(self, visitor: Visitor) -> None:
        timeout = None if self._tls is None else TLS_HANDSHAKE_TIMEOUT
        try:
            await self._loop.connect_accepted_socket(
                partial(self._make_protocol, visitor), visitor, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except OSError as error:
            # Gone again, or no TLS.
            log.debug("%s did not come in: %s", visitor.address, error)
            visitor.close()
        finally:
            # By itself: a callback of the task would be one more turn of the loop.
            del self._entering[visitor]


def address_of(name: object) -> tuple[str, int]:
    """Host and port of a socket's name; an IPv4 peer on an IPv6 socket is shown, and judged, as IPv4."""
    if not isinstance(name, tuple) or len(name) < 2:
        return "unknown", 0
    host = str(name[0]).removeprefix("::ffff:") if "." in str(name[0]) else str(name[0])
    # Many come from the same place, and to the same: one text for all of them.
    return sys.intern(host.partition("%")[0]), int(name[1])
