"""Connections to the replication port: who calls proves to be one of us, and then follows, or passes a client on."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from warren.replication.messages import Garbled, Splitter
from warren.server.origin import ClientOrigin
from warren.server.peers import CLIENT, FOLLOW, NONCE, PROOF, SECURE_CLIENT, Greeting, Stranger, is_proof, proof
from warren.server.turn.gate import Gate

if TYPE_CHECKING:
    from warren.server.leadership import Leadership

log = logging.getLogger("warren.cluster")

# Seconds that a caller has to prove who it is.
GREETING_SECONDS: Final = 5.0


class Peer(asyncio.Protocol):
    """One connection to the replication port, from a follower or from a client by way of one."""

    def __init__(
        self,
        secret: Callable[[], str],
        leadership: Callable[[], Leadership | None],
        adopt: Callable[[asyncio.Transport, ClientOrigin, bytes], None],
        gate: Gate,
    ) -> None:
        self._secret = secret
        self._leadership = leadership
        self._adopt = adopt
        self._gate = gate
        self._leader: Leadership | None = None
        self._transport: asyncio.Transport | None = None
        self._data = b""
        self._greeting: Greeting | None = None
        self._nonce = secrets.token_bytes(NONCE)
        self._is_known = False
        self._late: asyncio.TimerHandle | None = None
        self._splitter = Splitter()
        self._room = asyncio.Event()
        self._room.set()
        self.is_closed = False
        self.cut = 0
        self.files: dict[str, int] = {}
        self.copying: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._late = asyncio.get_running_loop().call_later(GREETING_SECONDS, self.close)

    def data_received(self, data: bytes) -> None:
        try:
            if not self._is_known:
                self._meet(data)
            elif self._greeting is not None and self._greeting.purpose != FOLLOW:
                self._hear_of_client(self._greeting, data)
            elif self._leader is not None:
                for message in self._splitter.feed(data):
                    self._leader.follower_says(self, message)
        except (Garbled, Stranger, ValueError, IndexError) as error:
            log.warning("a connection to the replication port is refused: %s", error)
            self.close()

    def _meet(self, data: bytes) -> None:
        self._data += data
        if self._greeting is None:
            size = Greeting.size(self._data)
            if len(self._data) < size:
                return
            self._greeting, self._data = Greeting.decode(self._data[:size]), self._data[size:]
            self.write(self._nonce + proof(self._secret(), b"answerer", self._greeting, self._nonce))
        if len(self._data) < PROOF:
            return
        given, rest = self._data[:PROOF], self._data[PROOF:]
        if not is_proof(given, self._secret(), b"caller", self._greeting, self._nonce):
            raise Stranger("the secret is another one")
        self._is_known = True
        assert self._transport is not None
        self._gate.proven(self._transport.get_extra_info("socket").fileno())
        self._data = b""
        if self._late is not None:
            self._late.cancel()
        self._begin(self._greeting, rest)

    def _begin(self, greeting: Greeting, rest: bytes) -> None:
        self._leader = self._leadership()
        if self._leader is None or self._transport is None:
            # It is known when there is one.
            self.close()
        elif greeting.purpose == FOLLOW:
            if rest:
                self.data_received(rest)
        elif greeting.purpose in (CLIENT, SECURE_CLIENT):
            self._hear_of_client(greeting, rest)
        else:
            raise Stranger(f"nobody knows the purpose {greeting.purpose}")

    def _hear_of_client(self, greeting: Greeting, data: bytes) -> None:
        """Whence it came. From there on the connection is the client's."""
        self._data += data
        found = ClientOrigin.decode(self._data, greeting.purpose == SECURE_CLIENT)
        if found is not None:
            assert self._transport is not None
            self._adopt(self._transport, *found)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    async def drained(self) -> None:
        await self._room.wait()

    def unsent(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self.is_closed:
            self._transport.write(data)

    def write_pieces(self, pieces: list[bytes]) -> None:
        if self._transport is not None and not self.is_closed:
            self._transport.writelines(pieces)

    def close(self) -> None:
        self.is_closed = True
        self._room.set()
        if self._transport is not None:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        self._room.set()
        if self._late is not None:
            self._late.cancel()
        if self.copying is not None:
            self.copying.cancel()
        if self._leader is not None:
            with suppress(RuntimeError):
                self._leader.follower_lost(self)
