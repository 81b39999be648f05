"""Streams read from followers of three real nodes: what is committed and nothing else, by the leader's rules."""

from __future__ import annotations

import json
import signal
import urllib.request
from base64 import b64encode
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.replication.real_nodes import Cluster, NodeProcess, connect, needs_etcd, wait_for

pytestmark = [
    needs_etcd,
    pytest.mark.timeout(180),
]
STREAM = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 20000}


class Reader:
    """Of a stream on one port, from an offset on. It waits until the port has heard of the stream."""

    def __init__(self, port: int, stream: str, offset: int | str = "first", user: str = "guest") -> None:
        self.found: dict[int, bytes] = {}
        self.is_cancelled = False
        self._parameters = pika.ConnectionParameters("127.0.0.1", port, credentials=pika.PlainCredentials(user, user))
        self._stream = stream
        self._offset = offset
        wait_for(self._begins, 60, f"a reader at {port}")

    def _begins(self) -> bool:
        try:
            self.connection = pika.BlockingConnection(self._parameters)
            channel = self.connection.channel()
            channel.add_on_cancel_callback(self._cancelled)
            channel.basic_qos(prefetch_count=500)
            channel.basic_consume(self._stream, self._take, arguments={"x-stream-offset": self._offset})
        except pika.exceptions.AMQPConnectionError:
            # It does not serve yet, or begins its copy anew.
            return False
        except pika.exceptions.ChannelClosedByBroker as error:
            self.connection.close()
            if error.reply_code != 404:
                raise
            return False
        return True

    def _take(self, channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        offset = properties.headers["x-stream-offset"]
        assert offset not in self.found
        self.found[offset] = body
        channel.basic_ack(method.delivery_tag)

    def _cancelled(self, _: Any) -> None:
        self.is_cancelled = True

    def look(self) -> None:
        self.connection.process_data_events(0.02)

    def read_until(self, offset: int) -> dict[int, bytes]:
        def has_it() -> bool:
            self.look()
            return offset in self.found

        wait_for(has_it, 60, f"offset {offset}")
        return self.found

    def close(self) -> dict[int, bytes]:
        self.connection.close()
        return self.found


def publish(cluster: Cluster, stream: str, numbers: range) -> None:
    connection = connect([cluster.leader().amqp_port])
    channel = connection.channel()
    channel.queue_declare(stream, durable=True, arguments=STREAM)
    for number in numbers[:-1]:
        channel.basic_publish("", stream, message(number))
    # Those before the last one are safe when it is.
    channel.confirm_delivery()
    channel.basic_publish("", stream, message(numbers[-1]))
    connection.close()


def message(number: int) -> bytes:
    return b"%d " % number * 50


def history(numbers: range) -> dict[int, bytes]:
    return {number: message(number) for number in numbers}


def api(node: NodeProcess, method: str, path: str, body: object = None) -> Any:
    request = urllib.request.Request(f"{node.http_url}/api/{path}", method=method)
    request.add_header("Authorization", "Basic " + b64encode(b"guest:guest").decode())
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, data) as response:
        content = response.read()
    return json.loads(content) if content else None


def test_followers_serve_what_the_leader_has_and_what_comes(cluster: Cluster, queue: str) -> None:
    publish(cluster, queue, range(200))
    readers = [Reader(node.stream_port, queue) for node in cluster.followers()]
    for reader in readers:
        assert reader.read_until(199) == history(range(200))
    publish(cluster, queue, range(200, 400))
    for reader in readers:
        assert reader.read_until(399) == history(range(400))
    # The leader has written all of it and has sent nobody anything.
    leader = cluster.leader()
    assert api(leader, "GET", f"queues/%2F/{queue}")["consumers"] == 0
    later = Reader(cluster.followers()[0].stream_port, queue, 390)
    later.read_until(399)
    assert later.close() == history(range(390, 400))
    for reader in readers:
        reader.close()
    streams = {node["amqp"]: node["streams"] for node in cluster.status()}
    assert streams == {
        node.address: "" if node is leader else f"127.0.0.1:{node.stream_port}" for node in cluster.nodes
    }


