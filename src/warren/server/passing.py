"""A follower's ports: clients of AMQP are passed on to the leader byte for byte, HTTP is told where the leader is."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from warren.config import Config
from warren.server.listeners import bind
from warren.server.origin import ClientOrigin, origin_of
from warren.server.peers import CLIENT, NONCE, PROOF, SECURE_CLIENT, Greeting, Stranger, Whereabouts, callers_proof
from warren.server.tls import context_of, http_context_of, reload

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
        # Each has two descriptors, and files need some.
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 2 // 5
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # Clients that were passed on, and to which leader's process.
        self._passed: dict[asyncio.Task[None], str] = {}

    async def open(self, config: Config) -> None:
        """Raises WarrenError when a port is taken, or a certificate cannot be read."""
        await self._serve(config, config.amqp_port, self._pass_client, None)
        if config.has_tls:
            await self._serve(config, config.tls_port, self._pass_client, context_of(config))
        if config.http_port >= 0:
            secure = http_context_of(config) if config.http_tls else None
            await self._serve(config, config.http_port, self._answer_http, secure)

    async def _serve(self, config: Config, port: int, answer: Answer, context: ssl.SSLContext | None) -> None:
        if context is not None:
            self._contexts.append(context)
        for each in bind(config.host, port):
            self._servers.append(await asyncio.start_server(answer, sock=each, limit=_PIECE, ssl=context))

    def reload(self, config: Config) -> None:
        for context in self._contexts:
            reload(context, config)

    def leave(self, process: str) -> None:
        """That one leads, so clients of any other are to look for it: one that was stopped does not tell them."""
        for task, other in list(self._passed.items()):
            if other != process:
                task.cancel()

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- AMQP ------------------------------------------------------------------------------------------------------

    async def _pass_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= self._most:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._pass_on(reader, writer)
        except (OSError, EOFError, TimeoutError, RuntimeError) as error:
            # The last is uvloop's, of a connection that has gone.
            log.debug("a client could not be passed on: %s", error)
        except asyncio.CancelledError:
            # The client is let go of below; nobody waits for this task but who cancelled it.
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            self._passed.pop(task, None)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_ELECTION):
            far_reader, far_writer = await self._reach_leader(writer)
        try:
            await self._pipe((reader, far_writer), (far_reader, writer))
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

    async def _pipe(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        """Both ways, until both have ended, or one by an error."""
        tasks = [asyncio.create_task(_copy(reader, writer)) for reader, writer in ways]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _introduce(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, origin: ClientOrigin, version: int
    ) -> None:
        greeting = Greeting.new(SECURE_CLIENT if origin.is_encrypted else CLIENT, self._uuid, version)
        writer.write(greeting.encode())
        proved = callers_proof(self._secret(), greeting, await reader.readexactly(NONCE + PROOF))
        writer.write(proved + origin.encode())

    # -- HTTP ------------------------------------------------------------------------------------------------------

    async def _answer_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(head))
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as error:
            log.debug("a request was not understood: %s", error)
        finally:
            self._tasks.discard(task)
            writer.close()

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


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_PIECE):
        writer.write(data)
        await writer.drain()
    with suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()
        else:
            # TLS ends both ways at once.
            writer.close()
