"""Two faults of cluster_faults.py, for a moment each; `make faults` plays all of them, longer."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.replication.network import command, obstacle
from tests.replication.real_nodes import needs_etcd


@pytest.mark.long
@needs_etcd
@pytest.mark.timeout(300)
def test_nothing_is_lost_where_wires_are_cut() -> None:
    why = obstacle()
    if why:
        pytest.skip(why)
    faults = ("leader cut from etcd", "what followers send is lost")
    done = subprocess.run(
        command("tests.replication.cluster_faults", "--seconds", "4", "--only", *faults),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["fault"] for each in found] == list(faults), done.stderr
    for each in found:
        assert each["is_good"], each
        assert each["confirmed"] > 0, each
    assert done.returncode == 0, done.stderr