def test_nothing_is_shown_before_every_node_in_sync_has_it(cluster: Cluster, queue: str) -> None:
    publish(cluster, queue, range(10))
    awake, asleep = cluster.followers()
    uuid = cluster.uuid_of(asleep)
    reader = Reader(awake.stream_port, queue)
    reader.read_until(9)
    connection = connect([cluster.leader().amqp_port])
    channel = connection.channel()
    asleep.signal(signal.SIGSTOP)
    try:
        # Not confirmed, so that it can be looked for meanwhile.
        channel.basic_publish("", queue, message(10))

        def is_seen() -> bool:
            reader.look()
            return 10 in reader.found

        wait_for(is_seen, 60, "the message that waits for a node")
        # It does not have it, so it must have been put out first.
        assert uuid not in [node["uuid"] for node in cluster.status() if node["in_sync"]]
    finally:
        asleep.signal(signal.SIGCONT)
        reader.close()
        connection.close()


def test_who_may_read_is_decided_as_on_the_leader(cluster: Cluster, queue: str) -> None:
    publish(cluster, queue, range(10))
    leader, port = cluster.leader(), cluster.followers()[0].stream_port
    api(leader, "PUT", "users/anna", {"password": "anna", "tags": ""})
    api(leader, "PUT", "permissions/%2F/anna", {"configure": "", "write": "", "read": queue})
    reader = Reader(port, queue, user="anna")
    assert reader.read_until(9) == history(range(10))
    # Taken from her while she reads.
    api(leader, "PUT", "permissions/%2F/anna", {"configure": "", "write": "", "read": "other"})

    def is_cancelled() -> bool:
        reader.look()
        return reader.is_cancelled

    wait_for(is_cancelled, 60, "the end of a consumer without rights")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"read access to queue 'test_who_may.*refused"):
        Reader(port, queue, user="anna")
    api(leader, "DELETE", "users/anna")

    def is_closed() -> bool:
        try:
            reader.look()
        except pika.exceptions.ConnectionClosedByBroker as error:
            return "user 'anna' is deleted" in error.reply_text
        return False

    wait_for(is_closed, 60, "the end of a connection whose user is gone")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", port, credentials=pika.PlainCredentials("anna", "anna"))
        )


def test_everything_else_is_refused_there(cluster: Cluster, queue: str) -> None:
    publish(cluster, queue, range(10))
    port = cluster.followers()[0].stream_port
    reader = Reader(port, queue)
    reader.read_until(9)
    reader.close()

    def refused(ask: Any) -> tuple[int, str]:
        connection = connect([port])
        channel = connection.channel()
        with pytest.raises((pika.exceptions.ConnectionClosedByBroker, pika.exceptions.ChannelClosedByBroker)) as found:
            ask(channel)
            connection.process_data_events(5)
        if connection.is_open:
            connection.close()
        return found.value.reply_code, found.value.reply_text

    for ask in (
        lambda channel: channel.basic_publish("", queue, b"no"),
        lambda channel: channel.queue_declare("other", durable=True),
        lambda channel: channel.queue_delete(queue),
        lambda channel: channel.basic_get(queue),
        lambda channel: channel.tx_select(),
    ):
        code, text = refused(ask)
        assert code == 540
        assert "for readers of streams" in text
    code, text = refused(lambda channel: channel.queue_declare("orders", passive=True))
    assert code == 404
    assert "no stream 'orders'" in text
    connection = connect([port])
    assert connection.channel().queue_declare(queue, passive=True).method.message_count == 10
    connection.close()


