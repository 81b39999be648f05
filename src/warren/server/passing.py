"""A follower's ports: clients of AMQP are passed on to the leader byte for byte, HTTP is told where the leader is."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from warren.server.gate import address_of
from warren.server.listeners import bind
from warren.server.peers import CLIENT, NONCE, PROOF, Greeting, Stranger, callers_proof

log = logging.getLogger("warren.cluster")

_PIECE: Final = 65536
_HEAD_MAX: Final = 65536
# Seconds: for a leader to answer, and for a client to come out with its request.
_PATIENCE: Final = 5.0
# And for a client to wait for a leader, less than most of them wait for a broker; and between two attempts to reach it.
_ELECTION: Final = 8.0
_AGAIN: Final = 0.2


@dataclass(frozen=True)
class Whereabouts:
    """Of the leader, as far as it is known."""

    process: str
    replication: tuple[str, int]
    http: str


class Passage:
    def __init__(self, uuid: str, secret: Callable[[], str], leader: Callable[[], Whereabouts | None]) -> None:
        self._uuid = uuid
        self._secret = secret
        self._leader = leader
        # Each has two descriptors, and files need some.
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 2 // 5
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # Clients that were passed on, and to which leader's process.
        self._passed: dict[asyncio.Task[None], str] = {}

    async def open(self, host: str, amqp_port: int, http_port: int) -> None:
        """Raises WarrenError when a port is taken."""
        for each in bind(host, amqp_port):
            self._servers.append(await asyncio.start_server(self._pass_client, sock=each, limit=_PIECE))
        for each in bind(host, http_port) if http_port >= 0 else []:
            self._servers.append(await asyncio.start_server(self._answer_http, sock=each, limit=_HEAD_MAX))

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
        host, port = address_of(client.get_extra_info("peername"))
        task = asyncio.current_task()
        assert task is not None
        while True:
            leader = self._leader()
            if leader is not None:
                try:
                    async with asyncio.timeout(_PATIENCE):
                        reader, writer = await asyncio.open_connection(*leader.replication, limit=_PIECE)
                        await self._introduce(reader, writer, host, port)
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
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
    ) -> None:
        greeting = Greeting.new(CLIENT, self._uuid)
        writer.write(greeting.encode())
        proved = callers_proof(self._secret(), greeting, await reader.readexactly(NONCE + PROOF))
        name = host.encode()
        writer.write(proved + bytes([len(name)]) + name + port.to_bytes(2, "big"))

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
        writer.write_eof()
