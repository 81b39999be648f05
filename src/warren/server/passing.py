"""A follower's ports: clients of AMQP are passed on to the leader byte for byte, HTTP is told where the leader is."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Final

from warren.amqp.constants import CONNECTION_OPEN_OK, FRAME_METHOD, FRAME_OVERHEAD, FRAME_PREFIX
from warren.config import Config
from warren.server.listeners import bind
from warren.server.origin import ClientOrigin, origin_of
from warren.server.peers import CLIENT, NONCE, PROOF, SECURE_CLIENT, Greeting, Stranger, Whereabouts, callers_proof
from warren.server.tls import context_of, http_context_of, reload
from warren.server.turn.gate import Entrance, Gate, descriptor_limit
from warren.server.visitor import Visitor

log = logging.getLogger("warren.cluster")

# Bytes that are passed on at once, and that the head of a request may have.
_PIECE: Final = 65536
# Seconds: for a leader to answer, and for a client to come out with its request.
_PATIENCE: Final = 5.0
# And for a client to wait for a leader, less than most of them wait for a broker; and between two attempts to reach it.
_ELECTION: Final = 8.0
_AGAIN: Final = 0.2


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Passage:
    def __init__(
        self,
        config: Config,
        uuid: str,
        secret: Callable[[], str],
        leader: Callable[[], Whereabouts | None],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._uuid = uuid
        # To call the leader with.
        self._tls = tls
        # To answer clients with.
        self._contexts: list[ssl.SSLContext] = []
        self._secret = secret
        self._leader = leader
        self._config = config
        # Each has two descriptors, and files need some.
        self._gate = Gate(config, descriptor_limit() * 2 // 5)
        self._http_gate = Gate(config, config.http_connection_max)
        self._entrances: list[Entrance] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # Clients that were passed on, and to which leader's process.
        self._passed: dict[asyncio.Task[None], str] = {}

    def open(self) -> None:
        """Raises WarrenError when a port is taken, or a certificate cannot be read."""
        config = self._config
        self._serve(config.amqp_port, self._gate, self._pass_on, None)
        if config.has_tls:
            self._serve(config.tls_port, self._gate, self._pass_on, context_of(config))
        if config.http_port >= 0:
            secure = http_context_of(config) if config.http_tls else None
            self._serve(config.http_port, self._http_gate, self._answer_http, secure)

    def _serve(self, port: int, gate: Gate, answer: Answer, context: ssl.SSLContext | None) -> None:
        if context is not None:
            self._contexts.append(context)

        async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await answer(reader, writer)
            except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, RuntimeError) as error:
                # The last is uvloop's, of a connection that has gone.
                log.debug("a client was neither passed on nor answered: %s", error)
            except asyncio.CancelledError:
                # The client is let go of below; nobody waits for this task but who cancelled it.
                writer.transport.abort()
            finally:
                self._tasks.discard(task)
                self._passed.pop(task, None)
                writer.close()

        def met(_: Visitor) -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=_PIECE), attend)

        for each in bind(self._config.host, port):
            self._entrances.append(gate.open(each, met, context))

    def reload(self, config: Config) -> None:
        for context in self._contexts:
            reload(context, config)

    def leave(self, process: str) -> None:
        """That one leads, so clients of any other are to look for it: one that was stopped does not tell them."""
        for task, other in list(self._passed.items()):
            if other != process:
                task.cancel()

    async def close(self) -> None:
        for entrance in self._entrances:
            entrance.close()
        self._entrances.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- AMQP ------------------------------------------------------------------------------------------------------

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_ELECTION):
            far_reader, far_writer = await self._reach_leader(writer)
        try:
            number = writer.get_extra_info("socket").fileno()
            login = LoginWatch(lambda: self._gate.proven(number))
            await _pipe(_copy(reader, far_writer, _nothing), _copy(far_reader, writer, login.hear))
        finally:
            far_writer.close()

    async def _reach_leader(self, client: asyncio.StreamWriter) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """While there is none the client waits: to many of them a connection that is closed at once is no broker."""
        origin = origin_of(client)
        task = asyncio.current_task()
        assert task is not None
        while True:
            leader = self._leader()
            if leader is not None:
                try:
                    async with asyncio.timeout(_PATIENCE):
                        reader, writer = await asyncio.open_connection(*leader.replication, limit=_PIECE, ssl=self._tls)
                        await self._introduce(reader, writer, origin, leader.speaks)
                        self._passed[task] = leader.process
                        return reader, writer
                except (OSError, EOFError, TimeoutError, Stranger) as error:
                    log.debug("the leader does not answer: %s", error)
            await asyncio.sleep(_AGAIN)

    async def _introduce(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, origin: ClientOrigin, version: int
    ) -> None:
        greeting = Greeting.new(SECURE_CLIENT if origin.is_encrypted else CLIENT, self._uuid, version)
        writer.write(greeting.encode())
        proved = callers_proof(self._secret(), greeting, await reader.readexactly(NONCE + PROOF))
        writer.write(proved + origin.encode())

    # -- HTTP ------------------------------------------------------------------------------------------------------

    async def _answer_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(self._response(head))
            await writer.drain()

    def _response(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        target = words[1].decode("latin-1") if len(words) == 3 and words[1].startswith(b"/") else "/"
        if target.startswith("/api/health/checks/is-follower"):
            return _http("200 OK", {"status": "ok", "role": "follower"})
        leader = self._leader()
        if leader is None or not leader.http:
            return _http("503 Service Unavailable", {"error": "no_leader", "reason": "no node of the cluster leads"})
        return _http("307 Temporary Redirect", {"role": "follower"}, f"Location: {leader.http}{target}\r\n")


def _http(status: str, body: dict[str, str], more: str = "") -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status}\r\n{more}Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1", "replace") + content


class LoginWatch:
    """Reads along what the leader says to a client, until it opens the connection: then it has logged in."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._is_over = False
        self._data = b""

    def hear(self, data: bytes) -> None:
        if self._is_over:
            return
        self._data += data
        while len(self._data) >= FRAME_PREFIX:
            end = FRAME_OVERHEAD + int.from_bytes(self._data[3:FRAME_PREFIX], "big")
            if len(self._data) < end:
                return
            frame, self._data = self._data[:end], self._data[end:]
            if frame[0] == FRAME_METHOD and int.from_bytes(frame[7:11], "big") == CONNECTION_OPEN_OK:
                self._is_over, self._data = True, b""
                self._done()
                return


def _nothing(data: bytes) -> None:
    pass


async def _pipe(*ways: Coroutine[None, None, None]) -> None:
    """Both ways, until both have ended, or one by an error."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hear: Callable[[bytes], None]) -> None:
    while data := await reader.read(_PIECE):
        hear(data)
        writer.write(data)
        await writer.drain()
    with suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()
        else:
            # TLS ends both ways at once.
            writer.close()
