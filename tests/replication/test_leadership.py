"""What a leader does when a connection of a follower's comes or ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

from warren.config import Config
from warren.replication import messages
from warren.replication.election import ClusterView, LeaderKey, Look, Member, Role
from warren.server.leadership import Leadership, now_ms
from warren.server.replication_port import Peer
from warren.server.turn.gate import Gate

ALL = frozenset({"me", "other"})


def test_who_loses_a_follower_asks_etcd_at_once_whether_it_still_leads(tmp_path: Path) -> None:
    async def scenario() -> None:
        member = Member("me", "p1", 3_600_000)
        member.next_request(now_ms())
        member.answered(Look(), ClusterView(LeaderKey("me", "p1", 7), ALL, 5), now_ms())
        assert member.role is Role.LEADER
        leadership = Leadership(member, set(ALL), set(ALL), None, asyncio.get_running_loop())
        leadership.make_disk(tmp_path)
        peer = Peer(lambda: "", lambda: leadership, lambda transport, origin, rest: None, Gate(Config(), 0))
        leadership.follower_says(peer, messages.hello("other", 6, None))
        assert member.next_request(now_ms()) is None
        leadership.follower_lost(peer)
        assert member.next_request(now_ms()) == Look()
        leadership.end()

    asyncio.run(scenario())


def test_a_follower_that_calls_before_there_are_files_is_heard_when_there_are(tmp_path: Path) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        leadership = Leadership(Member("me", "p1", 3_600_000), set(ALL), set(ALL), None, loop)
        peer = Peer(lambda: "", lambda: leadership, lambda transport, origin, rest: None, Gate(Config(), 0))
        leadership.follower_says(peer, messages.hello("other", 0, None))
        assert not peer.is_closed
        leadership.make_disk(tmp_path)
        # With the next turn of the loop.
        await asyncio.sleep(0)
        assert "other" in leadership.replicas.links
        leadership.end()

    asyncio.run(scenario())
