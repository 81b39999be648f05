"""A node that leads: who comes to it before it serves, and what it does at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.replication.real_nodes import free_port
from warren.amqp.constants import FRAME_METHOD
from warren.assembly import Assembly
from warren.cluster.candidacy import Candidacy
from warren.cluster.leading import Leading
from warren.config import Config
from warren.server.identity import Identity
from warren.server.leadership import Leadership
from warren.server.origin import ClientOrigin

HEADER = b"AMQP\x00\x00\x09\x01"


async def elected(folder: Path) -> tuple[Leading, Candidacy]:
    # Nobody answers there, and nobody need.
    config = Config(cluster="orders", etcd=[f"http://127.0.0.1:{free_port()}"])
    identity = Identity(folder, "orders")
    candidacy = Candidacy(config, identity, folder, {})
    leading = Leading(config, identity, candidacy)
    members = {identity.uuid}
    leading.leadership = Leadership(candidacy.member, members, members, None, asyncio.get_running_loop())
    return leading, candidacy


class Passed(asyncio.Protocol):
    """A connection from a follower, of a client of its own."""

    def __init__(self, leading: Leading, has_come: asyncio.Event) -> None:
        self._leading = leading
        self._has_come = has_come

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._leading.adopt(transport, ClientOrigin("127.0.0.1", 1), HEADER)
        self._has_come.set()


@asynccontextmanager
async def client_of(leading: Leading) -> AsyncIterator[asyncio.StreamReader]:
    has_come = asyncio.Event()
    server = await asyncio.get_running_loop().create_server(lambda: Passed(leading, has_come), "127.0.0.1", 0)
    async with server, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await has_come.wait()
        yield reader
        writer.close()
        await writer.wait_closed()


def test_a_client_waits_until_a_node_that_was_elected_serves(tmp_path: Path) -> None:
    async def story() -> bytes:
        leading, candidacy = await elected(tmp_path)
        assembly = Assembly(Config(amqp_port=0, http_port=-1))
        async with client_of(leading) as client:
            await assembly.start()
            leading._open(assembly.server)
            first = await client.readexactly(1)
        await assembly.stop(0)
        await candidacy.close()
        return first

    assert asyncio.run(story()) == bytes([FRAME_METHOD])


def test_and_is_sent_away_when_that_node_does_not_lead_after_all(tmp_path: Path) -> None:
    async def story() -> bytes:
        leading, candidacy = await elected(tmp_path)
        async with client_of(leading) as client:
            leading._close()
            rest = await client.read()
        await candidacy.close()
        return rest

    assert asyncio.run(story()) == b""


def test_what_etcd_has_decided_counts_at_once(tmp_path: Path) -> None:
    async def story() -> set[str]:
        leading, candidacy = await elected(tmp_path)
        leading.assembly = Assembly(Config(amqp_port=0, http_port=-1))
        await leading.assembly.start()
        assert leading.leadership is not None
        replicas = leading.leadership.replicas
        # The first time all is looked after, and then not for a while.
        await leading.tick()
        candidacy.member.decided.append(frozenset({replicas.me, "other"}))
        await leading.tick()
        await leading.assembly.stop(0)
        await candidacy.close()
        return replicas.members - {replicas.me}

    assert asyncio.run(story()) == {"other"}