def test_readers_are_told_to_go_when_the_leader_does_and_go_on_elsewhere(cluster: Cluster, queue: str) -> None:
    publish(cluster, queue, range(300))
    first, followers = cluster.leader(), cluster.followers()
    readers = {node: Reader(node.stream_port, queue) for node in followers}
    for reader in readers.values():
        reader.read_until(299)
    first.kill()
    for reader in readers.values():

        def is_told(reader: Reader = reader) -> bool:
            try:
                reader.look()
            except pika.exceptions.ConnectionClosedByBroker as error:
                return bool(error.reply_code == 320)
            return False

        wait_for(is_told, 60, "a word to those who read")
    # For as long as its lease the dead one is the leader.
    wait_for(lambda: cluster.leader() is not first, 60, "another leader")
    second = cluster.leader()
    publish(cluster, queue, range(300, 400))
    (other,) = [node for node in followers if node is not second]
    again = Reader(other.stream_port, queue, 250)
    assert again.read_until(399) == history(range(250, 400))
    again.close()
    # The leader serves at its AMQP port, so that nobody replays history there unaware.
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", second.stream_port))
    first.start()
    cluster.wait_in_sync(3)
    returned = Reader(first.stream_port, queue)
    assert returned.read_until(399) == history(range(400))
    returned.close()


def test_a_deleted_vhost_is_gone_there_too(cluster: Cluster, queue: str) -> None:
    publish(cluster, queue, range(10))
    leader, port = cluster.leader(), cluster.followers()[0].stream_port
    api(leader, "PUT", "vhosts/other")
    api(leader, "PUT", "permissions/other/guest", {"configure": ".*", "write": ".*", "read": ".*"})

    def can_connect() -> bool:
        try:
            pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, "other")).close()
        except pika.exceptions.AMQPError:
            return False
        return True

    wait_for(can_connect, 60, "a vhost")
    api(leader, "DELETE", "vhosts/other")
    wait_for(lambda: not can_connect(), 60, "the end of a vhost")
    reader = Reader(port, queue)
    assert reader.read_until(9) == history(range(10))
    reader.close()


def test_streams_come_go_and_lose_their_oldest_part_there_too(cluster: Cluster, queue: str) -> None:
    publish(cluster, queue, range(10))
    leader, port = cluster.leader(), cluster.followers()[0].stream_port
    reader = Reader(port, queue)
    reader.read_until(9)
    api(leader, "DELETE", f"queues/%2F/{queue}")

    def is_cancelled() -> bool:
        reader.look()
        return reader.is_cancelled

    wait_for(is_cancelled, 60, "the end of a deleted stream")
    reader.close()
    # Under the same name, with another history that keeps little.
    policy = {"pattern": queue, "definition": {"max-length-bytes": 60000}, "apply-to": "queues"}
    api(leader, "PUT", "policies/%2F/short", policy)
    # In pieces: only what is durable when a file is full can be given up.
    for first in range(1000, 1500, 25):
        publish(cluster, queue, range(first, first + 25))

    def is_short_and_whole() -> bool:
        again = Reader(port, queue)
        found = again.read_until(499)
        again.close()
        # What goes while it is read leaves a gap.
        assert found == {offset: message(1000 + offset) for offset in found}
        return min(found) > 200 and len(found) == 500 - min(found)

    wait_for(is_short_and_whole, 60, "retention")


def test_a_leader_whose_old_file_has_rotted_does_not_send_it_over_a_whole_copy(cluster: Cluster, queue: str) -> None:
    leader, follower = cluster.leader(), cluster.followers()[0]
    others = set((leader.folder / "messages").glob("*.stream"))
    publish(cluster, queue, range(500))
    before = Reader(follower.stream_port, queue)
    before.read_until(499)
    before.close()
    file = min(set((leader.folder / "messages").glob("*.stream")) - others)
    copy = follower.folder / "messages" / file.name
    assert follower.terminate() == 0
    written = copy.read_bytes()
    assert written == file.read_bytes()
    with file.open("r+b") as rotting:
        rotting.seek(len(written) // 2)
        rotting.write(b"?")
    cluster.wait_in_sync(2)
    follower.start()
    cluster.wait_in_sync(3)
    assert copy.read_bytes() == written
    assert f"{file.name} is damaged here" in leader.errors.read_text()
    # What the leader has lost is read from there, and there it is found out and repaired when another leads.
    reader = Reader(follower.stream_port, queue)
    assert reader.read_until(499) == history(range(500))
    reader.close()
    assert cluster.command("transfer", cluster.uuid_of(follower)).returncode == 0
    wait_for(lambda: cluster.leader() is follower, 60, "another leader")
    wait_for(lambda: file.read_bytes() == written, 60, "a repaired file")
