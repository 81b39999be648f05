"""When a node stands in an election."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.replication.real_nodes import free_port
from warren.cluster.candidacy import Candidacy
from warren.config import Config
from warren.replication.election import ClusterView, LeaderKey
from warren.server.identity import Identity


def test_one_that_gave_up_the_lead_leaves_it_to_others_until_one_has_taken_it(tmp_path: Path) -> None:
    async def story() -> list[bool]:
        # Nobody answers there, and nobody need.
        config = Config(cluster="orders", etcd=[f"http://127.0.0.1:{free_port()}"])
        identity = Identity(tmp_path, "orders")
        candidacy = Candidacy(config, identity, tmp_path, {})
        alone = frozenset({identity.uuid})
        nobody = ClusterView(None, alone, 1)
        found: list[bool] = []
        candidacy.hold_back()
        for leader in (None, identity.uuid, "another"):
            if leader is not None:
                candidacy.member.view = ClusterView(LeaderKey(leader, "process", 7), alone, 1)
                candidacy.ask(is_changing=False, disk_stall=0.0)
            candidacy.member.view = nobody
            candidacy.ask(is_changing=False, disk_stall=0.0)
            found.append(candidacy.member.is_fit)
        await candidacy.close()
        return found

    assert asyncio.run(story()) == [False, False, True]
