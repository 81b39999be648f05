"""A sync that takes long: large messages stop their publisher at a bound of bytes, and go on when it is over."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pika
import pytest

from warren import Broker
from warren.broker.settings import MIB
from warren.server import life
from warren.store.disk import RealDisk

MESSAGES = 60
UNSYNCED_MAX = 4 * MIB


class SlowDisk:
    """A disk whose syncs wait while it is held."""

    def __init__(self, folder: Path, go_on: threading.Event) -> None:
        self._disk = RealDisk(folder)
        self._go_on = go_on
        for name in ("names", "create", "open", "close", "append", "read", "size", "truncate", "sync_directory"):
            setattr(self, name, getattr(self._disk, name))
        self.replace, self.remove = self._disk.replace, self._disk.remove

    def sync(self, handle: int) -> None:
        assert self._go_on.wait(60)
        self._disk.sync(handle)


def publish_all(url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        for _ in range(MESSAGES):
            channel.basic_publish("", "q", bytes(MIB), pika.BasicProperties(delivery_mode=2))


def test_large_messages_that_wait_for_the_disk_stop_their_publisher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    go_on.set()
    monkeypatch.setattr(life, "RealDisk", lambda folder: SlowDisk(folder, go_on))
    with Broker(data_dir=str(tmp_path), unsynced_max=UNSYNCED_MAX) as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            connection.channel().queue_declare("q", durable=True)
            go_on.clear()
            publisher = threading.Thread(target=publish_all, args=(broker.url,))
            publisher.start()
            deadline = time.monotonic() + 30
            while "flow" not in broker.call(lambda node: [each.state for each in node.connections.values()]):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            taken = broker.call(lambda node: int(node.vhosts["/"].queues["q"].backing.length))
            assert UNSYNCED_MAX // MIB <= taken <= 2 * UNSYNCED_MAX // MIB + 2
            go_on.set()
            publisher.join(60)
        assert broker.call(lambda node: int(node.vhosts["/"].queues["q"].backing.length)) == MESSAGES
