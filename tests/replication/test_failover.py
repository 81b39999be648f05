"""Three real nodes and a real etcd: a leader is killed, another hands over, and nothing promised is missing."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pika
import pytest

from tests.replication.real_nodes import CLUSTER, Cluster, EtcdServer, NodeProcess, connect, needs_etcd, wait_for
from warren.server.life import DRAIN_SECONDS
from warren.server.peers import VERSION

pytestmark = [
    needs_etcd,
    pytest.mark.timeout(180),
]
PERSISTENT = pika.BasicProperties(delivery_mode=2)


class Publisher:
    """Publishes and waits for each confirm, by way of whichever node answers, for as long as it is told."""

    def __init__(self, ports: list[int], queue: str) -> None:
        self._ports = ports
        self._queue = queue
        self.confirmed: set[int] = set()
        self.count = 0
        self.longest_gap = 0.0
        self._open()

    def _open(self) -> None:
        self._connection = connect(self._ports)
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._channel.queue_declare(self._queue, durable=True)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.count += 1
            began = time.monotonic()
            while not self._attempt():
                self._open()
            self.longest_gap = max(self.longest_gap, time.monotonic() - began)

    def _attempt(self) -> bool:
        try:
            self._channel.basic_publish("", self._queue, str(self.count).encode(), PERSISTENT)
        except pika.exceptions.AMQPError:
            drop(self._connection)
            return False
        self.confirmed.add(self.count)
        return True

    def close(self) -> None:
        self._connection.close()


def drop(connection: pika.BlockingConnection) -> None:
    """One whose broker is gone."""
    with suppress(pika.exceptions.AMQPError):
        connection.close()


def drained(ports: list[int], queue: str) -> list[tuple[int, bool]]:
    connection = connect(ports)
    channel = connection.channel()
    found: list[tuple[int, bool]] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            connection.close()
            return found
        found.append((int(body), method.redelivered))


def returned(connection: pika.BlockingConnection, queue: str, times: int) -> int:
    """Give its message back so often; the count with which it then comes again."""
    channel = connection.channel()
    channel.confirm_delivery()
    declared = channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    if declared.method.message_count == 0:
        channel.basic_publish("", queue, b"m", PERSISTENT)
    for _ in range(times):
        method, _, _ = channel.basic_get(queue)
        assert method is not None
        channel.basic_nack(method.delivery_tag)
    _, properties, _ = channel.basic_get(queue)
    assert properties is not None and properties.headers is not None
    return int(properties.headers["x-delivery-count"])


def test_a_killed_leader_loses_nothing_and_clients_go_on_through_any_node(cluster: Cluster, queue: str) -> None:
    first = cluster.leader()
    survivors = [node.amqp_port for node in cluster.followers()]
    publisher = Publisher(survivors, queue)
    publisher.publish(200)
    # One who holds a message when the leader goes: it comes again, and says so.
    holder = connect([first.amqp_port])
    method, _, body = holder.channel().basic_get(queue)
    assert method is not None and int(body) == 1
    # And one that came back: how often is known to whoever leads.
    assert returned(holder, "tried", 2) == 2
    first.kill()
    drop(holder)
    publisher.publish(200)
    publisher.close()
    second = cluster.leader()
    assert second is not first
    counting = connect(survivors)
    assert returned(counting, "tried", 1) == 3
    counting.close()
    # The old leader comes back, and follows.
    first.start()
    cluster.wait_in_sync(3)
    assert first.roles()[-1] == "follower"
    # Planned: nobody is waited for, and it is the one that was asked for.
    done = cluster.command("transfer", cluster.uuid_of(first))
    assert done.returncode == 0, done.stderr
    wait_for(lambda: cluster.leader() is not second, 20, "the hand-over")
    assert cluster.leader() is first
    found = drained([node.amqp_port for node in cluster.nodes], queue)
    assert publisher.confirmed <= {number for number, _ in found}
    assert dict(found)[1] is True


def test_a_leader_that_is_told_to_stop_hands_over_and_one_that_was_stopped_says_nothing(
    cluster: Cluster, queue: str
) -> None:
    first = cluster.leader()
    publisher = Publisher([node.amqp_port for node in cluster.nodes], queue)
    publisher.publish(50)
    # One who does not read, and does not answer that it is told to go: others must not wait for it.
    silent = connect([first.amqp_port])
    began = time.monotonic()
    assert first.terminate() == 0
    assert time.monotonic() - began < DRAIN_SECONDS
    drop(silent)
    publisher.publish(50)
    assert first.errors.read_text().count("Traceback") == 0
    cluster.wait_in_sync(2)
    second = cluster.leader()
    stale = connect([second.amqp_port])
    channel = stale.channel()
    second.signal(signal.SIGSTOP)
    third = next(node for node in cluster.nodes if node not in (first, second))
    wait_for(lambda: third.roles()[-1] == "leader", 40, "the third node's election")
    second.signal(signal.SIGCONT)
    # Whatever it was asked meanwhile, it must not answer: another leads.
    with pytest.raises(pika.exceptions.AMQPError):
        channel.queue_declare("by a leader of the past", durable=True)
    drop(stale)
    wait_for(lambda: second.roles()[-1] == "follower", 40, "the end of the second's lead")
    cluster.wait_in_sync(2)
    publisher.publish(20)
    publisher.close()
    assert publisher.confirmed <= {number for number, _ in drained([second.amqp_port], queue)}


def test_a_follower_that_falls_silent_does_not_keep_a_leader_from_handing_over(cluster: Cluster, queue: str) -> None:
    first, (second, silent) = cluster.leader(), cluster.followers()
    publisher = Publisher([first.amqp_port, second.amqp_port], queue)
    publisher.publish(50)
    connection = connect([first.amqp_port])
    channel = connection.channel()
    silent.signal(signal.SIGSTOP)
    # It is not missed yet, so that this waits for it, and so does who hands over.
    channel.basic_publish("", queue, b"0", PERSISTENT)
    cluster.wish_for(second)
    wait_for(lambda: first.roles()[-1] == "follower", 60, "the hand-over")
    assert cluster.leader() is second
    drop(connection)
    publisher.publish(50)
    publisher.close()
    silent.signal(signal.SIGCONT)
    cluster.wait_in_sync(3)
    assert publisher.confirmed <= {number for number, _ in drained([first.amqp_port], queue)}


def ways_to_follow(leader: NodeProcess, start: int) -> list[bool]:
    """Of those who came to follow it, as it told from there on: whether they had all that it had."""
    lines = [line for line in leader.errors.read_text()[start:].splitlines() if " follows" in line]
    return [line.endswith("has all files as this node found them") for line in lines]


def told(cluster: Cluster) -> dict[NodeProcess, int]:
    """How much each has told until now."""
    return {node: len(node.errors.read_text()) for node in cluster.nodes}


def test_who_has_what_the_next_leader_begins_with_copies_nothing(cluster: Cluster, queue: str) -> None:
    first, said = cluster.leader(), told(cluster)
    publisher = Publisher([node.amqp_port for node in cluster.nodes], queue)
    publisher.publish(200)
    assert cluster.command("transfer").returncode == 0
    wait_for(lambda: cluster.leader() is not first, 60, "another leader")
    second = cluster.leader()
    wait_for(lambda: len(ways_to_follow(second, said[second])) == 2, 60, "two followers")
    assert ways_to_follow(second, said[second]) == [True, True]
    cluster.wait_in_sync(3)
    publisher.publish(200)
    said = told(cluster)
    # One that was stopped is another process when it comes back, and has to show what it has.
    assert second.terminate() == 0
    publisher.publish(200)
    publisher.close()
    third = cluster.leader()
    assert third is not second
    wait_for(lambda: len(ways_to_follow(third, said[third])) == 1, 60, "a follower")
    second.start()
    wait_for(lambda: len(ways_to_follow(third, said[third])) == 2, 60, "two followers")
    assert ways_to_follow(third, said[third]) == [True, False]
    cluster.wait_in_sync(3)
    assert publisher.confirmed <= {number for number, _ in drained([first.amqp_port], queue)}


def api(node: NodeProcess, path: str) -> object:
    request = urllib.request.Request(f"http://127.0.0.1:{node.http_port}{path}")
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer) if path.startswith("/api") else answer.read().decode()


def test_operators_see_who_mirrors_whom(cluster: Cluster) -> None:
    leader, gone = cluster.leader(), cluster.followers()[0]
    # A moment after etcd the leader knows it too.
    wait_for(lambda: [node["in_sync"] for node in nodes_of(leader)] == [True] * 3, 60, "three nodes in sync")
    nodes = nodes_of(leader)
    assert sorted((node["role"], node["in_sync"], node["running"]) for node in nodes) == [
        ("follower", True, True),
        ("follower", True, True),
        ("leader", True, True),
    ]
    assert len({node["name"] for node in nodes}) == 3
    assert api(leader, "/api/cluster-name") == {"name": CLUSTER}
    assert api(leader, "/api/health/checks/node-is-quorum-critical") == {"status": "ok"}
    assert "warren_cluster_nodes_in_sync 3.0" in str(api(leader, "/metrics"))
    told = json.loads(cluster.command("status", "--json").stdout)["nodes"]
    assert sorted((node["role"], node["in_sync"]) for node in told) == [
        ("follower", True),
        ("follower", True),
        ("leader", True),
    ]
    for node in cluster.followers():
        node.kill()
    cluster.wait_in_sync(1)
    # Until it has been silent for as long as its lease, it is known to have been there.
    wait_for(
        lambda: any(not node["running"] for node in nodes_of(leader)) or len(nodes_of(leader)) == 1,
        20,
        gone.folder.name,
    )


def nodes_of(leader: NodeProcess) -> list[dict[str, object]]:
    nodes = api(leader, "/api/nodes")
    assert isinstance(nodes, list)
    return nodes


def test_a_follower_sends_http_to_the_leader(cluster: Cluster) -> None:
    follower = cluster.followers()[0]
    request = urllib.request.Request(f"http://127.0.0.1:{follower.http_port}/api/overview")
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 200
        assert answer.url == f"http://127.0.0.1:{cluster.leader().http_port}/api/overview"


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    etcd = EtcdServer(tmp_path)
    yield etcd
    etcd.stop()


def refused(node: NodeProcess) -> str:
    """The one line that it ends with."""
    node.start()
    assert node.process is not None
    assert node.process.wait(30) == 1
    text = node.errors.read_text()
    assert "Traceback" not in text, text
    return text.splitlines()[-1]


def test_mistakes_are_told_in_one_line(etcd: EtcdServer, tmp_path: Path) -> None:
    node = NodeProcess(etcd, tmp_path / "n")
    assert "there is no cluster 'orders' in etcd: begin it with `warren cluster init`" in refused(node)
    other = NodeProcess(etcd, tmp_path / "n", cluster="another")
    assert "belongs to the cluster 'orders', not to 'another'" in refused(other)
    etcd.stop()
    assert "does not answer" in refused(NodeProcess(etcd, tmp_path / "m"))


def test_a_copy_of_a_nodes_folder_does_not_start_beside_it(etcd: EtcdServer, tmp_path: Path) -> None:
    cluster = Cluster(etcd, [NodeProcess(etcd, tmp_path / "n")])
    try:
        cluster.wait_in_sync(1)
        shutil.copytree(tmp_path / "n", tmp_path / "copy")
        copy = NodeProcess(etcd, tmp_path / "copy")
        cluster.nodes.append(copy)
        assert "copy is a copy of its folder, and a new node begins with an empty one" in refused(copy)
        # Where the original does not run any more, it may be the same disk in another machine.
        cluster.nodes[0].kill()
        copy.start()
        wait_for(lambda: copy.roles()[-1:] == ["leader"], 60, "the lead")
    finally:
        cluster.stop()


def test_a_stranger_at_the_replication_port_gets_nothing(cluster: Cluster) -> None:
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"WARRENRP\x01\x01\x01x" + bytes(32) + bytes(32), b"WARRENRP\x09\x01\x01x"):
        with socket.create_connection(cluster.replication_address(), timeout=20) as stranger:
            stranger.sendall(said)
            heard = b""
            while data := stranger.recv(4096):
                heard += data
            assert len(heard) in (0, 64)
    cluster.wait_in_sync(3)


def test_hanging_up_ends_neither_leader_nor_follower(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node.signal(signal.SIGHUP)
    for node in cluster.nodes:
        said = wait_for(
            lambda: "the configuration is reloaded" in node.errors.read_text() and node.errors.read_text(),  # noqa: B023
            30,
            "a reload",
        )
        assert "needs a restart" not in said
        assert node.process is not None
        assert node.process.poll() is None


# -- upgrades ----------------------------------------------------------------------------------------------------------


def speaking(node: NodeProcess, version: int) -> NodeProcess:
    """As if it were of another release."""
    node.prelude = f"import warren.server.peers as peers\npeers.VERSION = {version}"
    return node


def test_nodes_of_two_releases_work_together_and_of_three_do_not(etcd: EtcdServer, tmp_path: Path) -> None:
    cluster = Cluster(etcd, [speaking(NodeProcess(etcd, tmp_path / "old"), VERSION - 1)])
    try:
        old = cluster.nodes[0]
        wait_for(lambda: old.roles() == ["leader"], 60, "the old node's lead")
        new = NodeProcess(etcd, tmp_path / "new").start()
        cluster.nodes.append(new)
        cluster.wait_in_sync(2, 60)
        far = speaking(NodeProcess(etcd, tmp_path / "far"), VERSION + 1).start()
        cluster.nodes.append(far)
        wait_for(lambda: "upgrade by one minor release at a time" in far.errors.read_text(), 60, "a refusal")
        far.kill()
        publisher = Publisher([new.amqp_port], "orders")
        publisher.publish(5)
        publisher.close()
        assert cluster.command("transfer").returncode == 0
        wait_for(lambda: new.roles()[-1] == "leader", 60, "the new node's lead")
        cluster.wait_in_sync(2, 60)
        publisher = Publisher([old.amqp_port], "orders")
        publisher.publish(5)
        publisher.close()
        assert len(drained([old.amqp_port], "orders")) == 10
    finally:
        cluster.stop()
